"""`envmgr diff`: what differs between two generations, or between what a job loaded and a generation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envmgr.catalog.locks import LockChange, change_lines, diff_packages
from envmgr.catalog.names import MODULE_NAME
from envmgr.errors import EnvmgrError
from envmgr.people.job_output import JobLoad, read_job_output
from envmgr.people.lock import lock_of
from envmgr.people.places import UserPlaces, user_places
from envmgr.publish.records import complete_numbers, published_spec, raw_defaults, read_record, read_specs
from envmgr.report import Lines, Result
from envmgr.steps import Context, published_record
from envmgr.store.prefix import SHORT, Prefix
from envmgr.wording import counted


@dataclass(frozen=True, slots=True)
class EntryDiff:
    """A difference. `change` is added, removed, changed (another install), module (same install, another module text)
    or default: then `entry` is a name, and `packages` has the versions that `module load NAME` gave and gives.
    """

    entry: str
    change: str
    packages: tuple[LockChange, ...]


@dataclass(frozen=True, slots=True)
class DiffResult(Result):
    """The differences from `a` to generation `b`. `a` is a generation, or None for a job's output: `loaded` is then what
    the job loaded, and `unknown` says what of it could not be compared.
    """

    schema: ClassVar[str] = "envmgr.diff/1"
    a: int | None
    b: int
    entries: tuple[EntryDiff, ...]
    loaded: tuple[JobLoad, ...] = ()
    unknown: tuple[str, ...] = ()

    def lines(self) -> Lines:
        for load in self.loaded:
            yield f"the job loaded {load.entry}, generation {load.generation}, digest {load.digest}"
        for said in self.unknown:
            yield f"note: {said}"
        if not self.entries:
            same = f"generations {self.a} and {self.b} have the same entries"
            yield same if self.a is not None else f"no known difference to generation {self.b}"
        for entry in self.entries:
            note = " (same install, module text changed)" if entry.change == "module" else ""
            if entry.change == "default":
                note = "".join(f" {row.old} -> {row.new}" for row in entry.packages)
            yield f"{entry.entry}: {entry.change}{note}"
            if entry.change == "changed":
                yield from change_lines(entry.packages)
            elif entry.packages and entry.change != "default":
                yield f"  {counted(len(entry.packages), 'packages')}"


class Generation:
    """A generation that is still there."""

    def __init__(self, prefix: Prefix, number: int) -> None:
        self.record = read_record(prefix, number)
        self.entries = self.record.entries
        self._specs = read_specs(prefix, number)
        self.defaults = raw_defaults(self._specs)

    def packages(self, name: str) -> dict[str, str]:
        return published_spec(self._specs[name]).spec.packages if name in self.entries else {}

    def loaded_with(self, name: str) -> Iterator[str]:
        """Yield an entry and all entries that its module loads."""
        if name in self.entries:
            yield name
            for each in published_spec(self._specs[name]).spec.depends:
                yield from self.loaded_with(each)


def show_differences(ctx: Context, a: str | None, b: int | None) -> DiffResult:
    """Return what differs from `a`, the number of a generation or the path of a job's output, to generation `b`: by
    default from the parent of the current generation to the current one.

    Raises InputError `job-output`; EnvmgrError `no-generation`, `nothing-published`, `generation-damaged`.
    """
    current = published_record(ctx)
    new = Generation(ctx.prefix, current.number if b is None else b)
    if a is not None and not re.fullmatch("[0-9]{1,9}", a):
        return _from_job(ctx, *read_job_output(Path(a)), new)
    number = new.record.parent if a is None else int(a)
    if number is None:
        said = f"generation {new.record.number} is the first: there is nothing to compare it with"
        raise EnvmgrError("no-generation", said)
    old = Generation(ctx.prefix, number)
    names = {*old.entries, *new.entries}
    return DiffResult(
        number, new.record.number, (*changed_entries(names, old, new), *_changed_defaults(names, old, new))
    )


def changed_entries(names: Iterable[str], old: Generation, new: Generation) -> Iterator[EntryDiff]:
    """Yield what differs of these entries."""
    for name in sorted(names):
        before, after = old.entries.get(name), new.entries.get(name)
        if before == after:
            continue
        if before is None or after is None:
            change = "removed" if after is None else "added"
        else:
            change = "changed" if before.digest != after.digest else "module"
        yield EntryDiff(name, change, diff_packages(old.packages(name), new.packages(name)))


def _changed_defaults(names: Iterable[str], old: Generation, new: Generation) -> Iterator[EntryDiff]:
    """Yield what differs of the defaults that these entries are, or could be."""
    for name in sorted({each.partition("/")[0] for each in names}):
        first, last = old.defaults.get(name, ""), new.defaults.get(name, "")
        if first and last and first != last:
            yield EntryDiff(name, "default", (LockChange(name, first, last),))


def _from_job(ctx: Context, loads: tuple[JobLoad, ...], owner: int, new: Generation) -> DiffResult:
    """Compare what a job loaded, and what its modules loaded, with a generation; environments with what they are now."""
    rows: dict[str, EntryDiff] = {}
    unknown = []
    there = complete_numbers(ctx.prefix)
    for load in loads:
        if load.entry.startswith(f"{MODULE_NAME}/"):
            if owner != os.geteuid():
                unknown.append(f"{load.entry} is an environment of the user who owns the output")
            elif (row := _own_difference(user_places(ctx.environ), load)) is not None:
                rows[row.entry] = row
            continue
        old = Generation(ctx.prefix, load.generation) if load.generation in there else None
        if old is not None and load.entry in old.entries and old.entries[load.entry].digest.startswith(load.digest):
            names = {*old.loaded_with(load.entry), *new.loaded_with(load.entry)}
            differ = (*changed_entries(names, old, new), *_changed_defaults(names, old, new))
            rows |= {row.entry: row for row in differ}
            continue
        lost = f"generation {load.generation} {'was removed' if old is None else 'has another install of it'}"
        unknown.append(f"{load.entry}: {lost}: its packages, module and default are not known")
        after = new.entries.get(load.entry)
        if after is None or not after.digest.startswith(load.digest):
            rows[load.entry] = EntryDiff(load.entry, "changed" if after else "removed", ())
    return DiffResult(None, new.record.number, tuple(rows.values()), loads, tuple(unknown))


def _own_difference(places: UserPlaces, load: JobLoad) -> EntryDiff | None:
    """Return what became of a user's own environment; without packages if the earlier install was removed."""
    now = places.install(load.entry.partition("/")[2])
    if now is None or now.digest[:SHORT] == load.digest:
        return None if now else EntryDiff(load.entry, "removed", ())
    then = now.prefix.install_at(f"store/{load.entry}-{load.digest}")
    changed = diff_packages(lock_of(then).versions, lock_of(now).versions) if then.exists() else ()
    return EntryDiff(load.entry, "changed", changed)
