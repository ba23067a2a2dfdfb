"""`envmgr diff`: what differs between two generations, or between what a job loaded and a generation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from envmgr.catalog.locks import LockChange, change_lines, diff_packages
from envmgr.catalog.names import MODULE_NAME
from envmgr.errors import EnvmgrError
from envmgr.people.job_output import JobLoad, read_job_output
from envmgr.people.lock import lock_of
from envmgr.people.places import UserPlaces, user_places
from envmgr.publish.records import complete_numbers
from envmgr.report import Lines, Result
from envmgr.steps import Context, published_record
from envmgr.steps.changed_entries import EntryDiff, Generation, changed_entries
from envmgr.store.prefix import SHORT
from envmgr.verbs import argument, needs
from envmgr.wording import counted


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


@needs("prefix")
def diff(
    ctx: Context,
    a: Annotated[
        str | None,
        argument(
            "Number of a generation, by default the parent of the other one; or the output file of a job.",
            "GENERATION|OUTPUT",
        ),
    ] = None,
    b: Annotated[int | None, argument("Number of a generation; by default the current one.", "GENERATION")] = None,
) -> DiffResult:
    """Show what differs between two generations, or since a job ran.

    It compares entries, packages, versions and defaults; by default the current generation with its parent. With the
    output of a job that `envmgr job` wrote, it compares what this job loaded.
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
