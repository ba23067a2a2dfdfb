"""What of a user's own files keeps modules, environments and notebooks from working."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.people import first_aid
from envmgr.people.first_aid import own_findings
from envmgr.people.places import user_places
from envmgr.report import Finding
from envmgr.store.prefix import Prefix


def found(tmp_path: Path, **environ: str) -> list[Finding]:
    own = {"HOME": str(tmp_path / "home"), **environ}
    (tmp_path / "home").mkdir(exist_ok=True)
    return [*own_findings(own, user_places(own), Prefix(tmp_path / "prefix"), None)]


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    assert found(tmp_path, ENVMGR_PIN="/another/prefix/generations/0001") == []
    assert [*(tmp_path / "home").iterdir()] == []


def test_generation_that_was_removed(tmp_path: Path) -> None:
    (one,) = found(tmp_path, ENVMGR_PIN=f"{tmp_path}/prefix/generations/0003")
    assert (one.check, one.severity, one.found) == ("generation", "error", "its generation 0003 was removed")


@pytest.mark.parametrize("place", ["old", "venvs/old"])
def test_virtual_environment_whose_python_is_gone(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "home" / place
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    assert found(tmp_path) == []  # without a Python it is another tool's
    (folder / "bin/python").symlink_to("/gone/bin/python")
    (one,) = found(tmp_path)
    assert (one.severity, one.where) == ("error", str(folder))
    assert one.found == "the Python that it stands on is gone: /gone/bin/python"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"argv": []}', '{"argv": ["python"]}', '{"argv": ["/bin/sh"]}'])
def test_kernel_that_is_no_kernel_or_is_well_is_not_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "home/.local/share/jupyter/kernels/x/kernel.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert found(tmp_path) == []


def test_home_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(122, "Disk quota exceeded")

    monkeypatch.setattr(first_aid.os, "posix_fallocate", full)
    (one,) = found(tmp_path)
    assert one.found == "your quota is used up: there is no room for 1 MB"
