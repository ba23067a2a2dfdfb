"""The faults of entries: of their locks, and of those that failed in a verb that tries all of them, or goes on without
them (`--keep-going`).

Each verb asks here, so that all say the same.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from envmgr.backends import LoadedEntry
from envmgr.catalog.accept import RULES
from envmgr.catalog.entries import Catalog
from envmgr.catalog.lock_checks import Judged, LockFacts, LockFault, judge_lock, lock_contradicts
from envmgr.catalog.names import Entry, clash_of, parse_entry
from envmgr.catalog.recipe import Recipe
from envmgr.errors import EnvmgrError, InputError, Interrupted, Written, failed_ones, joined_errors
from envmgr.publish.records import read_current
from envmgr.store.prefix import Prefix
from envmgr.wording import MOST_LINES, one_line


def require_new_name(entry: Entry, catalog: Catalog, prefix: Prefix, others: Iterable[Entry] = ()) -> None:
    """Raise InputError `entry-clash` if no entry can have the name beside those of the catalogs, the published ones, and
    `others`.
    """
    current = read_current(prefix)
    known = [*(each.entry for each in catalog.entries()), *others]
    if fault := clash_of(entry, [*known, *map(parse_entry, current.entries if current else ())]):
        hint = "give the new entry another name"
        raise InputError("entry-clash", f"no new entry can be {entry}: {fault}", hint=hint)


def judge_all(
    entry: Entry, recipe: Recipe, facts: LockFacts, below: Iterable[LoadedEntry]
) -> list[tuple[Entry, Judged]]:
    """Judge the entries `below` first, in build order; the entry's own is the last."""
    found = [(each.lock.entry, judge_lock(each.lock.facts, each.recipe)) for each in below]
    return [*found, (entry, judge_lock(facts, recipe))]


def require_sound(judged: Iterable[tuple[Entry, Judged]]) -> None:
    """Raise InputError `lock-contradicts` for the first entry that has faults."""
    for entry, each in judged:
        if each.faults:
            raise lock_contradicts(entry, each)


def require_decided(problems: Iterable[EnvmgrError], judged: Iterable[tuple[Entry, Judged]]) -> None:
    """Raise all that a person has to decide before a lock is written, as one error: `problems`, and the faults of the
    first entry that has any.
    """
    found = [*problems]
    try:
        require_sound(judged)
    except InputError as error:
        found.append(error)
    if found:
        raise joined_errors(found)


def entry_faults(entry: Entry, judged: Iterable[tuple[Entry, Judged]]) -> list[LockFault]:
    """Return all faults as faults of the entry; of very many, the first, and how many more there are."""
    found: list[LockFault] = []
    for whose, each in judged:
        place = "" if whose == entry else f"the lock of {whose}, on which it stands: "
        found += [LockFault(fault.rule, f"{place}{fault.text}", _ways(fault)) for fault in each.faults]
    more = len(found) - MOST_LINES
    return [*found[:MOST_LINES], LockFault(found[-1].rule, f"and {more} more faults")] if more > 0 else found


_REPORT = "Report it: envmgr should have said what is wrong"


@contextmanager
def reading_entry(entry: object) -> Iterator[None]:
    """Turn an exception of a library, over what others wrote, into a failure of this entry: verbs go on with the
    others.

    Raises EnvmgrError `entry-unreadable`.
    """
    try:
        yield
    # A full disk or a lack of memory is no fault of the entry.
    except (EnvmgrError, OSError, MemoryError):
        raise
    except Exception as error:
        *_, (frame, line) = traceback.walk_tb(error.__traceback__)
        message = f"the recipe of {entry}, its lock or a package of it cannot be read"
        context = [why_failed(error), f"in {frame.f_globals.get('__name__')}, line {line}"]
        hint = f"look at what was changed last in the recipe and its lock; `envmgr check {entry}` says more. {_REPORT}"
        raise EnvmgrError("entry-unreadable", message, context=context, hint=hint) from error


def why_failed(error: Exception) -> str:
    """Return in one line why an entry cannot be read, for any content of its files."""
    if isinstance(error, EnvmgrError):
        return "; ".join((error.message, *error.context[:3]))
    return one_line(f"{type(error).__name__}: {error}")


def _ways(fault: LockFault) -> str:
    accept = f"`accept: {{{fault.rule}: why}}` in its recipe, where it is meant" if fault.rule in RULES else ""
    return "; or ".join(way for way in (fault.mend, accept) if way)


class Losses:
    """The entries that were lost.

    `failed` is entry -> its error, oldest first; `left` are entries that were not tried, because one below them failed.
    If it is not `allowed` to go on, the first error is raised at once.
    """

    def __init__(self, *, allowed: bool) -> None:
        self.allowed = allowed
        self.failed: dict[str, EnvmgrError] = {}
        self.left: list[str] = []

    @contextmanager
    def of(self, entry: object) -> Iterator[None]:
        """Take an error that is raised within as this entry's failure."""
        try:
            yield
        # Ctrl-C is an EnvmgrError as well: it ends the run, also with `--keep-going`.
        except Interrupted:
            raise
        except EnvmgrError as error:
            if not self.allowed:
                raise
            self.failed.setdefault(str(entry), error)

    def stand_on_lost(self, entry: object, depends: Iterable[str]) -> bool:
        """Return whether one of the entries in `depends` is lost; then this entry is lost too."""
        lost = bool({*self.failed, *self.left} & set(depends))
        if lost and str(entry) not in (*self.failed, *self.left):
            self.left.append(str(entry))
        return lost

    def raise_first(self, written: Written) -> None:
        """Raise the first error, if there is one, with what else happened."""
        if not self.failed:
            return
        (entry, error), *others = self.failed.items()
        extra = [] if entry in error.message else [f"{entry} failed"]
        for name, other in others:
            if other is error:
                extra.append(f"{name} failed by that, too")
                continue
            message = other.message if name in other.message else f"{name}: {other.message}"
            extra += ["", f"error[{other.reference}]: {message}", *(f"  {line}" for line in other.context)]
        if self.left:
            extra.append(f"not tried, because it stands on that: {', '.join(self.left)}")
        if written.generation is not None:
            extra.append(f"published anyway: {', '.join(written.published)} in generation {written.generation}")
        elif written.installs:
            extra.append(f"built and kept for the next run: {', '.join(written.installs)}")
        error.context = (*error.context, *extra)
        if written.generation is not None:
            error.hint = error.hint.removeprefix("nothing was published; ")
        error.failed, error.written = failed_ones(self.failed), written
        raise error
