"""The Spack backend: an environment that the site's Spack resolved, as one install with a database of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from envmgr.backends import Backend, Built, LoadedLock, LockOptions, LockResult, OwnFolder, read_input
from envmgr.backends.spack.models import (
    LOCK_NAME,
    SPACK_LOCK,
    Locked,
    SpackInput,
    SpackRecord,
    SpackSettings,
    SpackSource,
    spack_cache,
)
from envmgr.catalog.lock_checks import LockFacts
from envmgr.catalog.locks import lock_text, read_lock_file, recipe_digest, require_answer
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.settings import backend_settings
from envmgr.catalog.site import Site, Target
from envmgr.downloads.sources import source_set
from envmgr.errors import InputError
from envmgr.report import Reporter
from envmgr.store.parts import Part
from envmgr.store.prefix import Item, Prefix
from envmgr.system.files import sha256_bytes
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change_tree
from envmgr.system.scratch import scratch_folder
from envmgr.system.spack_files import SHORT, SpackLock, in_order, lock_of
from envmgr.system.untrusted_files import LOCK, read_file_text
from envmgr.system.users import runs_for_root
from envmgr.system.yamlfile import dump_yaml, parse_yaml
from envmgr.wording import one_line

if TYPE_CHECKING:
    from envmgr.downloads.fetch import DownloadSet


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSpackLock(LoadedLock):
    """An environment, which is one install."""

    own: Locked

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        return (Item(self.backend.install(self.entry, {"lock": self.own.record.lock}, site, target)),)

    def texts(self, recipe: Recipe) -> Mapping[str, str]:  # noqa: ARG002 - the two are all
        return {LOCK_NAME: _text(self.own.record), SPACK_LOCK: self.own.text}

    def downloads(self, site: Site) -> Sequence[DownloadSet]:
        return (source_set([source.file(site) for source in self.own.record.sources], site, str(self.entry)),)

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:
        from envmgr.backends.spack.install import install_environment

        self.fetch(site, runner, reporter)
        facts, tools = install_environment(self.own, item.install, site, runner, reporter, jobs)
        return Built(facts, {}, tools)


class SpackBackend(Backend):
    """The site's own Spack, in the version of each lock. What it notes of a build has times in it."""

    name = "spack"
    input = SpackInput
    settings = SpackSettings

    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        from envmgr.backends.spack.tool import Spack

        del options
        wanted = read_input(entry, recipe, SpackInput).for_site(site)
        account = runs_for_root(site.build_user, site.prefix, mask=site.policies.mask)
        with scratch_folder("spack", account) as work, reporter.stage(f"{entry} resolve", unit="packages"):
            tool = Spack.of(site, work, runner, account)
            tool.describe(wanted, work / "tree")
            if account is not None:
                change_tree(work, owner=account.uid, group=account.gid)
            tool.run("concretize")
            text = in_order(read_file_text(work / "env" / SPACK_LOCK, LOCK, tree=work), Path(SPACK_LOCK))
            files = tool.ask("sources")
        try:
            lacking = sorted({str(file["package"]) for file in files if not file["sha256"]})
            sources = () if lacking else tuple(map(SpackSource.model_validate, files))
        except (ValidationError, KeyError, TypeError) as error:
            raise tool.unknown(f"it said of its sources: {one_line(str(error), 200)}") from None
        content = lock_of(text, Path(SPACK_LOCK))
        if lacking:
            what = f"Spack has no sha256 for a source of {', '.join(lacking)}"
            hint = "ask for another version: files of git, of a folder, or with an old checksum cannot be checked"
            raise InputError("source-unhashed", what, hint=hint)
        made = SpackRecord(recipe=recipe_digest("spack", wanted), lock=sha256_bytes(text.encode()), sources=sources)
        notes = tuple(f"it counts on {s.name} {s.version} in {s.path}" for s in content.specs.values() if s.external)
        texts = {LOCK_NAME: _text(made), SPACK_LOCK: text}
        return LockResult(texts, _packages(content), notes, LockFacts(_cuda(content)))

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedSpackLock:
        wanted = read_input(entry, recipe, SpackInput).for_site(site)
        path = folder / LOCK_NAME
        record, sha256 = read_lock_file(path, SpackRecord, of="an environment of Spack", known=1)
        content, text = _read(folder, record)
        packages = _packages(content)
        require_answer(entry, path, packages, recipe_digest("spack", wanted), record.recipe)
        own, facts = Locked(entry, record, content, text, wanted), LockFacts(_cuda(content))
        return LoadedSpackLock(backend=self, entry=entry, sha256=sha256, packages=packages, facts=facts, own=own)

    def parts(self, provenance: Mapping[str, Any], texts: Mapping[str, str]) -> Iterable[Part]:  # noqa: ARG002 - the lock says all
        return _parts(lock_of(texts[SPACK_LOCK], Path(SPACK_LOCK)), texts.get(LOCK_NAME, ""))

    def reads(self, site: Site) -> Sequence[Path]:
        own = backend_settings(site, "spack", SpackSettings)
        return [path for path in (own.spack, own.config) if path is not None and path.exists()]

    def folders(self, prefix: Prefix) -> Sequence[OwnFolder]:
        return (OwnFolder(spack_cache(prefix)),)


def _read(folder: Path, record: SpackRecord) -> tuple[SpackLock, str]:
    """Return `spack.lock` and its text. Raises EnvmgrError `lock-missing`, `lock-invalid`, `spack-format`."""
    path = folder / SPACK_LOCK
    text = lock_text(path)
    if sha256_bytes(text.encode()) != record.lock:
        raise InputError("lock-invalid", f"{path} is not the one that {LOCK_NAME} was made for", hint="lock it again")
    return lock_of(text, path), text


def _text(record: SpackRecord) -> str:
    return dump_yaml(record.model_dump(mode="json"), width=120)


def _packages(lock: SpackLock) -> dict[str, str]:
    """Return name -> version and beginning of the hash; of several with one name, that of a root."""
    rows = sorted(lock.specs.values(), key=lambda spec: (spec.hash in lock.roots, spec.hash))
    return {spec.name: f"{spec.version} {spec.hash[:8]}" for spec in rows}


def _parts(lock: SpackLock, record: str) -> Iterator[Part]:
    """Yield its packages; a sha256 is that of the only source of a package's version."""
    sources: dict[str, set[str]] = {}
    for source in parse_yaml(record, LOCK_NAME)["sources"] if record else ():
        sources.setdefault(source["package"], set()).add(source["sha256"])
    for spec in lock.specs.values():
        own = sources.get(f"{spec.name}@{spec.version}", ())
        yield Part(
            ecosystem="spack",
            name=spec.name,
            version=spec.version,
            build=spec.hash[:SHORT],
            key=spec.hash,
            needs=spec.needs,
            sha256=next(iter(own)) if len(own) == 1 else "",
        )


def _cuda(lock: SpackLock) -> str | None:
    found = next((spec.version for spec in lock.specs.values() if spec.name == "cuda"), None)
    return None if found is None else ".".join(found.split(".")[:2])
