"""What the Spack backend reads: the lock of a real Spack, and its answers; without a Spack."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from envmgr.backends.spack.backend import SpackBackend, _cuda, _packages
from envmgr.backends.spack.install import _environment, _require_externals
from envmgr.backends.spack.models import SpackInput, SpackSettings, SpackSource
from envmgr.backends.spack.tool import Spack
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.errors import EnvmgrError
from envmgr.system.spack_files import in_order, lock_of
from tests.helpers.spack_tree import LOCKED, recorded, write_spack_lock

ROOT = Path("/opt/envmgr/store/bzip2/1.0.8-fab9ca1b")
FILE = Path("spack.lock")


def lock(text: str = "") -> Any:
    return lock_of(text or recorded("environment/spack.lock"), FILE)


def test_lock_says_packages_software_of_the_system_and_the_spack() -> None:
    found = lock()
    assert _packages(found) == {
        "bzip2": "1.0.8 v6chp4fv",
        "diffutils": "3.8 s6hkvnby",
        "gcc-runtime": "12.2.0 bwhvedyr",
        "glibc": "2.36 bvqfy73z",
        "gmake": "4.3 5tpnt3wu",
    }
    assert found.spack == "0.23.0.dev0 1f6da280b77570410d832ea42e481764bcfd793f"
    externals = {spec.name: spec.path for spec in found.specs.values() if spec.external}
    assert externals == {"diffutils": "/usr", "glibc": "/usr", "gmake": "/usr"}
    assert {spec.target for spec in found.specs.values()} == {"x86_64_v3"}


def test_order_of_a_lock_is_ours() -> None:
    data = json.loads(recorded("environment/spack.lock"))
    data["roots"] += [{"hash": "a" * 32, "spec": "zlib"}]
    other = {**data, "roots": data["roots"][::-1], "concrete_specs": dict([*data["concrete_specs"].items()][::-1])}
    assert json.dumps(other) != json.dumps(data)
    text = in_order(json.dumps(data), FILE)
    assert in_order(json.dumps(other), FILE) == text
    assert lock(text).specs == lock(json.dumps(data)).specs


def test_of_two_packages_with_one_name_a_root_counts() -> None:
    data = json.loads(recorded("environment/spack.lock"))
    (own,) = (row["hash"] for row in data["roots"])
    data["concrete_specs"]["z" * 32] = {**data["concrete_specs"][own], "version": "1.0.7"}
    assert _packages(lock(json.dumps(data)))["bzip2"] == "1.0.8 v6chp4fv"


def test_cuda_is_that_of_a_package() -> None:
    assert _cuda(lock()) is None
    data = json.loads(recorded("environment/spack.lock"))
    next(iter(data["concrete_specs"].values())).update(name="cuda", version="12.6.2")
    assert _cuda(lock(json.dumps(data))) == "12.6"


def test_module_gets_folders_of_the_install_and_what_any_module_may_change() -> None:
    said: list[str] = []
    reporter: Any = SimpleNamespace(log=said.append)
    loaded: Any = SimpleNamespace(entry=Entry("bzip2", "1.0.8"))
    own = f"{ROOT}/bzip2/1.0.8-v6chp4fv"
    changes = [
        *json.loads(recorded("environment/environment.json")),
        ["PrependPath", "PYTHONPATH", f"{own}/lib/python", ":"],
        ["PrependPath", "LD_LIBRARY_PATH", "/opt/other/lib", ":"],
        ["SetEnv", "BZIP2_DIR", own, ":"],
        ["SetEnv", "LD_PRELOAD", f"{own}/lib/x.so", ":"],
        ["PruneDuplicatePaths", "PATH", "", ":"],
    ]
    found = [(op.kind, op.name, op.value) for op in _environment(changes, ROOT, loaded, reporter)]
    assert found == [
        ("prepend", "CMAKE_PREFIX_PATH", f"{ROOT}/gcc-runtime/12.2.0-bwhvedyr"),
        ("prepend", "PATH", f"{own}/bin"),
        ("prepend", "MANPATH", f"{own}/man"),
        ("prepend", "PKG_CONFIG_PATH", f"{own}/lib/pkgconfig"),
        ("prepend", "CMAKE_PREFIX_PATH", own),
        ("prepend", "PATH", f"{own}/bin"),
        ("prepend", "PYTHONPATH", f"{own}/lib/python"),
        ("set", "BZIP2_DIR", own),
    ]
    assert said[0] == "bzip2/1.0.8: left out prepend MANPATH /usr/share/man: it is no folder of the install"
    assert "bzip2/1.0.8: left out prepend LD_LIBRARY_PATH /opt/other/lib: it is no folder of the install" in said
    assert f"bzip2/1.0.8: left out set LD_PRELOAD {own}/lib/x.so: it reaches into other programs" in said


def test_software_of_the_system_that_is_not_here_is_named() -> None:
    loaded: Any = SimpleNamespace(entry=Entry("bzip2", "1.0.8"), content=lock())
    _require_externals(loaded)
    text = recorded("environment/spack.lock").replace('"path":"/usr"', '"path":"/nowhere"')
    loaded.content = lock(text)
    with pytest.raises(EnvmgrError) as caught:
        _require_externals(loaded)
    assert caught.value.reference == "external-missing"
    assert "gmake 4.3 in /nowhere" in caught.value.context


def test_source_has_upstreams_name_and_place_in_a_mirror_of_spack() -> None:
    (row,) = json.loads(recorded("environment/sources.json"))
    site: Any = SimpleNamespace(sources=SimpleNamespace(mirrors=("file:///mirror",)))
    file = SpackSource(**row).file(site)
    assert (file.name, file.mirrored) == ("bzip2-1.0.8.tar.gz", (f"file:///mirror/{row['place']}",))
    patch = SpackSource(**{**row, "urls": ("https://example.org/a.patch?full_index=1",)}).file(site)
    assert patch.name == f"{row['sha256']}.tar.gz"
    for place in ("../x", f"_source-cache/archive/ab/../{'a' * 64}"):
        with pytest.raises(ValidationError):
            SpackSource(**{**row, "place": place})


@pytest.mark.parametrize("spec", ["", "-e x", "/abcdef", "bzip2 /abcdef", "bzip2;id", "bzip2  zlib", "bzip2\n"])
def test_words_that_are_no_spec_are_refused(spec: str) -> None:
    with pytest.raises(ValidationError, match="is no spec"):
        SpackInput(specs=(spec,))
    assert SpackInput(specs=("hdf5@1.14: +mpi ^openmpi@4 %gcc cflags=-O3",)).specs


def test_settings_are_absolute_paths() -> None:
    with pytest.raises(ValidationError, match="must be an absolute path"):
        SpackSettings(spack=Path("spack"))


def test_lock_answers_recipe_and_the_sites_level(tmp_path: Path) -> None:
    write_spack_lock(tmp_path)
    entry, backend = Entry("bzip2", "1.0.8"), SpackBackend()

    def load(level: str, **given: Any) -> Any:
        recipe = Recipe(schema=1, backend="spack", input=given)
        site: Any = SimpleNamespace(cpu_level=level)
        return backend.load_lock(entry, recipe, tmp_path, site)

    assert load("x86-64-v2", **LOCKED).packages["bzip2"] == "1.0.8 v6chp4fv"
    assert load("x86-64-v3", specs=["bzip2@1.0.8"]).facts.cuda is None
    for level, given in (("x86-64-v2", {"specs": ["bzip2@1.0.8"]}), ("x86-64-v3", {"specs": ["bzip2@1.0.7"]})):
        with pytest.raises(EnvmgrError) as caught:
            load(level, **given)
        assert caught.value.reference == "lock-stale"
    (tmp_path / "spack.lock").write_text(recorded("spack.lock"))
    with pytest.raises(EnvmgrError) as caught:
        load("x86-64-v2", **LOCKED)
    assert caught.value.reference == "lock-invalid"


@pytest.mark.parametrize("said", ["", "\n", "x", "{}", "null", "\n[", "warning\n\n1"])
def test_spack_that_answers_otherwise_is_an_error_of_the_house(said: str) -> None:
    runner = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(stdout=said))
    tool = Spack(SpackSettings(spack=Path("/opt/spack")), Path("/work"), Path("/cache"), runner, said="9.9")  # type: ignore[arg-type]
    with pytest.raises(EnvmgrError, match="does not answer as expected") as caught:
        tool.ask("sources")
    assert caught.value.reference == "spack-failed"
    assert caught.value.hint


@pytest.mark.parametrize(
    "text", ["{}", "[]", "1", '{"_meta": {"lockfile-version": 5}}', '{"_meta": {"lockfile-version": 5}, "roots": 1}']
)
def test_lock_that_is_none_has_no_order(text: str) -> None:
    with pytest.raises(EnvmgrError) as caught:
        in_order(text, FILE)
    assert caught.value.reference == "spack-format"
