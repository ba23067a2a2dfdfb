"""`envmgr job`: a script for sbatch that is right for this site and an entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envmgr.catalog.fitness import unfit
from envmgr.catalog.launch import Program, launch_of
from envmgr.commands import Context, published_record, require_published
from envmgr.commands.job_script import JobShape, job_text, sbatch_options
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes import JobOptions, fold, mpi_plugins, slurm_here, slurm_names, states_or_reason
from envmgr.publish.record import GenerationRecord, published_spec, read_specs
from envmgr.report import Result
from envmgr.store.node_facts import read_node_facts
from envmgr.system.files import atomic_write

_ASK = 10.0  # seconds that sinfo may take
# Of what the site gives its own jobs, what is true of a user's, too; an account is not.
_OF_THE_SITE = ("--clusters", "--constraint", "--partition")


@dataclass(frozen=True, slots=True)
class JobResult(Result):
    """`text` is the whole script; `output` is where it is, or would be, None for nowhere. `mpi` is empty where `mpirun` starts it.

    `options` are those of sbatch; `excluded` nodes (folded) cannot run the entry, as the last audit saw them.
    """

    schema: ClassVar[str] = "envmgr.job/1"
    entry: str
    generation: int
    digest: str
    program: Program
    mpi: str
    options: tuple[str, ...]
    excluded: str
    output: Path | None
    dry_run: bool
    text: str


def write_job(
    ctx: Context,
    name: str,
    command: Sequence[str] = (),
    *,
    nodes: int = 1,
    processes: int | None = None,
    gpus: int = 0,
    options: JobOptions | None = None,
    output: Path | None = None,
    dry_run: bool = False,
) -> JobResult:
    """A job of `nodes` nodes with `gpus` GPUs on each, and `processes` processes (None: one a GPU, or one) on each.

    `options.cpus` are the cores of a process. Nothing is written without `output`.

    Raises:
        InputError: `not-published`, `bad-job-option`.
        EnvmgrError: `nothing-published`; the file cannot be written.
    """
    asked = options or JobOptions()
    asked.check()
    current = published_record(ctx)
    _require(ctx, name, current)
    raw = read_specs(ctx.prefix, current.number)
    specs = _with_depends(name, {entry: published_spec(of).spec for entry, of in raw.items()})
    spec = specs[name]
    packages = {package for each in specs.values() for package in _packages(each)}
    here = slurm_here()
    python = any(each.python for each in specs.values())
    launch = launch_of(packages, python=python, plugins=mpi_plugins(ctx.runner) if here else None)
    excluded = _excluded(ctx, specs) if here else ""
    where = [*_where(ctx, asked), *([f"--exclude={excluded}"] if excluded else [])]
    shape = JobShape(nodes, processes or gpus or 1, gpus, asked.cpus, tuple(where))
    spec = spec.model_copy(update={"python": python})
    text = job_text(spec, current.number, ctx.site.name, shape, launch, command)
    if output is not None and not dry_run:
        atomic_write(output, text)
    return JobResult(
        name,
        current.number,
        spec.digest,
        launch.program,
        launch.mpi,
        sbatch_options(spec, shape, launch),
        excluded,
        output,
        dry_run,
        text,
    )


def _require(ctx: Context, name: str, current: GenerationRecord) -> None:
    """As `require_published`; of an entry that only has to be built, that is said."""
    if name not in current.entries and name in {str(found.entry) for found in ctx.catalog.entries()}:
        raise InputError(
            "not-published",
            f"{name} is not published",
            context=f"generation {current.number}",
            hint=f"`envmgr build {name}` publishes it",
        )
    require_published([name], current)


def _with_depends(name: str, specs: Mapping[str, ModuleSpec]) -> dict[str, ModuleSpec]:
    """The entry and all that is loaded with it."""
    found: dict[str, ModuleSpec] = {}
    todo = [name]
    while todo:
        entry = todo.pop()
        if entry in specs and entry not in found:
            found[entry] = specs[entry]
            todo += specs[entry].depends
    return found


def _packages(spec: ModuleSpec) -> set[str]:
    return {*spec.packages, *(extension.partition("/")[0] for extension in spec.extensions)}


def _where(ctx: Context, asked: JobOptions) -> list[str]:
    given = [word for word in asked.words() if not word.startswith("--cpus-per-task=")]
    named = {word.partition("=")[0] for word in given}
    of_site = {option.partition("=")[0]: option for option in ctx.site.transport.slurm_options}
    return [of_site[name] for name in _OF_THE_SITE if name in of_site and name not in named] + given


def _excluded(ctx: Context, specs: Mapping[str, ModuleSpec]) -> str:
    """Slurm's names of nodes that cannot run it, as far as an audit has seen: that is told."""
    try:
        seen = read_node_facts(ctx.prefix)
    except EnvmgrError:  # the next audit writes it anew
        return ""
    reasons = {
        node: why
        for node, facts in (seen.by_node() if seen is not None else {}).items()
        if (why := [reason for spec in specs.values() for reason in unfit(spec.needs, facts)])
    }
    if not reasons:
        return ""
    states, _ = states_or_reason(ctx.runner, _ASK)
    known = slurm_names(states, reasons)
    if not known:
        return ""
    ctx.reporter.say(f"without {fold(known)}: {reasons[next(iter(known))][0]}")
    return fold(known.values())
