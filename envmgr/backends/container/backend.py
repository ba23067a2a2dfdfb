"""The container backend: an image by its digest, as one squashfs, with programs on PATH that run in the node's runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envmgr.backends import Backend, Built, LoadedLock, LockOptions, LockResult, OwnFolder, read_input
from envmgr.backends.container.input import ContainerInput, ContainerSettings
from envmgr.backends.container.lock import FORMAT, LOCK_NAME, ContainerLock
from envmgr.backends.container.programs import Programs
from envmgr.catalog.lock_checks import LockFacts
from envmgr.catalog.locks import read_lock_file, recipe_digest, require_answer
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site, Target
from envmgr.report import Reporter
from envmgr.store.parts import Part
from envmgr.store.prefix import Item, Prefix
from envmgr.system.run import Runner
from envmgr.wording import one_line

if TYPE_CHECKING:
    from envmgr.downloads.fetch import DownloadSet

_UNPACKED = 3  # an image, unpacked, of its layers


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedContainerLock(LoadedLock):
    """An image, which is one install."""

    content: ContainerLock
    wanted: ContainerInput

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        identity = {
            "config": self.content.config.sha256,
            "layers": [layer.sha256 for layer in self.content.layers],
            **Programs.of(self.content, self.wanted, site).identity,
        }
        return (Item(self.backend.install(self.entry, identity, site, target), ()),)

    def texts(self, recipe: Recipe) -> Mapping[str, str]:  # noqa: ARG002 - the lock is all
        return {LOCK_NAME: self.content.text()}

    def downloads(self, site: Site) -> Sequence[DownloadSet]:
        from envmgr.backends.container.install import image_files

        return (image_files(self.content, self.wanted, str(self.entry), site),)

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:  # noqa: ARG002 - mksquashfs takes what is there
        from envmgr.backends.container.install import install_image

        self.fetch(site, runner, reporter)
        facts, tools = install_image(self.content, self.wanted, self.entry, item.install, site, runner, reporter)
        return Built(facts, {}, tools)


class ContainerBackend(Backend):
    """Images of registries. Another version of mksquashfs may make other bytes of the same layers."""

    name = "container"
    input = ContainerInput
    settings = ContainerSettings

    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        del options  # there is one solver, and no channel
        from envmgr.backends.container.registry import Registry

        wanted = read_input(entry, recipe, ContainerInput)
        with reporter.stage(f"{entry} resolve", unit="images"):
            found = Registry(wanted, site, runner).resolve(_digest(wanted))
        return LockResult(
            {LOCK_NAME: found.text()},
            found.packages(),
            tuple(
                f"the image's variable {one_line(line, 60)} is left out: a shell can have no such name or value"
                for line in found.strange
            ),
            _facts(found, wanted),
        )

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedContainerLock:  # noqa: ARG002
        path = folder / LOCK_NAME
        found, sha256 = read_lock_file(path, ContainerLock, of="images", known=FORMAT)
        wanted = read_input(entry, recipe, ContainerInput)
        require_answer(entry, path, found.packages(), _digest(wanted), found.recipe_digest)
        size = sum(blob.size for blob in found.blobs)
        return LoadedContainerLock(
            backend=self,
            entry=entry,
            sha256=sha256,
            packages=found.packages(),
            download=size,
            installed=size * _UNPACKED,
            facts=_facts(found, wanted),
            content=found,
            wanted=wanted,
        )

    def parts(self, provenance: Mapping[str, Any], texts: Mapping[str, str]) -> Iterable[Part]:  # noqa: ARG002 - the lock says all
        return [ContainerLock.model_validate_json(texts[LOCK_NAME]).part()]

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:
        return (OwnFolder(prefix.root / "cache" / "oci"),)


def _facts(lock: ContainerLock, wanted: ContainerInput) -> LockFacts:
    return LockFacts(lock.cuda() if wanted.gpu else None)


def _digest(wanted: ContainerInput) -> str:
    """Only what the image is: another command or folder needs no new lock."""
    return recipe_digest("container", {"image": wanted.image, "platform": wanted.platform})
