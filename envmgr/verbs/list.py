"""`envmgr list`: every entry and how far it has come, or all about one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, ClassVar

from envmgr.backends import locked_packages
from envmgr.catalog.fitness import NodeFacts, NodeNeeds, judge_gpu
from envmgr.catalog.gpus import FLOORS, toolkit_driver
from envmgr.catalog.site import read_target
from envmgr.errors import EnvmgrError
from envmgr.nodes.sets import fold
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context
from envmgr.steps.entry_states import EntryState, current_generation, entry_states, gone_notes
from envmgr.steps.resolved import EntryBuild, resolve_entry
from envmgr.store.manifest import read_manifest
from envmgr.verbs import argument, needs


@dataclass(frozen=True, slots=True)
class ListResult(Result):
    schema: ClassVar[str] = "envmgr.list/1"
    entries: tuple[EntryState, ...]
    generation: int | None

    def lines(self) -> Lines:
        rows = []
        for name, group in groupby(self.entries, key=lambda e: e.entry.partition("/")[0]):
            entries = list(group)
            rows.append([name, "", entries[0].description])
            for index, entry in enumerate(entries):
                branch = "└─" if index == len(entries) - 1 else "├─"
                rows.append([f"{branch} {entry.entry.partition('/')[2]}", entry.state, ", ".join(entry.notes)])
        yield Table(rows)
        if not rows:
            yield "no catalog has an entry"
        if self.generation is not None:
            yield f"\ncurrent generation: {self.generation}"


@dataclass(frozen=True, slots=True)
class ListEntryResult(Result):
    """One entry. `recipe` is as written; `install` and `module` are paths, None if they do not exist yet.

    `gpu` is None if no GPU is needed.
    """

    schema: ClassVar[str] = "envmgr.list-entry/1"
    entry: str
    state: str
    notes: tuple[str, ...]
    software: dict[str, Any]
    recipe: dict[str, Any]
    folder: str
    packages: dict[str, str]
    digest: str | None
    install: str | None
    module: str | None
    gpu: GpuSummary | None = None

    def lines(self) -> Lines:
        recipe, software = self.recipe, self.software
        asked = {k: v for k, v in recipe["requires"].items() if v}
        requires = [f"{k} >= {v}" if isinstance(v, str) else f"{k} {', '.join(v)}" for k, v in asked.items()]
        rows = [
            ("entry", self.entry),
            ("state", ", ".join([self.state, *self.notes])),
            ("description", software["description"].strip()),
            ("homepage", software["homepage"]),
            ("licence", software["licence"]),
            ("recipe", self.folder),
            ("backend", recipe["backend"]),
            *((key, _words(value)) for key, value in recipe["input"].items()),
            ("depends", ", ".join(recipe["depends"])),
            ("families", _families(recipe)),
            ("requires", ", ".join(requires)),
            *_gpu_rows(self.gpu),
            ("tests", ", ".join(t["name"] for t in recipe["tests"])),
            ("digest", self.digest or ""),
            ("install", self.install or ""),
            ("module", self.module or ""),
            ("packages", str(len(self.packages)) if self.packages else "not locked"),
        ]
        yield Table([r for r in rows if r[1]])
        if self.packages:
            yield ""
            yield Table([f"  {name}", *spec.split(" ", 1)] for name, spec in self.packages.items())


@needs("prefix")
def list_(
    ctx: Context, entry: Annotated[str | None, argument("Show this entry, as name/version.", "ENTRY")] = None
) -> ListResult | ListEntryResult:
    """Show all entries with their states, or one.

    Of one entry it shows recipe, lock, install, module, and what it needs of GPUs.
    """
    return _every(ctx) if entry is None else _one(ctx, entry)


def _every(ctx: Context) -> ListResult:
    """Return every entry of every catalog, and the published entries that no catalog has."""
    current = current_generation(ctx)
    states = entry_states(ctx, ctx.catalog.entries(), current)
    orphans = sorted(set(current.entries if current else {}) - {s.entry for s in states})
    note = "no catalog has its recipe any more"
    states += [EntryState(e, "published", "", (note, *gone_notes(ctx, e, current)), shipped=False) for e in orphans]
    return ListResult(tuple(states), current.number if current else None)


def _one(ctx: Context, name: str) -> ListEntryResult:
    found = ctx.catalog.find(ctx.catalog.parse(name))
    recipe = found.recipe()
    current = current_generation(ctx)
    state = entry_states(ctx, [found], current)[0]
    digest = install = module = gpu = None
    notes = state.notes
    try:
        item = resolve_entry(ctx, found, read_target(ctx.site.cpu_level))
        digest = item.install.digest
        install = str(item.install.path) if item.install.exists() else None
        gpu = _gpu(ctx, item)
        notes += tuple(_made_at(item))
    except EnvmgrError:
        pass  # no usable lock: `state` and `notes` say so
    if current and name in current.entries:
        module = str(ctx.prefix.generation(current.number) / "modules" / f"{name}.lua")
        install = install or str(ctx.prefix.root / current.entries[name].path)
    return ListEntryResult(
        entry=str(found.entry),
        state=state.state,
        notes=notes,
        software=found.software().model_dump(mode="json"),
        recipe=recipe.model_dump(mode="json", by_alias=True),
        folder=str(found.folder),
        packages=dict(locked_packages(found.entry, recipe, found.folder, ctx.site)),
        digest=digest,
        install=install,
        module=module,
        gpu=gpu,
    )


def _made_at(wanted: EntryBuild) -> Iterator[str]:
    """Yield the installs of an entry that are not the same bytes everywhere. Raises EnvmgrError `manifest-damaged`."""
    for install in (item.install for item in wanted.items if item.install.exists()):
        if places := read_manifest(install.manifest).made_at:
            yield f"not reproducible: {install.relative} was built in {', '.join(places)}"


def _gpu(ctx: Context, wanted: EntryBuild) -> GpuSummary | None:
    from envmgr.store.node_facts import read_node_facts

    measured = wanted.measured()
    needs = wanted.needs(measured)
    fleet = read_node_facts(ctx.prefix) if needs.gpu is not None else None
    return summarize(needs, measured=measured is not None, seen=fleet.by_node() if fleet else {})


def _families(recipe: dict[str, Any]) -> str:
    """Return the families that the recipe names; by default they follow from what is installed."""
    named = recipe["families"]
    return "none: it stacks" if named == [] else ", ".join(named or [])


def _words(value: Any) -> str:
    """Return a recipe's value in one line: lists and mappings with commas."""
    items = [f"{k} {v}" for k, v in value.items()] if isinstance(value, dict) else value
    return ", ".join(map(str, items)) if isinstance(items, list) else str(items)


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """The verdict on an entry on these nodes (folded), as the last audits saw them."""

    nodes: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """The needs of an entry for GPUs, and its verdicts on nodes.

    `cuda` is the version of the lock, empty where it is not known. `runs_from` is the oldest driver that runs its
    machine code, `compiles_from` the first branch of drivers that compile for it; each is empty where no table has it.
    `codes` are None where they are not known. `measured`: they were read from the binaries of its install. `compat` is
    the version of its `cuda-compat`.
    """

    cuda: str | None
    runs_from: str
    compiles_from: str
    codes: tuple[str, ...] | None
    measured: bool
    compat: str
    nodes: tuple[GpuVerdict, ...]


