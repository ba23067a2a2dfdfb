"""Circles of dependencies, and entries that depend on very many."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from envmgr.catalog.entries import MOST_BELOW, find_circles, too_many_below

NAMES = "abcdefg"
GRAPHS = st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=4))


def reached(entry: str, depends: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [entry]
    while waiting:
        fresh = {*depends.get(waiting.pop(), ())} - found
        found |= fresh
        waiting += fresh
    return found


@given(GRAPHS)
def test_an_entry_is_told_of_a_circle_that_it_reaches_and_of_no_other(depends: dict[str, list[str]]) -> None:
    found = find_circles(depends)
    wanted = {e for e in depends if any(each in reached(each, depends) for each in {e, *reached(e, depends)})}
    assert {*found} == wanted
    for entry, (who, way) in found.items():
        names = way.split(" -> ")
        assert names[0] == names[-1] == who
        assert who in {entry, *reached(entry, depends)}
        assert all(b in depends[a] for a, b in itertools.pairwise(names))


def test_a_circle_without_end_is_told_in_part() -> None:
    told = find_circles({str(n): [str((n + 1) % 5000)] for n in range(5000)})
    assert len(told) == 5000
    assert told["7"] == ("0", " -> ".join([*map(str, range(20)), "and 4981 more"]))


def test_an_entry_may_depend_on_many_and_not_on_more() -> None:
    chain = {str(n): [str(n + 1)] for n in range(MOST_BELOW + 2)}
    assert too_many_below(chain) == ["0", "1"]
    assert too_many_below({"wide": [str(n) for n in range(MOST_BELOW + 1)]}) == ["wide"]
    assert too_many_below({"wide": [str(n) for n in range(MOST_BELOW)]}) == []
