"""What was made again takes the place of a damaged install, by renames; where no mounts are to be had nothing is made."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envmgr.builds.again import AgainWork, MadeAgain, exchange_install, require_own_mounts
from envmgr.catalog.names import Entry
from envmgr.errors import EnvmgrError
from envmgr.store.manifest import InstallFacts, make_manifest, write_manifest
from envmgr.store.prefix import Install, Item, Prefix
from envmgr.store.tree import make_read_only
from envmgr.system import sandbox
from envmgr.system.run import Runner

SITE: Any = SimpleNamespace(policies=SimpleNamespace(group=None, mask=0o027))


def tree(path: Path, text: str) -> None:
    path.mkdir(parents=True)
    (path / "file").write_text(text)
    make_read_only(path)


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """It is damaged, with a module elsewhere."""
    found = Install(Prefix(tmp_path), Entry("a", "1"), "0" * 64)
    tree(found.path, "damaged")
    found.manifest.write_text("old")
    (tmp_path / "module").mkdir()  # somebody put a folder there
    return found


@pytest.fixture
def made(install: Install) -> MadeAgain:
    folder = install.again / "1"
    tree(folder / install.label, "new")
    manifest = make_manifest(folder / install.label, install.digest, InstallFacts(), {}, mask=0o022, workers=1)
    write_manifest(folder / install.manifest.name, manifest)
    (folder / "module").write_text("module")
    extra = {install.prefix.root / "module": folder / "module"}
    return MadeAgain(manifest, folder / install.label, folder / install.manifest.name, extra)


@pytest.mark.parametrize("known", [True, False])
def test_it_takes_the_place_of_a_damaged_tree(install: Install, made: MadeAgain, known: bool) -> None:
    """With the mode bits and the bytes of the manifest that stays, or of the new one under what the site says now."""
    text = made.manifest_file.read_text()
    with (install.path / "file").open() as running:
        exchange_install(install, made, SITE, made.manifest if known else None)
        assert running.read() == "damaged", "who has it open keeps it"
    assert (install.path / "file").read_text() == "new"
    assert (install.path / "file").stat().st_mode & 0o777 == (0o444 if known else 0o440)
    assert install.manifest.read_text() == ("old" if known else text)
    assert (install.prefix.root / "module").read_text() == "module"
    assert not install.staging.exists()


def test_it_takes_the_place_of_a_link_and_not_of_what_it_names(
    install: Install, made: MadeAgain, tmp_path: Path
) -> None:
    install.path.rename(tmp_path / "elsewhere")
    install.path.symlink_to(tmp_path / "elsewhere")
    exchange_install(install, made, SITE, made.manifest)
    assert (install.path.is_symlink(), (install.path / "file").read_text()) == (False, "new")
    assert (tmp_path / "elsewhere/file").read_text() == "damaged"


def test_host_that_gives_no_mounts_is_refused(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setattr(
        sandbox, "_OF_MOUNTS", ("/bin/sh", "-c", "echo unshare failed: Operation not permitted >&2; exit 1")
    )
    made_by: Any = SimpleNamespace(lock=SimpleNamespace(entry="a/1"))
    with pytest.raises(EnvmgrError) as caught:
        require_own_mounts(AgainWork(made_by, Item(install), ()), Runner())
    assert caught.value.render().splitlines()[0] == (
        "error[again-impossible]: a/1 cannot be built again here: that needs mounts that no one else sees"
    )
    assert caught.value.context[-1] == "unshare failed: Operation not permitted"
    assert caught.value.hint == (
        "run it as root, or on a host where users may have user namespaces (`unshare --user --mount true`)"
    )
