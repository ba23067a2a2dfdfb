"""The existing backend: an install that somebody else made, declared by its path. It is not ours.

The install in the store is small, and ours: the record of every path of the tree, as it was seen. So modules,
generations, rollback and `gc` work as for any entry, and never touch the tree. The lock has one sha256 over the whole
tree: users get what changed only with a new lock, which somebody has looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envmgr.backends import Backend, Built, LoadedLock, LockOptions, LockResult
from envmgr.backends.existing.environment import take_environment
from envmgr.backends.existing.models import LOCK_NAME, ExistingInput, ExistingLock, SeenTree
from envmgr.catalog.locks import read_lock_file, recipe_digest, require_answer
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site, Target
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter
from envmgr.store.build_folders import staged_install
from envmgr.store.manifest import InstallFacts
from envmgr.store.outside import SEEN, OutsideTree, describe_outside, look_outside, require_seen, seen_text
from envmgr.store.prefix import Item
from envmgr.store.tree import tree_digest
from envmgr.system.files import sha256_bytes
from envmgr.system.run import Runner
from envmgr.system.yamlfile import dump_yaml

if TYPE_CHECKING:
    from envmgr.downloads.fetch import DownloadSet


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedExistingLock(LoadedLock):
    content: ExistingLock

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        identity = self.content.model_dump(mode="json", exclude={"recipe", "version", "source"})
        return (Item(self.backend.install(self.entry, identity, site, target)),)

    def downloads(self, site: Site) -> Sequence[DownloadSet]:  # noqa: ARG002 - nothing of it is ours to bring
        return ()

    def texts(self, recipe: Recipe) -> Mapping[str, str]:  # noqa: ARG002 - the lock says all
        return {LOCK_NAME: _text(self.content)}

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        lock, path = self.content, Path(self.content.path)
        with reporter.stage(f"{self.entry} look at {path}", unit="files"):
            runner.raise_if_cancelled()
            seen = look_outside(path, lock.tree.how, lock.tree.ignore, workers=max(2, jobs))
        require_seen(path, seen)
        if tree_digest(seen.rows) != lock.tree.sha256:
            raise EnvmgrError(
                "tree-differs",
                f"{path} is not what it was when {self.entry} was locked",
                context=[
                    f"locked {lock.tree.files} files, {lock.tree.size} bytes",
                    f"here   {seen.files}, {seen.size}",
                ],
                hint=f"who changed it, and why? `envmgr lock {self.entry}` takes it as it is now",
            )
        text = seen_text(seen)
        with staged_install(item.install, site) as staged:
            staged.folder.mkdir()
            (staged.folder / SEEN).write_text(text, encoding="utf-8")
        outside = describe_outside(lock.roots, lock.tree.how, lock.tree.ignore, seen, lock.environment, self.entry.name)
        facts = InstallFacts(environment=lock.environment, python=lock.python or None, outside=outside)
        return Built(facts, {SEEN: sha256_bytes(text.encode())}, {})


class ExistingBackend(Backend):
    name = "existing"
    input = ExistingInput

    def faults(self, recipe: Recipe, site: Site) -> list[str]:
        if wrong := super().faults(recipe, site):
            return wrong
        path = Path(ExistingInput.model_validate(recipe.input).path)
        return [_ours(path)] if _meet(path, site.prefix) else []

    def missing(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> Iterable[EnvmgrError]:  # noqa: ARG002
        wanted = ExistingInput.model_validate(recipe.input)
        if wanted.spack is not None:
            from envmgr.backends.existing.spack import find_spec

            try:
                find_spec(wanted.spack, wanted.path)
            except EnvmgrError as error:
                if error.reference != "file-missing":  # a catalog is also checked where its trees are not
                    yield error

    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        del options
        wanted = self._read(entry, recipe, site)
        path, spack = Path(wanted.path), None
        if _meet(Path(os.path.realpath(path)), Path(os.path.realpath(site.prefix))):
            raise _invalid(entry, [_ours(path)])
        if wanted.spack is not None:
            from envmgr.backends.existing.spack import find_spec

            spack = find_spec(wanted.spack, wanted.path)
        with reporter.stage(f"{entry} look at {path}", unit="files"):
            seen = look_outside(path, wanted.manifest, wanted.ignore)
        require_seen(path, seen)
        roots = (wanted.path, *([spack.tree] if spack else []))
        environment = take_environment(wanted, roots, site, runner, reporter)
        made = ExistingLock(
            recipe=_digest(wanted),
            path=wanted.path,
            tree=SeenTree(
                how=wanted.manifest,
                ignore=wanted.ignore,
                sha256=tree_digest(seen.rows),
                files=seen.files,
                size=seen.size,
            ),
            source=wanted.source,
            environment=environment,
            python=_python(path, seen),
            spack=spack,
        )
        return LockResult({LOCK_NAME: _text(made)}, _packages(entry, made), tuple(_notes(path)))

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedExistingLock:
        wanted = self._read(entry, recipe, site)
        found, sha256 = read_lock_file(folder / LOCK_NAME, ExistingLock, of="an existing install", known=1)
        require_answer(entry, folder / LOCK_NAME, _packages(entry, found), _digest(wanted), found.recipe)
        return LoadedExistingLock(
            backend=self,
            entry=entry,
            sha256=sha256,
            packages=_packages(entry, found),
            python=bool(found.python),
            outside=found.path,
            content=found,
        )

    def _read(self, entry: Entry, recipe: Recipe, site: Site) -> ExistingInput:
        """Return the recipe's input. Raise InputError `recipe-invalid` if it has faults."""
        if faults := self.faults(recipe, site):
            raise _invalid(entry, faults)
        return ExistingInput.model_validate(recipe.input)


def _invalid(entry: Entry, faults: list[str]) -> InputError:
    return InputError("recipe-invalid", f"the existing input of {entry} has faults", context=faults)


def _meet(path: Path, prefix: Path) -> bool:
    return path.is_relative_to(prefix) or prefix.is_relative_to(path)


def _ours(path: Path) -> str:
    return f"input.path: {path} and the prefix lie in each other, and what is in the prefix is ours"


def _digest(wanted: ExistingInput) -> str:
    return recipe_digest("existing", wanted.model_dump(mode="json"))


def _text(lock: ExistingLock) -> str:
    rows = [op.model_dump(mode="json", exclude_defaults=True) for op in lock.environment]
    return dump_yaml({**lock.model_dump(mode="json", exclude_none=True), "environment": rows}, width=120)


def _packages(entry: Entry, lock: ExistingLock) -> dict[str, str]:
    """Return the one package: its build is the beginning of Spack's hash, or of the tree's sha256."""
    spec = lock.spack
    name, version = spec.spec.split("@")[:2] if spec else (entry.name, entry.version)
    return {name: f"{version.split()[0]} {(spec.hash if spec else lock.tree.sha256)[:8]}"}


def _python(path: Path, seen: OutsideTree) -> str:
    """Return the version of the tree's own Python, as the name of its program has it; empty without one."""
    there = {row.path for row in seen.rows}
    for name in ("bin/python3", "bin/python"):
        if name in there:
            return (path / name).resolve().name.removeprefix("python")
    return ""


def _notes(path: Path) -> Iterable[str]:
    """Yield the first folder on the way to the tree that keeps users out by its mode."""
    for place in (*reversed(path.parents), path):
        if not place.stat().st_mode & 0o001:
            yield f"not every user can enter {place} (mode {place.stat().st_mode & 0o777:04o}): the audit looks as one"
            return
