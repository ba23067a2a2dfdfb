"""`envmgr export`: published entries, or the lock of one entry, as a file of another tool."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from envmgr.backends import get_backend
from envmgr.catalog.fitness import NodeFacts, unfit
from envmgr.errors import InputError
from envmgr.exchange import Dropped, writers
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes.access import access_options, ask_slurm
from envmgr.nodes.sets import NodeSets, fold
from envmgr.nodes.slurm import slurm_names
from envmgr.publish.records import published_spec, read_current, read_specs
from envmgr.report import Lines, Result, Verbatim
from envmgr.steps import Context, choose_published
from envmgr.steps.export import Cluster, ClusterPart, SlurmAccess, get_exporter
from envmgr.steps.lock_checks import reading_entry
from envmgr.steps.opening import require_mount
from envmgr.store.node_facts import read_node_facts
from envmgr.store.place import require_place
from envmgr.system.files import atomic_write
from envmgr.verbs import DryRun, OutputOption, SomeEntries, needs, option
from envmgr.wording import counted, shortened


@dataclass(frozen=True, slots=True)
class ExportedPart:
    """Nodes (folded; empty for the host itself) and the entries that are offered there."""

    name: str
    nodes: str
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportResult(Result):
    """The result of an export. `text` is the whole file; `output` is where it is, or would be, None for nowhere."""

    schema: ClassVar[str] = "envmgr.export/1"
    to: str
    system: str
    generation: int
    entries: tuple[str, ...]
    parts: tuple[ExportedPart, ...]
    output: Path | None
    dry_run: bool
    text: str

    def lines(self) -> Lines:
        if self.output is None:
            yield Verbatim(self.text)
            return
        done = "would write" if self.dry_run else "wrote"
        entries = f"{counted(len(self.entries), 'entries')} of generation {self.generation}"
        yield f"{done} {self.output}: {entries} for {self.to}, as {self.system}"
        for part in self.parts:
            yield f"  {part.name}: {part.nodes or 'this host'}, {counted(len(part.entries), 'entries')}"


@needs("prefix")
def export(
    ctx: Context,
    to: Annotated[str, option("Name of the tool or format, such as reframe or pixi.", "TOOL")],
    entries: SomeEntries = None,
    output: OutputOption = None,
    system: Annotated[
        str | None, option("Name of the cluster in the file; by default the site's name.", "NAME")
    ] = None,
    nodes: Annotated[str | None, option("Write only these nodes of the groups, such as c[1-3].", "SET")] = None,
    dry_run: DryRun = False,
) -> Result:
    """Write entries, or an entry's lock, as another tool's file.

    ReFrame gets a configuration with one partition for each node group and one environment for each entry. The lock of
    one entry becomes a file for conda, pixi, pip or uv.
    """
    if to in writers():
        if system is not None or nodes is not None:
            message = f"--system and --nodes are of a cluster, and a file for {to} is of one entry"
            raise InputError("export-impossible", message, hint="leave them out")
        return _export_lock(ctx, entries or [], to, output, dry_run=dry_run)
    require_mount(ctx.site)
    require_place(ctx.prefix)
    exporter = get_exporter(to)
    current, chosen = choose_published(ctx, entries or ())
    raw = read_specs(ctx.prefix, current.number)
    specs = {name: published_spec(raw[name]).spec for name in chosen}
    parts = tuple(_parts(ctx, specs, nodes))
    name, prefix = system or ctx.site.name, str(ctx.site.prefix)
    cluster = Cluster(name, prefix, current.number, _hosts(ctx), parts, tuple(specs.values()))
    text = exporter.cluster_text(cluster)
    if output is not None and not dry_run:
        atomic_write(output, text)
    shown = tuple(ExportedPart(part.name, part.folded, part.entries) for part in parts)
    return ExportResult(to, cluster.name, current.number, tuple(chosen), shown, output, dry_run, text)


LOGIN = "login"


def _hosts(ctx: Context) -> tuple[str, ...]:
    login = NodeSets(ctx.site, ctx.runner).resolve(ctx.site.login_nodes) if ctx.site.login_nodes else ()
    return tuple(dict.fromkeys([*login, socket.gethostname()]))


def _parts(ctx: Context, specs: Mapping[str, ModuleSpec], nodes: str | None) -> Iterator[ClusterPart]:
    """Yield the host that users work on, then each group: as Slurm knows it, or else by ssh."""
    groups = _groups(ctx, nodes)
    if LOGIN not in groups and (ctx.site.login_nodes or not groups):
        yield ClusterPart(LOGIN, (), "", None, gpu=False, entries=tuple(specs))
    if not groups:
        return
    slurm, fleet = ask_slurm(ctx.runner), read_node_facts(ctx.prefix)
    seen = fleet.by_node() if fleet is not None else {}  # nothing before the first audit
    for group, found in groups.items():
        known = slurm_names(slurm.nodes, found)
        if known and (others := [node for node in found if node not in known]):
            ctx.reporter.say(f"{group}: without {fold(others)}, which Slurm does not know")
        here = tuple(known) or found
        fit = tuple(_fitting(ctx, group, specs, {node: seen[node] for node in here if node in seen}))
        gpu = all(node in seen and seen[node].driver and seen[node].gpus for node in here)
        access = None
        if known:
            partition, given = ctx.site.groups[group].slurm, ctx.site.transport.slurm_options
            options = access_options(tuple(known.values()), slurm, partition=partition, given=given)
            access = SlurmAccess(options, slurm.accounting)
        yield ClusterPart(group, here, fold(here), access, gpu=gpu, entries=fit)


def _groups(ctx: Context, nodes: str | None) -> dict[str, tuple[str, ...]]:
    """Return each group that has nodes, or some of the named ones."""
    sets = NodeSets(ctx.site, ctx.runner)
    groups = sets.groups()
    if nodes is not None:
        named = frozenset(sets.resolve(nodes))
        groups = {name: tuple(node for node in found if node in named) for name, found in groups.items()}
        if not any(groups.values()):
            message = f"no group of the site has a node of `{nodes}`"
            raise InputError("no-nodes", message, hint="see `groups:` in site.yaml")
    return {name: found for name, found in groups.items() if found}


def _fitting(ctx: Context, group: str, specs: Mapping[str, ModuleSpec], seen: Mapping[str, NodeFacts]) -> Iterator[str]:
    """Yield the entries that all nodes of the group can run, as far as is known; report the others."""
    for name, spec in specs.items():
        reasons = {node: why for node, facts in seen.items() if (why := unfit(spec.needs, facts))}
        if reasons:
            ctx.reporter.say(f"{group}: without {name}: {next(iter(reasons.values()))[0]} ({fold(reasons)})")
        else:
            yield name


@dataclass(frozen=True, slots=True)
class ExportedLock(Result):
    """An entry's lock as a file of another tool. `published` tells whether what is published was built from this lock.

    `text` is the whole file; `left` is what of the lock it does not hold; `output` is where it is, or would be.
    """

    schema: ClassVar[str] = "envmgr.export-lock/1"
    to: str
    entry: str
    lock: str
    published: bool
    packages: int
    left: tuple[Dropped, ...]
    output: Path | None
    dry_run: bool
    text: str

    def lines(self) -> Lines:
        if self.output is None:
            yield Verbatim(self.text)
        else:
            done = "would write" if self.dry_run else "wrote"
            yield f"{done} {self.output}: {counted(self.packages, 'packages')} of {self.entry} for {self.to}"


def _export_lock(ctx: Context, names: list[str], to: str, output: Path | None, *, dry_run: bool) -> ExportedLock:
    """Write the lock of one entry for the tool `to`.

    Raises:
        InputError: `unknown-entry`, `entry-missing`; EnvmgrError: as its lock; the file cannot be written.
    """
    if len(names) != 1:
        raise InputError("entry-missing", f"a file for {to} is of one entry", hint="name it as name/version")
    from envmgr.exchange.exact import exact_of

    found = ctx.catalog.find(ctx.catalog.parse(names[0]))
    recipe = found.recipe()
    with reading_entry(found.entry):
        lock = get_backend(recipe.backend).load_lock(found.entry, recipe, found.folder, ctx.site)
    current = read_current(ctx.prefix)
    row = None if current is None else current.entries.get(str(found.entry))
    if row is not None and row.lock != lock.sha256:
        ctx.reporter.say(f"{found.entry}: what is published was built from another lock than the one in {found.folder}")
    exact = exact_of(lock, ctx.site, ctx.runner)
    text, left = writers()[to].write(exact)
    dropped = {row.text for row in left}
    packages = [f"{each.name} {each.version}" for each in (exact.conda.packages if exact.conda else ())]
    packages += [f"{each.name} {each.version}" for each in exact.wheels]
    for line in shortened([f"not in it: {row.text}: {row.why}" for row in left]):
        ctx.reporter.say(line)
    if output is not None and not dry_run:
        atomic_write(output, text)
    published, count = row is not None and row.lock == lock.sha256, sum(each not in dropped for each in packages)
    return ExportedLock(to, str(found.entry), lock.sha256, published, count, tuple(left), output, dry_run, text)
