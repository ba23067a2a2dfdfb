"""The facts of nodes and the findings in `<prefix>/var/audit/nodes.json`, from the last audits: for the gate of a build, and
for the next audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from envmgr.catalog.fitness import NodeFacts
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Prefix
from envmgr.store.state_file import SECONDS, change_state
from envmgr.system.files import pretty_json
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.untrusted_files import FACTS, parse_json, read_json, why_unreadable

FORMAT = 1
"""The number of the format of the facts; another one is refused."""

Observed = Mapping[NodeFacts, Sequence[str]]  # facts -> the nodes that have them


class SeenNodes(FrozenModel):
    """Nodes with the same facts; `time` is when the audit saw them, seconds since the epoch."""

    nodes: tuple[str, ...]
    time: float
    facts: NodeFacts


class Told(FrozenModel):
    """A finding that an audit reported; `since` is when one did so first, seconds since the epoch."""

    check: str
    nodes: str
    where: str
    since: float

    @property
    def key(self) -> tuple[str, str, str]:
        return self.check, self.nodes, self.where


class FleetFacts(FrozenModel):
    """The content of `<prefix>/var/audit/nodes.json`: `groups` of the site -> nodes, every node that an audit has seen,
    and the findings of the last audit of each check.
    """

    schema_version: int = Field(default=FORMAT, alias="schema")
    groups: dict[str, tuple[str, ...]] = {}
    seen: tuple[SeenNodes, ...] = ()
    told: tuple[Told, ...] = ()

    def by_node(self) -> dict[str, NodeFacts]:
        return {node: seen.facts for seen in self.seen for node in seen.nodes}


def facts_file(prefix: Prefix) -> Path:
    return prefix.root / "var" / "audit" / "nodes.json"


def read_node_facts(prefix: Prefix) -> FleetFacts | None:
    """Return the facts; None before the first audit. Call it only for a prefix that was seen to answer. Raise
    EnvmgrError `node-facts-damaged`, `format-unknown`.
    """
    path = facts_file(prefix)
    try:
        return FleetFacts.model_validate(require_format(read_json(path, FACTS), FORMAT, path))
    except FileNotFoundError:
        return None
    except (OSError, InputError, ValueError) as error:
        raise EnvmgrError(
            "node-facts-damaged",
            f"{path} cannot be read",
            context=why_unreadable(error).splitlines()[:3],
            hint="`envmgr audit` writes it again",
        ) from None


def save_node_facts(
    site: Site,
    observed: Observed,
    groups: Mapping[str, Sequence[str]],
    now: float,
    *,
    told: Callable[[Sequence[Told]], Sequence[Told]] = tuple,
    seconds: float = SECONDS,
    check: Callable[[], None] = lambda: None,
) -> str:
    """Write an audit's facts into the prefix; return why that failed, or "": see `change_state`.

    `told` gives the findings to keep from those of earlier audits. Nodes that were not seen this time keep their known
    facts, unless they are in no group any more.
    """
    path = facts_file(Prefix(site.prefix))

    def change(text: str) -> str:
        known = _parse(text, path)
        merged = merge_facts(known, observed, groups, now)
        merged = merged.model_copy(update={"told": tuple(told(known.told if known else ()))})
        return pretty_json(merged.model_dump(mode="json", by_alias=True))

    return change_state(path, change, site, seconds=seconds, check=check)


def merge_facts(
    before: FleetFacts | None, observed: Observed, groups: Mapping[str, Sequence[str]], now: float
) -> FleetFacts:
    """Return what is known now: new facts over old ones."""
    new = {node for nodes in observed.values() for node in nodes}
    grouped = {node for nodes in groups.values() for node in nodes}
    rows = [
        SeenNodes(nodes=tuple(sorted(nodes)), time=round(now, 3), facts=facts)
        for facts, nodes in observed.items()
        if nodes
    ]
    for old in before.seen if before else ():
        kept = tuple(n for n in old.nodes if n not in new and (not groups or n in grouped))
        if kept:
            rows.append(old.model_copy(update={"nodes": kept}))
    rows.sort(key=lambda row: (row.nodes, row.time))
    return FleetFacts(groups={name: tuple(nodes) for name, nodes in sorted(groups.items())}, seen=tuple(rows))


def _parse(text: str, path: Path) -> FleetFacts | None:
    """Return the facts; None if they are missing or damaged: the new file replaces them. Raise `format-unknown`."""
    try:
        return (
            FleetFacts.model_validate(require_format(parse_json(text.encode()), FORMAT, path)) if text.strip() else None
        )
    except ValueError:
        return None
