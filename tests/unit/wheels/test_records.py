"""What wheels promise before they are unpacked."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import warnings
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from envmgr.wheels.fetch import wheel_failure
from envmgr.wheels.unpack import BadWheel, Ended, Overlap, promised, unpack, unpack_all
from tests.helpers.wheelhouse import Wheelhouse

PACKAGES = "lib/python3.11/site-packages"


def test_places_of_each_scheme(tmp_path: Path) -> None:
    data = "one-1.0.data"
    files = {
        f"{data}/scripts/tool": "#!python\n",
        f"{data}/data/etc/x": "x",
        f"{data}/headers/one.h": "h",
        f"{data}/purelib/pure.py": "p",
        f"{data}/platlib/plat.so": "s",
        "pkg/__pycache__/x.cpython-311.pyc": "c",
    }
    wheel = Wheelhouse(tmp_path).wheel("one", files=files, scripts={"run": "one:main"})
    found = promised([wheel], "3.11")
    assert found.files["etc/x"] == hashlib.sha256(b"x").hexdigest()
    own = {path for path in found.files if "dist-info" not in path}
    assert own == {
        "etc/x",
        "include/site/python3.11/one/one.h",
        f"{PACKAGES}/pure.py",
        f"{PACKAGES}/plat.so",
        f"{PACKAGES}/one.py",
    }
    assert {"bin", "etc", PACKAGES, "include/site/python3.11/one"} <= {*found.folders}


def test_same_content_is_no_overlap_and_other_content_is(tmp_path: Path) -> None:
    house = Wheelhouse(tmp_path)
    one = house.wheel("one", files={"nvidia/__init__.py": ""})
    two = house.wheel("two", files={"nvidia/__init__.py": ""})
    three = house.wheel("three", files={"nvidia/__init__.py": "x"})
    assert f"{PACKAGES}/nvidia/__init__.py" in promised([one, two], "3.11").files
    with pytest.raises(Overlap) as told:
        promised([one, two, three], "3.11")
    assert told.value.details == {"path": f"{PACKAGES}/nvidia/__init__.py", "first": one.name, "second": three.name}


def test_two_scripts_of_one_name_overlap_unless_they_start_the_same(tmp_path: Path) -> None:
    house = Wheelhouse(tmp_path)
    one, two, three = (house.wheel(n, scripts={"tool": f"{m}:main"}) for n, m in (("a", "a"), ("b", "a"), ("c", "c")))
    promised([one, two], "3.11")
    with pytest.raises(Overlap, match="bin/tool is in a-1"):
        promised([one, three], "3.11")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("../x", "has a path that is not plain: ../x"),
        ("/etc/x", "cannot be read: ValueError: Can't mix absolute and relative paths"),
        ("a/../../x", "has a path that is not plain: a/../../x"),
        ("a//x", "has a path that is not plain: a//x"),
        ("./x", "has a path that is not plain: ./x"),
        ("a\u202ex", "has a path that is not plain: a"),
        ("one-1.0.data/nowhere/x", "there is no scheme `nowhere`"),
    ],
)
def test_paths_that_leave_the_install_or_have_two_spellings(tmp_path: Path, path: str, told: str) -> None:
    with pytest.raises(BadWheel, match=re.escape(told)):
        promised([Wheelhouse(tmp_path).wheel("one", files={path: "x"})], "3.11")


RECORD = "one-1.0.dist-info/RECORD"


def rewritten(wheel: Path, record: Callable[[str], str] = str, more: Sequence[tuple[str, str]] = ()) -> Path:
    """With another RECORD, and with files that are in none."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(name, archive.read(name).decode()) for name in archive.namelist()]
    with warnings.catch_warnings(), zipfile.ZipFile(wheel, "w") as archive:
        warnings.simplefilter("ignore")  # a name that is there twice
        for name, text in [*files, *more]:
            archive.writestr(name, record(text) if name == RECORD else text)
    return wheel


@pytest.mark.parametrize(
    ("record", "more", "told"),
    [
        (str, [("extra.py", "x")], "extra.py is not mentioned in RECORD"),
        (str, [("one.py", "x")], "one.py is not mentioned in RECORD"),  # it is there twice
        (str, [("sub/RECORD.jws", "x")], "sub/RECORD.jws is not mentioned in RECORD"),
        (lambda text: text + "absent.py\n", [], "expected 3 elements, got 1"),
        (lambda text: text.replace("sha256=", ""), [], "`hash` does not follow the required format"),
    ],
)
def test_record_that_does_not_tell_all(
    tmp_path: Path, record: Callable[[str], str], more: list[tuple[str, str]], told: str
) -> None:
    with pytest.raises(BadWheel, match=re.escape(told)):
        promised([rewritten(Wheelhouse(tmp_path).wheel("one"), record, more)], "3.11")


