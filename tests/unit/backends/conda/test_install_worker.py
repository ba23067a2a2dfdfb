"""The rattler worker's own steps, without rattler."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from envmgr.backends.conda import install_worker
from tests.helpers.waiting import DEADLINE


class Slow:
    """A removal that waits until the first compilation is over; compilations that fail while there is something to remove."""

    def __init__(self, staging: Path, patch: pytest.MonkeyPatch, *, fails: bool) -> None:
        self.unpacked = staging / ".unpacked"
        self.unpacked.mkdir(parents=True)
        (self.unpacked / "package").write_text("x")
        self.tried: list[bool] = []
        self._fails = fails
        self._over = threading.Event()
        remove = shutil.rmtree

        def removed(folder: Path) -> None:
            assert self._over.wait(DEADLINE)
            remove(folder)

        patch.setattr(install_worker.shutil, "rmtree", removed)
        patch.setattr(install_worker, "compile_python", self._compile)

    def _compile(self, staging: Path, final: str, jobs: int, emit: object) -> None:  # noqa: ARG002 - the function's own
        assert (staging / ".unpacked", final, jobs) == (self.unpacked, "/final", 2)
        self.tried.append(self.unpacked.exists())
        self._over.set()
        if self._fails and self.tried[-1]:
            raise ChildProcessError("bytecode was not written: x.py")


def test_unpacked_packages_go_beside_the_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(tmp_path, monkeypatch, fails=False)
    install_worker.compile_beside_removal(tmp_path, "/final", 2)
    assert slow.tried == [True]
    assert not slow.unpacked.exists()


def test_compilation_that_failed_beside_the_removal_is_done_again_with_its_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(tmp_path, monkeypatch, fails=True)
    install_worker.compile_beside_removal(tmp_path, "/final", 2)
    assert slow.tried == [True, False]


def test_compilation_that_fails_for_itself_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".unpacked").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to("/bin/false")
    (tmp_path / "lib/python3.11").mkdir(parents=True)
    with pytest.raises(ChildProcessError):
        install_worker.compile_beside_removal(tmp_path, "/final", 2)
    assert not (tmp_path / ".unpacked").exists()


def test_removal_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        install_worker.compile_beside_removal(tmp_path, "/final", 2)
