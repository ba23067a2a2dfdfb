"""`envmgr export`: the published entries, with the nodes that run them, as a file of another tool's kind."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envmgr.catalog.exchange import Cluster, Part, PublishedAs, SlurmAccess, get_exchange
from envmgr.catalog.fitness import NodeFacts, unfit
from envmgr.commands import Context, choose_published
from envmgr.errors import InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes import NodeSets, SlurmNodes, access_options, ask_slurm, fold, slurm_names
from envmgr.publish.record import published_spec, read_specs
from envmgr.report import Result
from envmgr.store.node_facts import read_node_facts
from envmgr.system.files import atomic_write

LOGIN = "login"


@dataclass(frozen=True, slots=True)
class ExportedPart:
    """Nodes (folded; empty for the host itself) and the entries that are offered there."""

    name: str
    nodes: str
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportResult(Result):
    """`text` is the whole file; `output` is where it is, or would be, None for nowhere."""

    schema: ClassVar[str] = "envmgr.export/1"
    to: str
    system: str
    generation: int
    entries: tuple[str, ...]
    parts: tuple[ExportedPart, ...]
    output: Path | None
    dry_run: bool
    text: str


def export_entries(
    ctx: Context,
    names: Sequence[str] = (),
    *,
    to: str,
    system: str | None = None,
    nodes: str | None = None,
    output: Path | None = None,
    dry_run: bool = False,
) -> ExportResult:
    """Write the entries `names` (none: all that are published) for the tool `to`, on `nodes` (None: all groups of the site).

    `system` is the cluster's name there, the site's where it is None. Nothing is written without `output`.

    Raises:
        InputError: `unknown-exchange`, `not-published`, and what `NodeSets.resolve` raises.
        EnvmgrError: `nothing-published`, `groups-unreadable`, `node-facts-damaged`; the file cannot be written.
    """
    exchange = get_exchange(to)
    current, chosen = choose_published(ctx, names)
    raw = read_specs(ctx.prefix, current.number)
    specs = {name: published_spec(raw[name]).spec for name in chosen}
    parts = tuple(_parts(ctx, specs, nodes))
    cluster = Cluster(
        name=system or ctx.site.name,
        prefix=str(ctx.site.prefix),
        generation=current.number,
        hosts=_hosts(ctx),
        parts=parts,
        entries=tuple(_published(name, spec) for name, spec in specs.items()),
    )
    text = exchange.cluster_text(cluster)
    if output is not None and not dry_run:
        atomic_write(output, text)
    told = tuple(ExportedPart(part.name, part.folded, part.entries) for part in parts)
    return ExportResult(to, cluster.name, current.number, tuple(chosen), told, output, dry_run, text)


def _published(name: str, spec: ModuleSpec) -> PublishedAs:
    return PublishedAs(
        entry=name,
        name=spec.name,
        version=spec.version,
        root=spec.root,
        digest=spec.digest,
        python=spec.python,
        requires=spec.requires,
        tests=spec.tests,
    )


def _hosts(ctx: Context) -> tuple[str, ...]:
    login = NodeSets(ctx.site, ctx.runner).resolve(ctx.site.login_nodes) if ctx.site.login_nodes else ()
    return tuple(dict.fromkeys([*login, socket.gethostname()]))


def _parts(ctx: Context, specs: Mapping[str, ModuleSpec], nodes: str | None) -> Iterator[Part]:
    """The host that users work on first, then each group: as Slurm knows it, or else by ssh."""
    groups = _groups(ctx, nodes)
    if LOGIN not in groups and (ctx.site.login_nodes or not groups):
        yield Part(LOGIN, (), "", None, gpu=False, entries=tuple(specs))
    if not groups:
        return
    slurm, seen = ask_slurm(ctx.runner), _facts(ctx)
    for group, found in groups.items():
        known = slurm_names(slurm.nodes, found)
        if known and (others := [node for node in found if node not in known]):
            ctx.reporter.say(f"{group}: without {fold(others)}, which Slurm does not know")
        here = tuple(known) or found
        fit = tuple(_fitting(ctx, group, specs, {node: seen[node] for node in here if node in seen}))
        gpu = all(node in seen and seen[node].driver and seen[node].gpus for node in here)
        access = _access(ctx, group, tuple(known.values()), slurm) if known else None
        yield Part(group, here, fold(here), access, gpu=gpu, entries=fit)


def _groups(ctx: Context, nodes: str | None) -> dict[str, tuple[str, ...]]:
    """Each group that has nodes, or some of the named ones."""
    sets = NodeSets(ctx.site, ctx.runner)
    groups = sets.groups()
    if nodes is not None:
        named = frozenset(sets.resolve(nodes))
        groups = {name: tuple(node for node in found if node in named) for name, found in groups.items()}
        if not any(groups.values()):
            raise InputError(
                "no-nodes", f"no group of the site has a node of `{nodes}`", hint="see `groups:` in site.yaml"
            )
    return {name: found for name, found in groups.items() if found}


def _access(ctx: Context, group: str, nodes: Sequence[str], slurm: SlurmNodes) -> SlurmAccess:
    options = access_options(
        nodes, slurm, partition=ctx.site.groups[group].slurm, given=ctx.site.transport.slurm_options
    )
    return SlurmAccess(options, slurm.accounting)


def _facts(ctx: Context) -> dict[str, NodeFacts]:
    """What the last audits saw of the nodes; nothing before the first."""
    fleet = read_node_facts(ctx.prefix)
    return fleet.by_node() if fleet is not None else {}


def _fitting(ctx: Context, group: str, specs: Mapping[str, ModuleSpec], seen: Mapping[str, NodeFacts]) -> Iterator[str]:
    """Without the entries that a node of the group cannot run, as far as is known: that is told."""
    for name, spec in specs.items():
        reasons = {node: why for node, facts in seen.items() if (why := unfit(spec.needs, facts))}
        if reasons:
            ctx.reporter.say(f"{group}: without {name}: {next(iter(reasons.values()))[0]} ({fold(reasons)})")
        else:
            yield name
