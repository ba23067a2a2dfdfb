"""The facts of nodes and the findings in `<prefix>/var/audit/nodes.json`, from the last audits: for the gate of a build, and
for the next audit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from envmgr.catalog.fitness import NodeFacts
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Prefix
from envmgr.system.files import pretty_json
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.run import run_detached
from envmgr.system.shelltext import script_text
from envmgr.system.untrusted_files import FACTS, parse_json, read_json, why_unreadable
from envmgr.system.users import command_as, find_account

FORMAT = 1
"""The number of the format of the facts; another one is refused."""

_SECONDS = 20.0  # that the prefix may take to read and write one small file


Observed = Mapping[NodeFacts, Sequence[str]]  # facts -> the nodes that have them


class Seen(FrozenModel):
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
    seen: tuple[Seen, ...] = ()
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


_READ = 'if [ -e "$1/nodes.json" ]; then exec cat "$1/nodes.json"; fi'


def save_node_facts(
    site: Site,
    observed: Observed,
    groups: Mapping[str, Sequence[str]],
    now: float,
    *,
    told: Callable[[Sequence[Told]], Sequence[Told]] = tuple,
    seconds: float = _SECONDS,
    check: Callable[[], None] = lambda: None,
) -> str:
    """Write an audit's facts into the prefix, as the build user if this is root; return why that failed, or "".

    `told` gives the findings to keep from those of earlier audits. Nodes that were not seen this time keep their known facts, unless they are in no group any more. This never raises,
    and ends within `seconds` (at most 20), even if the prefix hangs; `check` is called in between and may raise.
    """
    become: tuple[str, ...] = ()
    if site.build_user is not None and os.geteuid() == 0:
        account = find_account(site.build_user)
        if account is None:
            return f"the build user `{site.build_user}` does not exist here"
        become = command_as(account)
    folder = str(facts_file(Prefix(site.prefix)).parent)
    seconds = min(seconds, _SECONDS)
    end = time.monotonic() + seconds
    # A process of its own, because a read on a hung mount cannot be given up.
    before = run_detached([*become, "/bin/sh", "-c", _READ, "sh", folder], seconds=seconds, check=check)
    if before.returncode is None:
        return f"{site.prefix} does not answer"
    try:
        known = _parse(before.output, facts_file(Prefix(site.prefix)))
    except EnvmgrError as error:
        return error.message
    merged = merge_facts(known, observed, groups, now)
    merged = merged.model_copy(update={"told": tuple(told(known.told if known else ()))})
    text = pretty_json(merged.model_dump(mode="json", by_alias=True))
    argv = [*become, "/bin/sh", "-c", script_text(__file__, "write.sh"), "sh", folder, site.policies.umask]
    done = run_detached(argv, seconds=end - time.monotonic(), stdin=text, check=check)
    if done.returncode is None:
        return f"{site.prefix} does not answer"
    said = [line.strip() for line in done.error.splitlines() if line.strip()]
    return "" if done.returncode == 0 else (said or [f"exit status {done.returncode}"])[0]


def merge_facts(
    before: FleetFacts | None, observed: Observed, groups: Mapping[str, Sequence[str]], now: float
) -> FleetFacts:
    """Return what is known now: new facts over old ones."""
    new = {node for nodes in observed.values() for node in nodes}
    grouped = {node for nodes in groups.values() for node in nodes}
    rows = [
        Seen(nodes=tuple(sorted(nodes)), time=round(now, 3), facts=facts) for facts, nodes in observed.items() if nodes
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
