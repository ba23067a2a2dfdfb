"""What a backend made is checked, recorded with its extra files, and taken away whole where something is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from envmgr.backends import Built, LoadedLock, get_backend
from envmgr.builds import Ensured
from envmgr.builds.install import ensure_install
from envmgr.builds.prepare import can_write
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site, Target, load_site, read_target
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter, SilentReporter
from envmgr.store.manifest import InstallFacts, read_manifest
from envmgr.store.prefix import Item, Prefix
from envmgr.store.tree import make_read_only
from envmgr.store.verify import Verified, verify_install
from envmgr.system.files import remove_tree, sha256_bytes
from envmgr.system.run import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class OneFile(LoadedLock):
    """An install of one file, and one beside the store; `promised` is the sha256 that its sources promise."""

    promised: str

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        return (Item(self.backend.install(self.entry, "one file", site, target)),)

    def downloads(self, site: Site) -> tuple[()]:  # noqa: ARG002
        return ()

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:  # noqa: ARG002
        item.install.path.mkdir(parents=True)
        (item.install.path / "file").write_text("text")
        make_read_only(item.install.path, group=None, mask=0o022)
        extra = site.prefix / "own" / "extra"
        extra.parent.mkdir()
        extra.write_text("more")
        return Built(InstallFacts(), {"file": self.promised}, {"tool": "1"}, (extra,))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "site.yaml").write_text(f"prefix: {tmp_path / 'prefix'}\n")
    yield load_site(tmp_path / "site.yaml", {})
    remove_tree(tmp_path / "prefix")


def ensure(site: Site, promised: str) -> Ensured:
    lock = OneFile(
        backend=get_backend("conda"), entry=Entry("one", "1.0"), sha256="0" * 64, packages={}, promised=promised
    )
    (item,) = lock.items(site, read_target(site.cpu_level))
    recipe = Recipe(backend="conda", input={})
    return ensure_install(recipe, lock, item, site, Runner(), SilentReporter(), jobs=1, verified=Verified())


def test_extra_files_are_in_the_manifest_and_verified(site: Site) -> None:
    ensured = ensure(site, sha256_bytes(b"text"))
    manifest = read_manifest(ensured.install.manifest)
    assert manifest.extra == {"own/extra": sha256_bytes(b"more")}
    assert manifest.provenance["tools"]["tool"] == "1"
    extra = site.prefix / "own" / "extra"
    extra.write_text("other")
    assert verify_install(ensured.install, SilentReporter()).wrong == ("own/extra: sha256 changed",)
    extra.unlink()
    assert verify_install(ensured.install, SilentReporter()).wrong == ("own/extra: missing",)


def test_what_is_not_as_promised_goes_with_its_extra_files(site: Site) -> None:
    with pytest.raises(EnvmgrError) as caught:
        ensure(site, sha256_bytes(b"promised"))
    assert caught.value.reference == "install-differs"
    assert [p for p in (site.prefix / "store").rglob("*") if p.name != "one"] == []
    assert list((site.prefix / "own").iterdir()) == []


def test_prefix_has_folders_only_of_backends_that_are_used(site: Site) -> None:
    def folders() -> set[str]:
        return {str(p.relative_to(site.prefix)) for p in site.prefix.glob("*")} | {
            str(p.relative_to(site.prefix)) for p in site.prefix.glob("cache/*")
        }

    generic = {"store", "generations", "cache", "cache/sources", "var", "prefix.json"}
    can_write(site)
    assert folders() == generic
    can_write(site, [get_backend("conda")])
    assert folders() == {*generic, "cache/conda"}
    can_write(site, [get_backend("easybuild")])
    assert folders() == {*generic, "cache/conda", "easybuild"}
    own = [each.path for each in get_backend("easybuild").folders(Prefix(site.prefix))]
    assert [p for p in own if not p.is_dir()] == []
