"""What wheels promise before they are unpacked."""

from __future__ import annotations

import hashlib
import os
import signal
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from envmgr.wheels.failures import failure
from envmgr.wheels.records import BadWheel, Overlap, promised
from envmgr.wheels.unpack import Ended, unpack, unpack_all
from tests.helpers.wheelhouse import Wheelhouse

PACKAGES = "lib/python3.11/site-packages"


def test_places_of_each_scheme(tmp_path: Path) -> None:
    data = "one-1.0.data"
    files = {
        f"{data}/scripts/tool": "#!python\n", f"{data}/data/etc/x": "x", f"{data}/headers/one.h": "h", f"{data}/purelib/pure.py": "p",
        f"{data}/platlib/plat.so": "s", "pkg/__pycache__/x.cpython-311.pyc": "c",
    }  # fmt: skip
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


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "one-1.0.data/nowhere/x"])
def test_paths_that_leave_the_install(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadWheel):
        promised([Wheelhouse(tmp_path).wheel("one", files={path: "x"})], "3.11")


def test_file_that_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "one-1.0-py3-none-any.whl").write_text("no zip")
    with pytest.raises(BadWheel, match="cannot be read"):
        promised([tmp_path / "one-1.0-py3-none-any.whl"], "3.11")


@pytest.mark.parametrize("points", ["tool", "tool = one", "tool = one:", "tool = !"])
def test_script_that_starts_nothing_is_the_wheels_fault(tmp_path: Path, points: str) -> None:
    text = f"[console_scripts]\n{points}\n"
    wheel = Wheelhouse(tmp_path).wheel("one", files={"one-1.0.dist-info/entry_points.txt": text})
    with pytest.raises(BadWheel) as told:
        promised([wheel], "3.11")
    assert str(told.value).startswith(f"{wheel.name} ")
    assert "AssertionError" not in str(told.value)


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
    monkeypatch.setattr("envmgr.wheels.unpack.unpack", killed)
    with pytest.raises(Ended) as told:
        unpack_all([wheel], tmp_path / "root", Path("/final"), "3.11", 1)
    said = failure({"kind": "Ended", "message": str(told.value)}, {}).render()
    assert said.startswith("error[install-failed]: a process that unpacks wheels was killed\n")
    assert "terminated abruptly" not in said


def killed(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
