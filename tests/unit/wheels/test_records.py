"""What wheels promise before they are unpacked."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from envmgr.wheels.records import BadWheel, Overlap, promised
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
