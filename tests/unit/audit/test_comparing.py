"""Node against node: the healthy are never accused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from envmgr.audit.checks import loading, mount
from envmgr.audit.compare.between_nodes import Comparison, compare
from envmgr.audit.model import Evidence, Outlier
from envmgr.audit.plan import AuditRequest
from envmgr.catalog.recipe_parts import Requires
from envmgr.nodes.sets import expand
from tests.helpers.evidence import drifts, evidence, found

LOGIN = frozenset({"login", "login2"})


def fleet(**more: Any) -> Evidence:
    return evidence({}, login=LOGIN, **more)


def by_value(values: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """value -> nodes, of node -> value, as answers are folded."""
    found: dict[str, list[str]] = {}
    for node, value in values.items():
        found.setdefault(value, []).append(node)
    return {value: tuple(nodes) for value, nodes in found.items()}


def findings(values: Mapping[str, str], given: Evidence | None = None) -> list[tuple[str, str, str]]:
    """(accused nodes, what was found, nodes that differ), of node -> value."""
    said = drifts(by_value(values), given or fleet())
    return [(f.nodes, f.found, f.between) for f in said]


def test_most_of_at_least_three_are_right() -> None:
    assert findings({"c1": "a", "c2": "b", "c3": "a"}) == [("c2", "b", "")]
    assert findings({"c1": "a", "c2": "a", "c3": "a"}) == []


def test_two_and_halves_differ_and_nobody_is_accused() -> None:
    assert findings({"c1": "a", "c2": "b"}) == [("", "a on c1; b on c2", "c[1-2]")]
    assert findings({"c1": "a", "c2": "b", "c3": "a", "c4": "b"}) == [("", "a on c[1,3]; b on c[2,4]", "c[1-4]")]
    assert findings({"c1": "a", "c2": "b", "c3": "c"}) == [("", "a on c1; b on c2; c on c3", "c[1-3]")]


def test_many_values_are_not_all_told() -> None:
    (said,) = findings({f"c{n}": f"v{n}" for n in range(1, 1001)})
    assert said == ("", "v1 on c1; v10 on c10; v100 on c100; v1000 on c1000; and 996 other values", "c[1-1000]")


def test_login_nodes_are_apart() -> None:
    alike = {"c1": "a", "c2": "a", "c3": "a"}
    assert findings(alike | {"login": "b"}) == [("", "a on c[1-3]; b on login", "c[1-3],login")]
    assert findings(alike | {"c2": "b", "login": "b"}) == [
        ("c2", "b", ""),
        ("", "a on c[1,3]; b on login", "c[1,3],login"),
    ]
    assert findings({"c1": "b", "c2": "a", "c3": "a", "login": "a"}) == [("c1", "b", "")]


def test_groups_that_differ_accuse_nobody() -> None:
    given = fleet(groups={"cpu": ("c1", "c2", "c3"), "gpu": ("g1", "g2", "g3")})
    values = {"c1": "a", "c2": "a", "c3": "a", "g1": "b", "g2": "b", "g3": "b"}
    assert findings(values, given) == [("", "a on c[1-3]; b on g[1-3]", "c[1-3],g[1-3]")]
    assert findings(values | {"g2": "a"}, given)[0] == ("g2", "a", "")


def test_reference_is_right_whatever_others_have() -> None:
    given = fleet(request=AuditRequest(reference="c2"))
    assert findings({"c1": "a", "c2": "b", "c3": "a"}, given) == [("c[1,3]", "a", "")]
    assert compare(by_value({"c1": "a", "c2": "b"}), given) == Comparison((Outlier("a", ("c1",), "b", ("c2",)),))


NODES = [f"c{n}" for n in range(1, 7)]


@given(
    st.dictionaries(st.sampled_from([*NODES, *LOGIN]), st.sampled_from("abc")),
    st.sampled_from([(), (2,), (3, 3), (1, 5)]),
)
def test_who_is_accused_stands_against_most_of_three(values: dict[str, str], sizes: tuple[int, ...]) -> None:
    groups, rest = {}, list(NODES)
    for number, size in enumerate(sizes):
        groups[f"g{number}"], rest = tuple(rest[:size]), rest[size:]
    compared = compare(by_value(values), fleet(groups=groups))
    for outlier in compared.outliers:
        for node in outlier.nodes:
            assert values[node] == outlier.value != outlier.right
            like = [
                n
                for n in values
                if (n in LOGIN) == (node in LOGIN) and all((n in of) == (node in of) for of in groups.values())
            ]
            right = [n for n in like if values[n] == outlier.right]
            assert len(like) >= 3
            assert 2 * len(right) > len(like)
    said = {node for o in compared.outliers for node in o.nodes} | {
        n for of in (compared.differ or {}).values() for n in of
    }
    assert (len(set(values.values())) < 2) == (not said)


# -- where it was wrong -------------------------------------------------------------------------------------------------


def accused(check: Any, given: Evidence) -> set[str]:
    findings = found(check, given)
    return {
        node
        for finding in findings
        if finding.severity != "note"
        for node in (expand(finding.nodes) if finding.nodes else ())
    }


def test_host_that_stands_alone_accuses_nobody() -> None:
    facts = {"current": "generations/0001", "loading.sha256.h/1": "1" * 64, "loading.env.h/1": "A=1"}
    given = evidence({"c1": facts, "c2": facts, "c3": facts}, samples=("h/1",), entries={"h/1": Requires()})
    given = replace(given, plan=replace(given.plan, loads={"h/1": "A=2"}))
    assert accused(loading, given) == set()
    assert [(f.found, f.between) for f in found(loading, given)] == [("not what it gives on this host: A=1", "c[1-3]")]


def test_two_nodes_with_two_servers_differ() -> None:
    def at(server: str) -> dict[str, str]:
        return {"mount.source": f"{server}:/sw", "mount.type": "nfs", "mount.point": "/sw"}

    given = evidence({"c1": at("fs1"), "c2": at("fs2")})
    assert accused(mount, given) == set()
    assert [(f.found, f.between) for f in found(mount, given)] == [("fs1:/sw on c1; fs2:/sw on c2", "c[1-2]")]
    three = evidence({"c1": at("fs1"), "c2": at("fs2"), "c3": at("fs1")})
    assert accused(mount, three) == {"c2"}