def summarize(needs: NodeNeeds, *, measured: bool, seen: Mapping[str, NodeFacts]) -> GpuSummary | None:
    """Return the summary of an entry, None for one that needs no GPU."""
    gpu = needs.gpu
    if gpu is None:
        return None
    found: dict[tuple[str, str], list[str]] = {}
    for node, facts in seen.items():
        if judged := judge_gpu(needs, facts):
            found.setdefault((judged.verdict.value, judged.reason), []).append(node)
    return GpuSummary(
        cuda=gpu.cuda,
        runs_from=FLOORS.get((gpu.cuda or "").partition(".")[0], gpu.driver),
        compiles_from=toolkit_driver(gpu.cuda or "").partition(".")[0],
        codes=gpu.codes,
        measured=measured,
        compat=gpu.compat,
        nodes=tuple(GpuVerdict(fold(nodes), *judged) for judged, nodes in sorted(found.items())),
    )


def _gpu_rows(gpu: GpuSummary | None) -> list[tuple[str, str]]:
    """Return the driver's part, the code's part, and what the last audits saw."""
    if gpu is None:
        return []
    driver = [f"CUDA {gpu.cuda}" if gpu.cuda else "CUDA not known" if gpu.cuda is not None else "no CUDA in the lock"]
    driver += [f"runs from driver {gpu.runs_from} on"] if gpu.runs_from else ["which driver it needs is not known"]
    if gpu.compiles_from:
        driver.append(f"compiles at run time (Triton, NVRTC) from branch {gpu.compiles_from} on")
    elif gpu.cuda:
        driver.append("which driver compiles for it at run time is not known")
    driver += [f"forward compatibility by cuda-compat {gpu.compat} (data centre GPUs)"] if gpu.compat else []
    where = "measured in its install" if gpu.measured else "by its recipe; measured when it is built"
    code = f"{', '.join(gpu.codes)} ({where})" if gpu.codes else "not known" if gpu.cuda is not None else ""
    seen = [": ".join(filter(None, (each.nodes, each.verdict, each.reason))) for each in gpu.nodes]
    return [("gpu driver", "; ".join(driver)), ("gpu code", code), *(("gpu on nodes", each) for each in seen)]
