"""Which nodes: ClusterShell's node-set syntax, with groups from site.yaml, Slurm, Ansible and ClusterShell. Nothing else names nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.nodes.groups import MOST_NODES, ClusterShellGroups, Inventory, Partitions, SiteGroups, refuse_huge, too_many
from envmgr.nodes.slurm import UNCONFIGURED, slurm_here, states_or_reason, tool, tool_env
from envmgr.system.run import Runner

_LISTING = 60.0  # seconds that sinfo or ansible-inventory may take
# A node's name becomes a word of ssh's and srun's command line: nothing that begins with `-`, nothing of a shell.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,253}")


class NodeSets:
    """Node sets of one site; Slurm and Ansible are asked once each, when first needed, for `seconds` at most."""

    def __init__(self, site: Site, runner: Runner, seconds: float = _LISTING) -> None:
        self._site = site
        self._resolver = _resolver(site, runner, min(seconds, _LISTING))

    def resolve(self, expression: str | None) -> tuple[str, ...]:
        """The nodes that `expression` names, each once, in natural order; None: all nodes of the site's groups.

        ClusterShell's syntax with its algebra: `c[1-3]`, `@gpu!c2`, `c[1-10]&@gpu`, `c*`. `@NAME` is a group of site.yaml,
        `@slurm:PARTITION`, `@ansible:GROUP` and `@clustershell:GROUP` are asked for where they are named; `@slurm:*` is all that Slurm knows.

        Raises:
            InputError: `bad-node-set`, `unknown-node-group`, `no-nodes`.
            EnvmgrError: `groups-unreadable` when sinfo or ansible-inventory is missing or fails.
        """
        site = self._site
        if expression is None and not site.groups:
            raise InputError(
                "no-nodes",
                "no nodes are named, and the site has no groups",
                context=str(site.source) if site.source else "the embedded site",
                hint="name them: `--nodes 'c[1-3]'`, `--nodes '@slurm:*'` for all that Slurm knows, or `groups:` in site.yaml",
            )
        nodes = _parse("@*" if expression is None else expression, self._resolver)
        if not nodes:
            raise InputError("no-nodes", f"`{expression or 'groups:'}` names no nodes")
        return nodes

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Each group of site.yaml with its nodes. Raises as `resolve`."""
        return {name: _parse(f"@{name}", self._resolver) for name in self._site.groups}


def resolve_nodes(expression: str | None, site: Site, runner: Runner) -> tuple[str, ...]:
    """As `NodeSets.resolve`, for one expression."""
    return NodeSets(site, runner).resolve(expression)


def fold(nodes: Iterable[str]) -> str:
    """`c[1-2,7]` for c1, c2, c7: for people, and for other tools' command lines."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    folded = NodeSet.fromlist(list(nodes), resolver=RESOLVER_NOGROUP)
    folded.fold_axis = None  # whatever defaults.conf says
    return str(folded)


def expand(folded: str) -> tuple[str, ...]:
    """The nodes of what `fold` gave, in natural order; no groups, no source of groups is asked."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    return tuple(str(node) for node in NodeSet(folded, resolver=RESOLVER_NOGROUP))


