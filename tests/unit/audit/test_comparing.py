"""Node against node: the healthy are never accused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envmgr.audit.checks import loading
from envmgr.audit.inventory.differences import Difference, differences
from envmgr.audit.inventory.facts import NodeInventory, Place
from envmgr.audit.model import Evidence
from envmgr.audit.plan import AuditRequest
from envmgr.catalog.recipe_parts import Requires
from envmgr.nodes.sets import fold
from tests.helpers.evidence import evidence, found

LOGIN = frozenset({"login", "login2"})


def fleet(**more: Any) -> Evidence:
    return evidence({}, login=LOGIN, **more)


def differ(values: Mapping[str, str], given: Evidence | None = None, kind: str = "sysctl") -> tuple[Difference, ...]:
    """What differs where the nodes have these values of one thing, and nothing else."""
    none: frozenset[Any] = frozenset()
    told = [(NodeInventory({(kind, "x"): value}, none, none, none), (node,)) for node, value in values.items()]
    return differences([Place("nodes", "", told)], given or fleet())


def findings(values: Mapping[str, str], given: Evidence | None = None, kind: str = "sysctl") -> list[str]:
    """`NODES: VALUE, and RIGHT on OTHERS`; with `or` for `and` where nobody knows which is right."""
    return [
        f"{fold(of.nodes)}: {of.value}, {'and' if of.known else 'or'} {of.right} on {fold(of.others)}"
        for of in differ(values, given, kind)
    ]


def test_most_of_at_least_three_are_right() -> None:
    assert findings({"c1": "a", "c2": "b", "c3": "a"}) == ["c2: b, and a on c[1,3]"]
    assert findings({"c1": "a", "c2": "a", "c3": "a"}) == []


def test_two_and_halves_differ_and_nobody_is_accused() -> None:
    assert findings({"c1": "a", "c2": "b"}) == ["c2: b, or a on c1"]
    assert findings({"c1": "a", "c2": "b", "c3": "a", "c4": "b"}) == ["c[2,4]: b, or a on c[1,3]"]


def test_login_nodes_and_groups_are_apart_and_files_are_compared_with_all() -> None:
    alike = {"c1": "a", "c2": "a", "c3": "a", "login": "b"}
    assert findings(alike) == []
    assert findings(alike, kind="file") == findings(alike, kind="limit") == ["login: b, and a on c[1-3]"]
    assert [findings({**alike, "c1": "\0", "login": "a"}, kind=kind) for kind in ("limit", "daemon")] == [[], []]
    given = fleet(groups={"cpu": ("c1", "c2", "c3"), "gpu": ("g1", "g2", "g3")})
    values = {"c1": "a", "c2": "a", "c3": "a", "g1": "b", "g2": "b", "g3": "b"}
    assert findings(values, given) == []
    assert findings(values | {"g2": "a"}, given) == ["g2: a, and b on g[1,3]"]


def test_reference_is_right_whatever_others_have() -> None:
    given = fleet(request=AuditRequest(reference="c2"))
    assert findings({"c1": "a", "c2": "b", "c3": "a"}, given) == ["c[1,3]: a, and b on c2"]
    assert findings({"c1": "a", "c2": "b"}, given) == ["c1: a, and b on c2"]


NODES = [f"c{n}" for n in range(1, 7)]


@given(
    st.dictionaries(st.sampled_from([*NODES, *LOGIN]), st.sampled_from("abc")),
    st.sampled_from([(), (2,), (3, 3), (1, 5)]),
)
def test_who_is_accused_stands_against_most_of_three(values: dict[str, str], sizes: tuple[int, ...]) -> None:
    groups, rest = {}, list(NODES)
    for number, size in enumerate(sizes):
        groups[f"g{number}"], rest = tuple(rest[:size]), rest[size:]
    for of in differ(values, fleet(groups=groups)):
        for node in of.nodes if of.known else ():
            assert values[node] == of.value != of.right
            like = [
                n
                for n in values
                if (n in LOGIN) == (node in LOGIN) and all((n in of) == (node in of) for of in groups.values())
            ]
            right = [n for n in like if values[n] == of.right]
            assert len(like) >= 3
            assert 2 * len(right) > len(like)


# -- where it was wrong -------------------------------------------------------------------------------------------------


def test_host_that_stands_alone_accuses_nobody() -> None:
    facts = {"current": "generations/0001", "loading.env.h/1": "A=1"}
    given = evidence({"c1": facts, "c2": facts, "c3": facts}, samples=("h/1",), entries={"h/1": Requires()})
    given = replace(given, plan=replace(given.plan, loads={"h/1": "A=2"}))
    (one,) = found(loading, given)
    assert (one.found, one.nodes, one.between) == ("not what it gives on this host: A=1", "", "c[1-3]")
