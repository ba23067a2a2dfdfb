"""`envmgr remove`, `history`, `rollback`, `diff` and `gc`: generations after they were published."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envmgr.builds.install import can_write
from envmgr.builds.leftovers import clean_leftovers
from envmgr.builds.slurm import requested_installs, sweep
from envmgr.catalog.locks import LockChange, diff_packages
from envmgr.commands import Context, logged, published_record, require_published
from envmgr.commands.publish import smoke_check
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import find_lmod
from envmgr.publish.change import Change, check_dependencies
from envmgr.publish.flips import flips, known_current, last_current
from envmgr.publish.generations import publish, publishing, remove_generations, rollback
from envmgr.publish.record import (
    RECORD,
    complete_numbers,
    current_number,
    mentioned_installs,
    published_spec,
    read_record,
    read_records,
    read_specs,
)
from envmgr.report import Result
from envmgr.store.holds import held_installs
from envmgr.store.manifest import remove_install
from envmgr.store.prefix import Install, Prefix, installs
from envmgr.system.files import file_lock
from envmgr.system.resources import shipped


@dataclass(frozen=True, slots=True)
class RemoveResult(Result):
    schema: ClassVar[str] = "envmgr.remove/1"
    entries: tuple[str, ...]
    generation: int | None
    parent: int | None
    dry_run: bool
    log: str | None


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One generation; `changes` are `+ entry`, `- entry` and `~ entry` against its parent.

    `damaged` is why its record cannot be read, and empty where it can; the rest is then not known.
    """

    number: int
    current: bool
    created: str
    user: str
    host: str
    reason: str
    entries: int
    changes: tuple[str, ...]
    damaged: str = ""


@dataclass(frozen=True, slots=True)
class HistoryResult(Result):
    """`flips` are every publish and rollback, oldest first."""

    schema: ClassVar[str] = "envmgr.history/1"
    generations: tuple[HistoryRow, ...]
    flips: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True)
class RollbackResult(Result):
    schema: ClassVar[str] = "envmgr.rollback/1"
    before: int
    after: int
    dry_run: bool


@dataclass(frozen=True, slots=True)
class EntryDiff:
    """`change` is added, removed, changed (another install) or module (same install, another module text)."""

    entry: str
    change: str
    packages: tuple[LockChange, ...]


@dataclass(frozen=True, slots=True)
class DiffResult(Result):
    schema: ClassVar[str] = "envmgr.diff/1"
    a: int
    b: int
    entries: tuple[EntryDiff, ...]


@dataclass(frozen=True, slots=True)
class GcResult(Result):
    """`generations` and `installs` (paths relative to the prefix) that went, or would go; `size` is bytes of files."""

    schema: ClassVar[str] = "envmgr.gc/1"
    generations: tuple[int, ...]
    installs: tuple[str, ...]
    leftovers: tuple[str, ...]
    size: int
    dry_run: bool
    log: str | None


def remove_entries(ctx: Context, names: Sequence[str], *, dry_run: bool = False) -> RemoveResult:
    """Publish a generation without the named entries; installs and older generations stay."""
    current = published_record(ctx)
    require_published(names, current)
    specs = read_specs(ctx.prefix, current.number)
    check_dependencies({k: tuple(v["spec"]["depends"]) for k, v in specs.items() if k not in names})
    if dry_run:
        return RemoveResult(tuple(names), None, current.number, True, None)
    can_write(ctx.site)
    lmod = find_lmod(ctx.site.lmod.dir, ctx.environ, runner=ctx.runner)

    with logged(ctx, "remove") as (inner, log):
        change = Change({}, tuple(names), f"remove {' '.join(names)}")
        check = smoke_check(inner, lmod, [])  # no entry changes, unless templates or policies did as well
        done = publish(
            change, ctx.site, lmod, ctx.runner, inner.reporter, templates=shipped("modulefiles"), check=check,
            signer=ctx.signer,
        )  # fmt: skip
    return RemoveResult(tuple(names), done.number, done.parent, False, str(log))


def read_history(ctx: Context) -> HistoryResult:
    """Works with a damaged `current` too: it shows the numbers that a rollback can take."""
    current = known_current(ctx.prefix)
    rows = []
    records, damaged = read_records(ctx.prefix)
    for number in complete_numbers(ctx.prefix):
        if number in damaged:
            rows.append(HistoryRow(number, number == current, "", "", "", "", 0, (), damaged=damaged[number].message))
        if (record := records.get(number)) is None:
            continue
        before = records[record.parent].entries if record.parent in records else {}
        changes = [
            f"{'+' if e not in before else '-' if e not in record.entries else '~'} {e}"
            for e in sorted({*before, *record.entries})
            if before.get(e) != record.entries.get(e)
        ]
        rows.append(
            HistoryRow(
                number, number == current, record.created, record.user, record.host, record.reason,
                len(record.entries), tuple(changes),
            )
        )  # fmt: skip
    return HistoryResult(tuple(rows), tuple(flips(ctx.prefix)))


