"""Files that a real Spack wrote, read without it; and databases that changed, or that a later Spack wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.existing.models import SpackSpec
from envmgr.backends.existing.spack import find_spec
from envmgr.errors import EnvmgrError
from envmgr.system.spack_files import database_of, lock_of, read_database
from tests.helpers.spack_tree import FOLDER, HASH, make_spack_tree, recorded, write_database

WHERE = Path("/a/index.json")
SPEC = "bzip2@1.0.8 %gcc@12.2.0 build_system=generic ~debug ~pic +shared arch=linux-debian12-x86_64_v2"


def changed(**fields: Any) -> str:
    data = json.loads(recorded("index.json"))
    data["database"]["installs"][HASH]["spec"].update(fields)
    return json.dumps(data)


def test_database_is_read() -> None:
    found = database_of(recorded("index.json"), WHERE)
    bzip2 = found[HASH]
    assert (bzip2.spec, bzip2.compiler, bzip2.target) == (SPEC, "gcc@12.2.0", "x86_64_v2")
    assert (bzip2.path, bzip2.installed, bzip2.explicit, bzip2.external) == (
        f"/opt/spack/tree/{FOLDER}",
        True,
        True,
        False,
    )
    assert {each.name for each in found.values() if each.external} == {"diffutils", "glibc", "gmake"}
    assert [each.name for each in found.values() if each.explicit] == ["bzip2"]


def test_lock_is_read() -> None:
    found = lock_of(recorded("spack.lock"), Path("spack.lock"))
    assert found.spack == "0.23.0.dev0 1f6da280b77570410d832ea42e481764bcfd793f"
    assert sorted(found.roots.values()) == [
        "bzip2@1.0.8 arch=None-None-x86_64_v2",
        "zlib@1.3.1 arch=None-None-x86_64_v2",
    ]
    assert found.specs[HASH].spec == SPEC


def test_spec_beside_an_install_says_the_same_as_the_database() -> None:
    nodes = json.loads(recorded("spec.json"))["spec"]["nodes"]
    installs = json.loads(recorded("index.json"))["database"]["installs"]
    (own,) = (node for node in nodes if node["hash"] == HASH)
    assert {key: own[key] for key in ("name", "version", "arch", "parameters")} == {
        key: installs[HASH]["spec"][key] for key in ("name", "version", "arch", "parameters")
    }


def test_target_that_spack_describes_is_its_name() -> None:
    arch = {"platform": "linux", "platform_os": "rocky9", "target": {"name": "zen4", "vendor": "AuthenticAMD"}}
    assert database_of(changed(arch=arch), WHERE)[HASH].target == "zen4"


def test_compiler_of_spack_1_is_a_dependency() -> None:
    found = database_of(changed(compiler=None, annotations={"compiler": "gcc@13"}), WHERE)[HASH]
    assert (found.compiler, found.spec.split()[1]) == ("gcc@13", "%gcc@13")
    below = [{"name": "llvm", "hash": "x", "parameters": {"deptypes": ["build"], "virtuals": ["c", "cxx"]}}]
    assert database_of(changed(compiler=None, dependencies=below), WHERE)[HASH].compiler == "llvm"


@pytest.mark.parametrize(
    "spec",
    [
        {"version": "1.0\nbackend: wheels"},
        {"name": "x\x1b[2J"},
        {"parameters": {"variant": "a\ntests: [{name: x, run: id}]"}},
        {"parameters": {"list": ["a", "b\r"]}},
        {"compiler": {"name": "gcc", "version": "1\n"}},
    ],
)
def test_text_that_acts_unseen_is_refused(spec: dict[str, object]) -> None:
    """It would become lines of a recipe's comment."""
    with pytest.raises(EnvmgrError, match="is no file of Spack") as caught:
        database_of(changed(**spec), WHERE)
    assert "\x1b" not in caught.value.render()


@pytest.mark.parametrize("version", ["9" * 5000, "\u0669", "-1", "7.0", [], None])
def test_format_that_is_no_number_of_spack(version: object) -> None:
    with pytest.raises(EnvmgrError, match="has format"):
        database_of(json.dumps({"database": {"version": version, "installs": {}}}), WHERE)


def test_later_format_is_told() -> None:
    data = json.loads(recorded("index.json"))
    data["database"]["version"] = "9"
    with pytest.raises(EnvmgrError) as caught:
        database_of(json.dumps(data), WHERE)
    assert caught.value.render() == (
        "error[spack-format]: /a/index.json has format '9', and this envmgr knows 5 to 8\n\n"
        "hint: a later Spack wrote it: use a later envmgr"
    )
    lock = json.loads(recorded("spack.lock"))
    lock["_meta"]["lockfile-version"] = 99
    with pytest.raises(EnvmgrError, match="knows 4 to 7"):
        lock_of(json.dumps(lock), WHERE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"database": 1}',
        '{"database": {"version": "7"}}',
        '{"database": {"version": "7", "installs": []}}',
        '{"database": {"version": "7", "installs": {"a": {"spec": {"name": "x"}}}}}',
        "[" * 100000,
    ],
)
def test_database_that_is_damaged_is_told(text: str) -> None:
    with pytest.raises(EnvmgrError) as caught:
        database_of(text, WHERE)
    assert caught.value.reference == "spack-format"


def test_install_is_found_and_what_became_of_it_is_told(tmp_path: Path) -> None:
    own = make_spack_tree(tmp_path / "tree")
    wanted = SpackSpec(tree=str(tmp_path / "tree"), hash=HASH)
    assert find_spec(wanted, str(own)).spec == SPEC
    assert read_database(tmp_path / "tree")[HASH].path == str(own)
    with pytest.raises(EnvmgrError, match="lies in"):
        find_spec(wanted, str(tmp_path))
    data = json.loads(recorded("index.json", str(tmp_path / "tree")))
    row = data["database"]["installs"].pop(HASH)
    other = "b" * 32
    data["database"]["installs"][other] = {**row, "path": f"{own}-new", "spec": {**row["spec"], "version": "1.0.9"}}
    write_database(tmp_path / "tree", data)
    with pytest.raises(EnvmgrError) as caught:
        find_spec(wanted, str(own))
    assert caught.value.reference == "spack-differs"
    assert caught.value.message == f"Spack's arnmn6t, at {own}, is not in the database any more"
    assert caught.value.context == (str(tmp_path / "tree"), f"there is bzip2@1.0.9/bbbbbbb in {own}-new")
