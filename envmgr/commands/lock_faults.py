"""The faults of a lock and of the locks below it: each verb asks here, so that all say the same."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from envmgr.backends import LoadedEntry
from envmgr.catalog.accept import RULES
from envmgr.catalog.lock_rules import Judged, LockFacts, LockFault, judge_lock, lock_contradicts
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.errors import EnvmgrError
from envmgr.wording import MOST_LINES, one_line


def judge_all(
    entry: Entry, recipe: Recipe, facts: LockFacts, below: Iterable[LoadedEntry], *, checked: Collection[Entry] = ()
) -> list[tuple[Entry, Judged]]:
    """Judge the entries `below` first, in build order; the entry's own is the last. `checked` are those of
    `LoadedLock.facts`.
    """
    found = [(e.lock.entry, judge_lock(e.lock.facts(checked=e.lock.entry in checked), e.recipe)) for e in below]
    return [*found, (entry, judge_lock(facts, recipe))]


def require_sound(judged: Iterable[tuple[Entry, Judged]]) -> None:
    """Raise InputError `lock-contradicts` for the first entry that has faults."""
    for entry, each in judged:
        if each.faults:
            raise lock_contradicts(entry, each)


def entry_faults(entry: Entry, judged: Iterable[tuple[Entry, Judged]]) -> list[LockFault]:
    """Return all faults as faults of the entry; of very many, the first, and how many more there are."""
    found: list[LockFault] = []
    for whose, each in judged:
        place = "" if whose == entry else f"the lock of {whose}, on which it stands: "
        found += [LockFault(fault.rule, f"{place}{fault.text}", _ways(fault)) for fault in each.faults]
    more = len(found) - MOST_LINES
    return [*found[:MOST_LINES], LockFault(found[-1].rule, f"and {more} more faults")] if more > 0 else found


@contextmanager
def reading_entry(entry: object) -> Iterator[None]:
    """Turn an exception of a library, over what others wrote, into a failure of this entry: verbs go on with the
    others.

    Raises EnvmgrError `entry-unreadable`.
    """
    try:
        yield
    except (EnvmgrError, OSError, MemoryError):
        raise
    except Exception as error:
        *_, (frame, line) = traceback.walk_tb(error.__traceback__)
        raise EnvmgrError(
            "entry-unreadable",
            f"the recipe of {entry}, its lock or a package of it cannot be read",
            context=[why_failed(error), f"in {frame.f_globals.get('__name__')}, line {line}"],
            hint=f"look at what was changed last in the recipe and its lock; `envmgr catalog check {entry}` says more. "
            "Report it: envmgr should have said what is wrong",
        ) from error


def why_failed(error: Exception) -> str:
    """Return in one line why an entry cannot be read, for any content of its files."""
    if isinstance(error, EnvmgrError):
        return "; ".join((error.message, *error.context[:3]))
    return one_line(f"{type(error).__name__}: {error}")


def _ways(fault: LockFault) -> str:
    accept = f"`accept: {{{fault.rule}: why}}` in its recipe, where it is meant" if fault.rule in RULES else ""
    return "; or ".join(way for way in (fault.mend, accept) if way)