def roll_back(ctx: Context, number: int | None, *, dry_run: bool = False) -> RollbackResult:
    """To `number`, or to the generation that the current one was made from."""
    if number is None:
        current = published_record(ctx)
        number = current.parent
        if number is None:
            raise EnvmgrError(
                "no-generation", f"generation {current.number} is the first: there is nothing to go back to"
            )
    before = last_current(ctx.prefix)
    if before is None:
        published_record(ctx)  # raises: nothing was published
    read_record(ctx.prefix, number)
    if dry_run:
        return RollbackResult(before or number, number, True)
    can_write(ctx.site)
    before, after = rollback(number, ctx.prefix, ctx.runner, ctx.reporter, signer=ctx.signer)
    return RollbackResult(before, after, False)


def diff_generations(ctx: Context, a: int | None, b: int | None) -> DiffResult:
    """Entries, packages and versions that differ from generation `a` to `b`; by default from current's parent to current."""
    current = published_record(ctx)
    b = current.number if b is None else b
    a = read_record(ctx.prefix, b).parent if a is None else a
    if a is None:
        raise EnvmgrError("no-generation", f"generation {b} is the first: there is nothing to compare it with")
    old, new = read_record(ctx.prefix, a).entries, read_record(ctx.prefix, b).entries
    old_specs, new_specs = read_specs(ctx.prefix, a), read_specs(ctx.prefix, b)
    rows = []
    for entry in sorted({*old, *new}):
        if old.get(entry) == new.get(entry):
            continue
        before = published_spec(old_specs[entry]).spec.packages if entry in old else {}
        after = published_spec(new_specs[entry]).spec.packages if entry in new else {}
        if entry not in old or entry not in new:
            change = "added" if entry in new else "removed"
        else:
            change = "changed" if old[entry].digest != new[entry].digest else "module"
        rows.append(EntryDiff(entry, change, diff_packages(before, after)))
    return DiffResult(a, b, tuple(rows))


def collect_garbage(ctx: Context, *, dry_run: bool = False) -> GcResult:
    """Remove generations beyond policy, then installs that no kept generation names and no build under way uses.

    Kept are: `current`, the newest `keep_generations`, and all that were current less than `keep_days` days ago: jobs that
    started then may still run.
    """
    prefix = ctx.prefix
    if not dry_run:
        can_write(ctx.site)
    if not prefix.root.is_dir():
        return GcResult((), (), (), 0, dry_run, None)
    if dry_run:
        old, unused = _garbage(ctx)
        return GcResult(tuple(old), tuple(i.relative for i in unused), (), sum(_size(i) for i in unused), True, None)
    with logged(ctx, "gc") as (inner, log), publishing(prefix, ctx.runner, inner.reporter):
        sweep(ctx.site, ctx.runner)
        leftovers = clean_leftovers(prefix, inner.reporter)
        with file_lock(prefix.hold_lock, check=ctx.runner.raise_if_cancelled):
            old, unused = _garbage(ctx)
            remove_generations(old, prefix)
            size = 0
            for install in unused:
                with file_lock(install.lock, check=ctx.runner.raise_if_cancelled):
                    size += _size(install)
                    remove_install(install)
    return GcResult(tuple(old), tuple(i.relative for i in unused), tuple(leftovers), size, False, str(log))


def _garbage(ctx: Context) -> tuple[list[int], list[Install]]:
    prefix, policies = ctx.prefix, ctx.site.policies
    complete = complete_numbers(prefix)
    records, damaged = read_records(prefix)
    oldest = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=policies.keep_days)
    keep = set(complete[-policies.keep_generations :]) | {current_number(prefix)}
    left = {
        int(f["from"]): str(f["time"]) for f in flips(prefix) if isinstance(f.get("from"), int)
    }  # the last time counts
    created = {n: r.created for n, r in records.items()} | {n: _written(prefix, n) for n in damaged}
    keep |= {n for n, time in created.items() if datetime.datetime.fromisoformat(left.get(n, time)) > oldest}
    used = {path for n, r in records.items() if n in keep for e in r.entries.values() for path in e.paths}
    used |= {path for n in damaged if n in keep for path in mentioned_installs(prefix, n)}
    used |= held_installs(prefix) | requested_installs(prefix)
    unused = [i for i in installs(prefix) if i.relative not in used and i.manifest.stat().st_mtime < oldest.timestamp()]
    return [n for n in complete if n not in keep], unused


def _written(prefix: Prefix, number: int) -> str:
    """When the record of a damaged generation was last written."""
    seconds = (prefix.generation(number) / RECORD).lstat().st_mtime
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


def _size(install: Install) -> int:
    return sum(p.lstat().st_size for p in install.path.rglob("*") if p.is_file() and not p.is_symlink())
