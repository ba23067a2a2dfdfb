"""`status.json`, beside the page: what changes without a publish. It says only what was seen, and of which install."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Literal

from envmgr.catalog.fitness import NodeFacts, NodeNeeds, judge_gpu, unfit
from envmgr.nodes.sets import expand, fold
from envmgr.page.model import FORMAT
from envmgr.store.node_facts import FleetFacts, SeenNodes
from envmgr.store.node_tests import NodeTests
from envmgr.system.models import FrozenModel

NOT_SEEN = "not seen"
_NO_GROUP = "in no group"


class GroupVerdict(FrozenModel):
    """The gate's verdict on nodes (folded) of a group. `verdict` is `fits`, `does not fit`, `not seen`, or for an entry
    that needs a GPU one of the eight of a GPU. `seen` is when an audit looked, empty if none did.
    """

    group: str
    nodes: str
    verdict: str
    reason: str
    seen: str


class LastTest(FrozenModel):
    """The last end of a test on nodes (folded)."""

    test: str
    nodes: str
    status: Literal["passed", "failed", "skipped", "not-run"]
    time: str


class EntryStatus(FrozenModel):
    """The known facts of the entry's install of this `digest`."""

    digest: str
    gate: tuple[GroupVerdict, ...]
    tests: tuple[LastTest, ...]


class Status(FrozenModel):
    """The file. An entry keeps the tests of its install from one generation to the next."""

    schema_version: int = FORMAT
    generation: int
    written: str
    entries: dict[str, EntryStatus]


def make_status(
    generation: int,
    needs: Mapping[str, NodeNeeds],
    digests: Mapping[str, str],
    fleet: FleetFacts | None,
    tests: NodeTests,
    now: float,
    before: Status | None = None,
) -> Status:
    """Return the status of the entries, by what the last audits and the tests of this generation saw, and those of the
    same installs `before`.
    """
    groups = groups_of(fleet) if fleet else {}
    return Status(
        generation=generation,
        written=_time(now),
        entries={
            entry: EntryStatus(
                digest=digests[entry],
                gate=tuple(group_verdicts(needs[entry], groups)),
                tests=_last_tests(entry, digests[entry], tests, before),
            )
            for entry in sorted(needs)
        },
    )


def _last_tests(entry: str, digest: str, tests: NodeTests, before: Status | None) -> tuple[LastTest, ...]:
    """Return the last end of each test on each node, alike ones in one row."""
    old = before.entries.get(entry) if before else None
    rows = [*old.tests] if old and old.digest == digest else []
    rows += [
        LastTest(test=each.test, nodes=fold(each.nodes), status=each.status, time=_time(each.time))
        for each in tests.tests
        if each.entry == entry
    ]
    last = {(row.test, node): row for row in sorted(rows, key=lambda row: row.time) for node in expand(row.nodes)}
    alike: dict[LastTest, list[str]] = {}
    for (_, node), row in last.items():
        alike.setdefault(row.model_copy(update={"nodes": ""}), []).append(node)
    found = [row.model_copy(update={"nodes": fold(nodes)}) for row, nodes in alike.items()]
    return tuple(sorted(found, key=lambda row: (row.test, row.nodes)))


Group = list[tuple[SeenNodes | None, str]]


def groups_of(fleet: FleetFacts) -> dict[str, Group]:
    """Return group -> its nodes (folded) that have the same facts, None for those that no audit saw."""
    alike: dict[tuple[NodeFacts, float], SeenNodes] = {}  # rows that differ only in `since` are one here
    known = {node: alike.setdefault((seen.facts, seen.time), seen) for seen in fleet.seen for node in seen.nodes}
    rest = known.keys() - {node for nodes in fleet.groups.values() for node in nodes}
    found: dict[str, Group] = {}
    for name, nodes in {**fleet.groups, _NO_GROUP: tuple(sorted(rest))}.items():
        rows: dict[int, list[str]] = {}
        for node in nodes:
            rows.setdefault(id(known.get(node)), []).append(node)
        found[name] = [(known.get(each[0]), fold(each)) for each in rows.values()]
    return found


def group_verdicts(needs: NodeNeeds, groups: Mapping[str, Group]) -> Iterator[GroupVerdict]:
    """Yield the gate's verdict on the nodes of each group, alike ones together."""
    for name, rows in groups.items():
        for seen, nodes in rows:
            verdict, reason = _verdict(needs, seen.facts) if seen else (NOT_SEEN, "no audit has looked at it")
            at = _time(seen.time) if seen else ""
            yield GroupVerdict(group=name, nodes=nodes, verdict=verdict, reason=reason, seen=at)


def _verdict(needs: NodeNeeds, facts: NodeFacts) -> tuple[str, str]:
    judged = judge_gpu(needs, facts)
    # What speaks against it, though its GPUs do not.
    others = [reason for reason in unfit(needs, facts) if judged is None or reason != judged.reason]
    if others:
        return "does not fit", "; ".join(others)
    return (judged.verdict.value, judged.reason) if judged else ("fits", "")


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
