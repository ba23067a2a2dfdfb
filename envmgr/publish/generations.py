"""Stage a generation, publish it by one rename, go back, clean up. Everything here holds the prefix's publish lock."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import envmgr
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import Lmod
from envmgr.modules.render import render_tree, templates_digest
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.publish.change import (
    Change,
    apply_change,
    changed_entries,
    check_dependencies,
    published_entries,
    refuse_name_clash,
    with_dependents,
)
from envmgr.publish.flips import flip, known_current, last_current, settle, utc_now
from envmgr.publish.record import (
    ABANDONED,
    RECORD,
    SPECS,
    GenerationRecord,
    PublishedEntry,
    PublishedSpec,
    complete_numbers,
    current_number,
    generation_numbers,
    read_record,
    read_specs,
    with_own_pythons,
)  # fmt: skip
from envmgr.publish.signature import Signer
from envmgr.publish.trust import require_unchanged_generation
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.store.tree import make_read_only
from envmgr.system.files import (
    atomic_write,
    canonical_json,
    explain_os_error,
    file_lock,
    pretty_json,
    remove_tree,
    sha256_bytes,
    sha256_file,
    sync_file_system,
    sync_folder,
)  # fmt: skip
from envmgr.system.run import Runner


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """`number` is None when the rebased change was already there; `parent` is what `current` named before."""

    number: int | None
    parent: int | None
    changed: tuple[str, ...]


StagedCheck = Callable[[Path, Path, Mapping[str, ModuleSpec]], None]
"""Gets the staged modules folder, its lmodrc.lua and the changed modules; raises to keep `current` as it is."""


@contextmanager
def publishing(prefix: Prefix, runner: Runner, reporter: Reporter) -> Iterator[None]:
    """The one prefix lock. Cleans up what a killed publish left before anything else."""

    def waiting(holder: str) -> None:
        reporter.say(f"waiting for {holder}, which publishes")

    with file_lock(prefix.publish_lock, on_wait=waiting, check=runner.raise_if_cancelled):
        with explain_os_error(prefix.generations):
            prefix.generations.mkdir(exist_ok=True)
            _clean_incomplete(prefix, reporter)
        settle(prefix, reporter)
        yield


def publish(
    change: Change,
    site: Site,
    lmod: Lmod,
    runner: Runner,
    reporter: Reporter,
    *,
    templates: Path,
    check: StagedCheck,
    signer: Signer | None,
) -> PublishedChange:
    """Stage `current` plus `change`, let `check` judge it, flip. `current` is read under the lock.

    Raises:
        EnvmgrError: whatever staging or `check` raises; `current` is then untouched, and the number stays taken.
    """
    prefix = Prefix(site.prefix)
    policies = ModulePolicies.from_site(site)
    render = render_digest(templates, policies)
    with publishing(prefix, runner, reporter):
        parent = current_number(prefix)
        taken = None if change.whole else parent
        if signer is not None and taken is not None:
            require_unchanged_generation(prefix, taken, signer)
        record = None if taken is None else read_record(prefix, taken)
        old = {} if taken is None else read_specs(prefix, taken)
        merged = with_own_pythons(apply_change(old, change), prefix)
        entries = published_entries(merged, old, record, change, policies, templates)
        manifests = _manifests(prefix, entries, change.fresh, record)
        changed = changed_entries(entries, manifests, record)
        if record is not None and not changed and record.render == render and not change.anew:
            return PublishedChange(None, parent, ())
        check_dependencies({k: item.spec.depends for k, item in merged.items()})
        refuse_name_clash(merged)
        _check_installs(prefix, change)
        number, folder = _take_number(prefix)
        try:
            with reporter.stage(f"generation {number} modules", total=len(merged), unit="modules") as stage:
                files = _write_modules(folder, merged, number, policies, templates, lmod)
                stage.update(len(merged))
            with reporter.stage(f"generation {number} spider cache"):
                lmod.build_spider_cache(folder / "modules", folder / "spider")
                lmod.check_syntax([folder / "spider" / "spiderT.lua"])  # Lmod does not notice a full disk
            check(folder / "modules", folder / "lmodrc.lua", with_dependents(changed, merged))
            _complete(folder, number, parent, change.reason, render, entries, files, manifests, lmod)
        except BaseException as error:
            with suppress(OSError):  # a lost mount: the error that is told is the first one; the next publish cleans up
                _abandon(folder, str(error).splitlines()[0] if str(error) else type(error).__name__)
            raise
        flip(prefix, number, parent, change.reason, reporter, action="publish", signer=signer)
    return PublishedChange(number, parent, tuple(sorted(changed)))


def rollback(
    number: int, prefix: Prefix, runner: Runner, reporter: Reporter, *, signer: Signer | None
) -> tuple[int, int]:
    """Point `current` at an earlier (or later) complete generation; returns (from, to).

    A damaged `current` is mended by it: (from) is then the last number that the history knows.

    Raises:
        EnvmgrError: `no-generation`, `nothing-published`, `install-missing` when one of its installs is gone.
    """
    with publishing(prefix, runner, reporter):
        before = last_current(prefix)
        if before is None:
            raise EnvmgrError("nothing-published", "nothing was published yet", context=str(prefix.root))
        record = read_record(prefix, number)
        gone = [
            f"{k}: {path}"
            for k, e in record.entries.items()
            for path in e.paths
            if not prefix.install_at(path).exists()
        ]
        if gone:
            raise EnvmgrError("install-missing", f"generation {number} names installs that are gone", context=gone)
        if known_current(prefix) != number:
            if signer is not None:
                require_unchanged_generation(prefix, number, signer)
            flip(prefix, number, before, f"rollback to {number}", reporter, action="rollback", signer=signer)
    return before, number


def sign(prefix: Prefix, runner: Runner, reporter: Reporter, *, signer: Signer) -> tuple[int, int]:
    """A new flip, with a signature, for the generation that is current; returns (generation, sequence).

    Raises:
        EnvmgrError: `nothing-published`, `generation-changed` for one that is not as it was published, `not-signed`.
    """
    with publishing(prefix, runner, reporter):
        number = current_number(prefix)
        if number is None:
            raise EnvmgrError("nothing-published", "nothing was published yet", context=str(prefix.root))
        require_unchanged_generation(prefix, number, signer)
        return number, flip(prefix, number, number, "sign", reporter, action="sign", signer=signer)


def render_digest(templates: Path, policies: ModulePolicies) -> str:
    """What besides the entries decides the text of every module."""
    return sha256_bytes(
        canonical_json({"schema": 1, "templates": templates_digest(templates), "policies": policies.model_dump()})
    )


def remove_generations(numbers: list[int], prefix: Prefix) -> None:
    """Forget generations, keeping the numbers taken. Under `publishing` only."""
    for number in numbers:
        _abandon(prefix.generation(number), "removed by gc")


def _check_installs(prefix: Prefix, change: Change) -> None:
    """Looked at under the lock that `gc` takes too: what was there when the publish was planned may be gone."""
    for module in change.add.values():
        own = "/".join(Path(module.spec.root).parts[-3:])
        for path in (own, *module.facts.needs):
            install = prefix.install_at(path)
            if not install.exists():
                raise EnvmgrError(
                    "install-missing", f"an install of {module.spec.entry} is gone", context=str(install.path),
                    hint=f"run `envmgr build {module.spec.entry}` again",
                )  # fmt: skip


def _manifests(
    prefix: Prefix, entries: Mapping[str, PublishedEntry], fresh: frozenset[str], record: GenerationRecord | None
) -> dict[str, str]:
    """Install -> sha256 of its manifest. What an earlier generation said stays, unless the install was made since: a manifest that
    was changed must not become the right one by the next publish.
    """
    known = record.manifests if record else {}
    paths = sorted({path for entry in entries.values() for path in entry.paths})
    return {
        path: known[path] if path in known and path not in fresh else sha256_file(manifest)
        for path in paths
        if (manifest := prefix.install_at(path).manifest).is_file() or path in known
    }


def _take_number(prefix: Prefix) -> tuple[int, Path]:
    """The next number ever, by exclusive mkdir."""
    number = max(generation_numbers(prefix), default=0) + 1
    while True:
        folder = prefix.generation(number)
        with explain_os_error(folder), suppress(FileExistsError):
            folder.mkdir()
            return number, folder
        number += 1


def _write_modules(
    folder: Path,
    merged: Mapping[str, PublishedSpec],
    number: int,
    policies: ModulePolicies,
    templates: Path,
    lmod: Lmod,
) -> dict[str, str]:
    """Write modules, lmodrc.lua and the specs; returns relative path -> sha256."""
    specs = [item.spec for item in merged.values()]
    texts = {
        f"modules/{p}": t
        for p, t in render_tree(specs, generation=number, policies=policies, templates=templates).items()
    }
    texts["lmodrc.lua"] = lmod.lmodrc_text(folder / "spider")
    texts[SPECS] = pretty_json({name: item.model_dump(mode="json") for name, item in merged.items()})
    with explain_os_error(folder):
        for name in sorted({str(parent) for p in texts for parent in Path(p).parents} | {"modules"}):
            (folder / name).mkdir(exist_ok=True)
            (folder / name).chmod(0o755)
        for path, text in texts.items():
            (folder / path).write_text(text, encoding="utf-8")
            # Whatever the umask: all users load modules, and Lmod hides from root a file of root's that others cannot read.
            (folder / path).chmod(0o644)
    lmod.check_syntax([folder / p for p in texts if p.endswith(".lua")])
    return {path: sha256_bytes(text.encode()) for path, text in texts.items()}


def _complete(
    folder: Path,
    number: int,
    parent: int | None,
    reason: str,
    render: str,
    entries: dict[str, PublishedEntry],
    files: dict[str, str],
    manifests: dict[str, str],
    lmod: Lmod,
) -> None:
    spider = {str(p.relative_to(folder)): sha256_file(p) for p in (folder / "spider").rglob("*") if p.is_file()}
    record = GenerationRecord(
        number=number,
        parent=parent,
        created=utc_now(),
        user=getpass.getuser(),
        host=socket.gethostname(),
        reason=reason,
        tools={"envmgr": envmgr.__version__, "lmod": lmod.version()},
        render=render,
        entries=entries,
        files=dict(sorted((files | spider).items())),
        manifests=manifests,
    )
    with explain_os_error(folder):
        make_read_only(folder, mask=0o022)
        folder.chmod(0o755)
        sync_file_system(folder)  # modules and cache reach the disk before the record that says they are complete
        atomic_write(folder / RECORD, record.model_dump_json(indent=1) + "\n", mode=0o444)
        folder.chmod(0o555)
        sync_folder(folder.parent)


def _abandon(folder: Path, reason: str) -> None:
    """Empty a generation but keep its number taken: numbers are never reused."""
    folder.chmod(0o755)
    for child in folder.iterdir():
        if child.name != ABANDONED:
            remove_tree(child)
    with suppress(EnvmgrError):  # a full disk: the empty folder alone keeps the number
        atomic_write(folder / ABANDONED, pretty_json({"time": utc_now(), "reason": reason}))


def _clean_incomplete(prefix: Prefix, reporter: Reporter) -> None:
    current = known_current(prefix)
    for link in prefix.root.glob(".current.*.tmp"):
        link.unlink(missing_ok=True)
    complete = set(complete_numbers(prefix))
    for number in generation_numbers(prefix):
        folder = prefix.generation(number)
        if number not in complete and number != current and not (folder / ABANDONED).exists():
            reporter.log(f"cleaning generation {number}, left by a publish that was killed")
            _abandon(folder, "its publish was killed")
