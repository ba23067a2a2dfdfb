"""`envmgr job`: a script for sbatch that is right for this site and an entry."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from envmgr.catalog.fitness import unfit
from envmgr.catalog.names import MODULE_NAME
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes.jobs import JobOptions
from envmgr.nodes.sets import fold
from envmgr.nodes.slurm import mpi_plugins, slurm_here, slurm_names, states_or_reason
from envmgr.people.environments import require_environment
from envmgr.people.lock import lock_of
from envmgr.people.places import user_places
from envmgr.publish.records import published_spec, read_specs
from envmgr.report import Lines, Result, Verbatim
from envmgr.steps import Context, published_record, require_published
from envmgr.steps.job_text import (
    OF_THE_SITE,
    JobShape,
    Program,
    job_text,
    launch_of,
    loaded_packages,
    own_environment,
    read_command,
    sbatch_options,
    with_depends,
)
from envmgr.steps.user import generation_of
from envmgr.store.node_facts import read_node_facts
from envmgr.system.files import atomic_write
from envmgr.verbs import AccountOption, DryRun, OutputOption, PartitionOption, TimeOption, argument, needs, option

_ASK = 10.0  # seconds that sinfo may take


@dataclass(frozen=True, slots=True)
class JobResult(Result):
    """A job script. `text` is the whole script; `output` is its file, None for none. `mpi` is empty if `mpirun` starts
    the program.

    `options` are those of sbatch; the nodes in `excluded` (folded) cannot run the entry, according to the last audit.
    `as_typed`: the command is a program that runs as it is. The job activates the virtual environment `venv`.
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
    as_typed: bool = False
    venv: Path | None = None

    def lines(self) -> Lines:
        if self.output is None:
            yield Verbatim(self.text)
            return
        done = "would write" if self.dry_run else "wrote"
        yield f"{done} {self.output}: {self.entry} of generation {self.generation}; `sbatch {self.output}`"


@needs("mount")
def job(
    ctx: Context,
    entry: Annotated[str | None, argument("A published entry, as name/version; or use --env.", "[ENTRY]")] = None,
    command: Annotated[
        list[str] | None, argument("Command that the job runs; by default an example.", "[-- COMMAND]")
    ] = None,
    count: Annotated[int, option("Number of nodes that the job asks for.", "COUNT", "-N", min=1)] = 1,
    gpus: Annotated[int, option("Number of GPUs that the job asks for on each node.", "G", min=0)] = 0,
    processes: Annotated[
        int | None,
        option(
            "Number of processes on each node; by default one for each GPU, or one without GPUs.",
            "P",
            "--ntasks-per-node",
            min=1,
        ),
    ] = None,
    cpus: Annotated[int | None, option("Number of cores for each process.", "C", min=1)] = None,
    venv: Annotated[
        Path | None,
        option("Virtual environment that the job activates; by default the one that this shell has activated.", "DIR"),
    ] = None,
    env: Annotated[str | None, option("Load your environment user/NAME in place of an entry.", "NAME")] = None,
    time: TimeOption = None,
    partition: PartitionOption = None,
    account: AccountOption = None,
    output: OutputOption = None,
    dry_run: DryRun = False,
) -> JobResult:
    """Print a script for sbatch that runs an entry.

    It loads the module, starts processes as the entry's MPI or torchrun needs, and writes to the job's log what ran.
    """
    asked = JobOptions(partition=partition, account=account, cpus=cpus, time=time)
    typed = command or []
    asked.check()
    current = published_record(ctx)
    own = None
    if env is not None and venv is not None:
        raise InputError("bad-job-option", "--env and --venv each say what the job activates", hint="take one of them")
    if env is not None:
        own = require_environment(user_places(ctx.environ), env)
        lock = lock_of(own)
        if entry not in (None, lock.on):  # the first word of the command
            typed = [entry, *typed]
        entry, current = lock.on, generation_of(ctx, lock, current, env)
    elif entry is None:
        hint = "name it, or a user environment by `--env NAME`"
        raise InputError("entry-missing", "a job loads an entry", hint=hint)
    elif entry not in current.entries:
        only_built = entry in {str(found.entry) for found in ctx.catalog.entries()}
        require_published([entry], current, f"`envmgr build {entry}` publishes it" if only_built else "")
    raw = read_specs(ctx.prefix, current.number)
    specs = with_depends(entry, {each: published_spec(of).spec for each, of in raw.items()})
    spec = specs[entry]
    here = slurm_here()
    python = any(each.python for each in specs.values())
    launch = launch_of(loaded_packages(specs), python=python, plugins=mpi_plugins(ctx.runner) if here else None)
    excluded = _excluded(ctx, specs) if here else ""
    where = [*_where(ctx, asked), *([f"--exclude={excluded}"] if excluded else [])]
    shape = JobShape(count, processes or gpus or 1, gpus, asked.cpus, tuple(where))
    spec = spec.model_copy(update={"python": python})
    if own is not None:
        spec = spec.model_copy(update={"name": MODULE_NAME, "version": own.entry.version, "digest": own.digest})
    else:
        venv = _venv(ctx, venv)
    text = job_text(spec, current.number, ctx.site.name, shape, launch, typed, venv)
    if output is not None and not dry_run:
        atomic_write(output, text)
    number, digest, given = current.number, spec.digest, sbatch_options(spec, shape, launch)
    entry = spec.entry
    as_typed = bool(typed) and not read_command(typed).script
    return JobResult(
        entry, number, digest, launch.program, launch.mpi, given, excluded, output, dry_run, text, as_typed, venv
    )


def _venv(ctx: Context, named: Path | None) -> Path | None:
    """Return the virtual environment that the job activates. Raise InputError `venv-missing`."""
    if (found := named or own_environment(ctx.environ.get("VIRTUAL_ENV"), sys.prefix)) is None:
        return None
    there = (found / "bin" / "activate").is_file()
    if named is None and not there:
        ctx.reporter.say(f"warning: VIRTUAL_ENV of this shell names {found}, which is gone: the job activates nothing")
        return None
    if not there:
        context = f"there is no {found / 'bin' / 'activate'}"
        hint = "with the module loaded: `python -m venv --system-site-packages DIR`; then `--venv DIR`"
        raise InputError("venv-missing", f"{found} is no virtual environment", context=context, hint=hint)
    if named is None:
        ctx.reporter.say(f"the job activates {found}, as this shell has (VIRTUAL_ENV)")
    return found.absolute()


def _where(ctx: Context, asked: JobOptions) -> list[str]:
    # The shape has the cores, because a torchrun task needs those of all its processes.
    given = [word for word in asked.words() if not word.startswith("--cpus-per-task=")]
    named = {word.partition("=")[0] for word in given}
    of_site = {option.partition("=")[0]: option for option in ctx.site.transport.slurm_options}
    return [of_site[name] for name in OF_THE_SITE if name in of_site and name not in named] + given


def _excluded(ctx: Context, specs: Mapping[str, ModuleSpec]) -> str:
    """Return Slurm's names of nodes that cannot run the entry, as far as an audit has seen; report them."""
    try:
        seen = read_node_facts(ctx.prefix)
    except EnvmgrError:  # the next audit writes it again
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
