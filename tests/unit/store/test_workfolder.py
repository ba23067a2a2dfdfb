from __future__ import annotations

import getpass
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envmgr.errors import EnvmgrError
from envmgr.store.workfolder import private_folder, work_folder

INSTALL: Any = SimpleNamespace(entry=SimpleNamespace(name="zlib"), label="1.3-12345678")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the name would be taken in the folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp" / f"envmgr-build-{getpass.getuser()}"


def site(build_dir: Path | None = None) -> Any:
    return SimpleNamespace(build_dir=build_dir)


def test_build_goes_on_where_a_stranger_took_the_name(place: Path, tmp_path: Path) -> None:
    own = tmp_path / "home/.cache/envmgr" / place.name / "zlib-1.3-12345678"
    assert work_folder(site(), INSTALL) == place / "zlib-1.3-12345678"
    place.mkdir(0o700)
    assert work_folder(site(), INSTALL) == place / "zlib-1.3-12345678"
    place.chmod(0o777)
    assert work_folder(site(), INSTALL) == own
    place.rmdir()
    place.symlink_to(tmp_path)
    assert work_folder(site(), INSTALL) == own
    place.unlink()
    place.touch()
    assert work_folder(site(), INSTALL) == own
    with private_folder(own):
        assert own.stat().st_uid == os.geteuid()
    assert not own.parent.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of others")
def test_folder_of_another_user(place: Path, tmp_path: Path) -> None:
    place.mkdir(0o700)
    os.chown(place, 65534, 65534)
    assert work_folder(site(), INSTALL).is_relative_to(tmp_path / "home")


def test_place_that_the_site_names_is_taken_or_refused(place: Path, tmp_path: Path) -> None:
    named = tmp_path / "named"
    (named / place.name).mkdir(parents=True, mode=0o777)
    (named / place.name).chmod(0o777)
    folder = work_folder(site(named), INSTALL)
    assert folder.is_relative_to(named)
    with pytest.raises(EnvmgrError, match="is not ours alone"), private_folder(folder):
        pass