def test_signatures_are_in_no_record_and_bytecode_may_be_absent(tmp_path: Path) -> None:
    """Bytecode that is no cache is a module, and counts as one."""
    wheel = Wheelhouse(tmp_path).wheel("one", files={"mod.pyc": "x", "pkg/__pycache__/a.cpython-311.pyc": "x"})
    rewritten(
        wheel,
        lambda text: f"{text}__pycache__/b.pyc,,\n",
        [(f"{RECORD}.jws", "x"), (f"{RECORD}.p7s", "y"), ("pkg/", "")],
    )
    found = promised([wheel], "3.11")
    assert f"{PACKAGES}/{RECORD}.jws" in found.paths
    assert f"{PACKAGES}/mod.pyc" in found.files
    assert not [path for path in found.paths if "__pycache__" in path]


@pytest.mark.parametrize(
    "path",
    [
        "pyvenv.cfg",
        "bin/pyvenv.cfg",
        "bin/pybuilddir.txt",
        "bin/python3.11",
        "bin/python",
        "lib/python311.zip",
        "lib/libpython3.11.so.1.0",
        "lib/python3.11/sitecustomize.py",
        "lib/python3.11/os.py",
        "lib64/python3.11/os.py",
    ],
)
def test_files_of_the_python_itself(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadWheel, match="has a file of the Python that it is installed into"):
        promised([Wheelhouse(tmp_path).wheel("one", files={f"one-1.0.data/data/{path}": "x"})], "3.11")


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", "-x", "x\u202e", ".hidden", "python", "python3.11"])
def test_names_of_scripts(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadWheel, match="has a script with the name"):
        promised([Wheelhouse(tmp_path).wheel("one", scripts={name: "one:main"})], "3.11")


def test_folder_of_data_is_the_wheels_own(tmp_path: Path) -> None:
    """As it is for the installer: another one is a package."""
    found = promised([Wheelhouse(tmp_path).wheel("one", files={"two-1.0.data/scripts/x": "x"})], "3.11")
    assert f"{PACKAGES}/two-1.0.data/scripts/x" in found.files


def test_file_that_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "one-1.0-py3-none-any.whl").write_text("no zip")
    with pytest.raises(BadWheel, match="cannot be read"):
        promised([tmp_path / "one-1.0-py3-none-any.whl"], "3.11")


@pytest.mark.parametrize(
    ("points", "told"),
    [
        ("[console_scripts]\ntool = one\n", "ValueError: a script of its entry_points.txt names no function"),
        ("[console_scripts]\nx = os; evil:y\n", "ValueError: a script of its entry_points.txt names no function"),
        ("[console_scripts]\ntool\n", "ParsingError: Source contains parsing errors: '<string>'"),
        ("no section", "MissingSectionHeaderError: File contains no section headers."),
    ],
)
def test_script_that_starts_nothing_is_the_wheels_fault(tmp_path: Path, points: str, told: str) -> None:
    wheel = Wheelhouse(tmp_path).wheel("one", files={"one-1.0.dist-info/entry_points.txt": points})
    with pytest.raises(BadWheel, match=re.escape(f"{wheel.name} cannot be read: {told}")):
        promised([wheel], "3.11")


@pytest.mark.parametrize(
    "row",
    [
        "one.py,sha256=x,1",
        "one.py,sha256=é,1",
        "one.py,nothing=x,1",
        f"one.py,sha256={'A' * 43},{'9' * 5000}",
        "one.py,,x",
        ",,",
    ],
)
def test_row_of_a_record_that_is_none_raises_nothing_else(tmp_path: Path, row: str) -> None:
    """An error of a library tells nobody what is wrong, and some cannot be sent from one process to another."""
    wheel = tmp_path / "one-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("one.py", "")
        archive.writestr("one-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        archive.writestr("one-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n")
        archive.writestr("one-1.0.dist-info/RECORD", f"{row}\n")
    with suppress(BadWheel):
        promised([wheel], "3.11")
    with suppress(BadWheel):
        unpack(wheel, tmp_path / "root", Path("/final"), "3.11")


def test_process_that_unpacks_and_is_killed_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = Wheelhouse(tmp_path).wheel("one")
    monkeypatch.setattr("envmgr.wheels.unpack._FEW", 0)
    monkeypatch.setattr("envmgr.wheels.unpack.unpack", killed)
    with pytest.raises(Ended) as told:
        unpack_all([wheel], tmp_path / "root", Path("/final"), "3.11", 1)
    said = wheel_failure("x/1")({"kind": "Ended", "message": str(told.value)}, {"cache": "/c"}).render()
    assert said.startswith("error[install-failed]: a process that unpacks wheels was killed\n")
    assert "terminated abruptly" not in said


def killed(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