def read_folded(text: str) -> tuple[str, ...]:
    """As `expand`, of a text that may be anybody's. Raises InputError `bad-node-set`."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP

    return _parse(text, RESOLVER_NOGROUP)


def require_node_names(nodes: Iterable[str]) -> None:
    """InputError `bad-node-set` for a name that no node can have, before it reaches a command line."""
    for node in nodes:
        if not _NAME.fullmatch(node):
            raise InputError("bad-node-set", f"`{node}` cannot be the name of a node")


def _parse(expression: str, resolver: Any) -> tuple[str, ...]:
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError

    refuse_huge(expression)
    try:
        found = NodeSet(expression, resolver=resolver)
        count = len(found)
    except GroupResolverError as error:
        raise _unknown_source(str(error)) from None
    except (NodeSetException, ValueError, OverflowError, MemoryError) as error:
        words = str(error) or type(error).__name__
        if "recursion" in words:
            raise InputError("bad-node-set", f"`{expression}`: a group contains itself") from None
        raise InputError(
            "bad-node-set",
            f"`{expression}` is not a node set",
            context=words,
            hint="ClusterShell's syntax: `c[1-3,7]`, `@GROUP`, `@gpu!c2`, `@slurm:PARTITION`",
        ) from None
    if count > MOST_NODES:
        raise too_many(expression, count)
    nodes = tuple(str(node) for node in found)
    require_node_names(nodes)
    return nodes


def _unknown_source(name: str) -> InputError:
    return InputError(
        "unknown-node-group",
        f"`@{name}:` is not a source of node groups",
        hint="`@GROUP` of site.yaml, `@slurm:PARTITION`, `@ansible:GROUP`, `@clustershell:GROUP`",
    )


def _resolver(site: Site, runner: Runner, seconds: float) -> Any:
    """Groups of ClusterShell's own files are not mixed with those of site.yaml; without one, `@NAME` is one of ClusterShell's."""
    from ClusterShell.NodeUtils import GroupResolver

    if site.source is not None or site.groups:
        resolver = GroupResolver(default_source=SiteGroups(site.groups))
        resolver.add_source(ClusterShellGroups())
    else:
        resolver = GroupResolver(default_source=ClusterShellGroups())
    resolver.add_source(Partitions(runner, seconds))
    folder = site.source.parent if site.source is not None else Path("/")
    resolver.add_source(Inventory(site.transport.inventory, folder, runner, seconds))
    return resolver


_ASK = 10.0  # seconds that a command of Slurm's may take


@dataclass(frozen=True, slots=True)
class SlurmNodes:
    """What Slurm knows: its `nodes`, `partitions` with theirs, and whether it keeps accounts of jobs that have ended."""

    nodes: frozenset[str]
    partitions: Mapping[str, frozenset[str]]
    accounting: bool


NO_SLURM = SlurmNodes(frozenset(), {}, accounting=False)


def ask_slurm(runner: Runner) -> SlurmNodes:
    """What Slurm knows; `NO_SLURM` where this host has none, or its commands and no configuration.

    Raises EnvmgrError `groups-unreadable` where Slurm is there and does not answer.
    """
    if not slurm_here():
        return NO_SLURM
    states, broken = states_or_reason(runner, _ASK)
    if broken == UNCONFIGURED:
        return NO_SLURM
    if broken:
        raise EnvmgrError("groups-unreadable", "`sinfo` does not say which nodes there are", context=broken)
    found = {name: frozenset(expand(nodes)) for name, nodes in Partitions(runner, _ASK).groups().items()}
    return SlurmNodes(frozenset(states), found, _keeps_accounts(runner))


def _keeps_accounts(runner: Runner) -> bool:
    try:
        told = runner.run([tool("scontrol"), "show", "config"], env=tool_env(), timeout=_ASK).stdout
    except CommandError:
        return False
    lines = [line.partition("=") for line in told.splitlines()]
    kind = next((value.strip() for name, _, value in lines if name.strip() == "AccountingStorageType"), "")
    return kind.startswith("accounting_storage/") and kind != "accounting_storage/none"


def access_options(
    nodes: Sequence[str], slurm: SlurmNodes, *, partition: str | None = None, given: Iterable[str] = ()
) -> tuple[str, ...]:
    """sbatch's options for a job on any of `nodes`, which Slurm knows, and on no other.

    `partition` is the group's own, where it is one of Slurm's; else it is the smallest that has all nodes, or all that have some.
    `given` are options of the site, which win.
    """
    wanted, options = frozenset(nodes), tuple(given)
    named = next((option.partition("=")[2] for option in options if option.startswith("--partition=")), partition)
    chosen = named.split(",") if named else _having(wanted, slurm.partitions)
    others = frozenset[str]().union(*(slurm.partitions.get(name, frozenset()) for name in chosen)) - wanted
    found = [] if any(option.startswith("--partition=") for option in options) else [f"--partition={','.join(chosen)}"]
    found += [f"--exclude={fold(others)}"] if others else []
    return (*options, *found)


def _having(wanted: frozenset[str], partitions: Mapping[str, frozenset[str]]) -> list[str]:
    whole = [(len(nodes), name) for name, nodes in partitions.items() if wanted <= nodes]
    return [min(whole)[1]] if whole else sorted(name for name, nodes in partitions.items() if wanted & nodes)
