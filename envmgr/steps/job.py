"""`envmgr job`: a script for sbatch that is right for this site and an entry."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from envmgr.catalog.fitness import unfit
from envmgr.catalog.names import MODULE_NAME, variable_name
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import GENERATION_VARIABLE
from envmgr.nodes.jobs import JobOptions
from envmgr.nodes.sets import fold
from envmgr.nodes.slurm import mpi_plugins, slurm_here, slurm_names, states_or_reason
from envmgr.people.environments import require_environment
from envmgr.people.lock import lock_of
from envmgr.people.places import user_places
from envmgr.publish.records import GenerationRecord, published_spec, read_specs
from envmgr.report import Lines, Result, Verbatim
from envmgr.steps import Context, published_record, require_published
from envmgr.steps.job_command import JobCommand, own_environment, read_command
from envmgr.steps.user import generation_of
from envmgr.store.node_facts import read_node_facts
from envmgr.system.files import atomic_write
from envmgr.system.shelltext import words

_ASK = 10.0  # seconds that sinfo may take
# Of what the site gives its own jobs, what is true of a user's, too; an account is not.
_OF_THE_SITE = ("--clusters", "--constraint", "--partition")

Program = Literal["torchrun", "mpi", "python", "program"]

# The process-manager interface of an MPI, by its package's name in any ecosystem: what `srun --mpi=` must be. Source:
# Slurm, "MPI Users Guide"; Open MPI from 4.0 has PMIx, MPICH and those made of it have PMI-2.
_OF_MPICH = ("mpich", "mvapich", "mvapich2", "impi", "impi_rt", "intel-mpi", "psmpi")
_INTERFACES: Mapping[str, str] = {"openmpi": "pmix"} | dict.fromkeys(_OF_MPICH, "pmi2")
_TORCH = frozenset({"torch", "pytorch"})


@dataclass(frozen=True, slots=True)
class Launch:
    """The program and its MPI. `mpi` is the word behind `srun --mpi=`; empty if this Slurm cannot start the entry's
    MPI, and `mpirun` must.
    """

    program: Program
    mpi: str


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


def write_job(
    ctx: Context,
    name: str | None,
    command: Sequence[str] = (),
    *,
    nodes: int = 1,
    processes: int | None = None,
    gpus: int = 0,
    options: JobOptions | None = None,
    output: Path | None = None,
    venv: Path | None = None,
    env: str | None = None,
    dry_run: bool = False,
) -> JobResult:
    """Write a job of `nodes` nodes, each with `gpus` GPUs and `processes` processes (None: one for each GPU, or one).

    `options.cpus` are the cores of a process. Nothing is written without `output`. The job loads the user environment
    `env`, which says its entry; or it activates the virtual environment `venv`, or else that of the shell.

    Raises:
        InputError: `not-published`, `bad-job-option`, `venv-missing`, `entry-missing`, `no-environment`.
        EnvmgrError: `nothing-published`; the file cannot be written.
    """
    asked = options or JobOptions()
    asked.check()
    current = published_record(ctx)
    own = None
    if env is not None and venv is not None:
        raise InputError("bad-job-option", "--env and --venv each say what the job activates", hint="take one of them")
    if env is not None:
        own = require_environment(user_places(ctx.environ), env)
        lock = lock_of(own)
        if name not in (None, lock.on):  # the first word of the command
            command = (name, *command)
        name, current = lock.on, generation_of(ctx, lock, current, env)
    elif name is None:
        raise InputError("entry-missing", "a job loads an entry", hint="name it, or a user environment by `--env NAME`")
    else:
        _require(ctx, name, current)
    raw = read_specs(ctx.prefix, current.number)
    specs = _with_depends(name, {entry: published_spec(of).spec for entry, of in raw.items()})
    spec = specs[name]
    here = slurm_here()
    python = any(each.python for each in specs.values())
    launch = launch_of(_packages(specs), python=python, plugins=mpi_plugins(ctx.runner) if here else None)
    excluded = _excluded(ctx, specs) if here else ""
    where = [*_where(ctx, asked), *([f"--exclude={excluded}"] if excluded else [])]
    shape = JobShape(nodes, processes or gpus or 1, gpus, asked.cpus, tuple(where))
    spec = spec.model_copy(update={"python": python})
    if own is not None:
        spec = spec.model_copy(update={"name": MODULE_NAME, "version": own.entry.version, "digest": own.digest})
    else:
        venv = _venv(ctx, venv)
    text = job_text(spec, current.number, ctx.site.name, shape, launch, command, venv)
    if output is not None and not dry_run:
        atomic_write(output, text)
    number, digest, given = current.number, spec.digest, sbatch_options(spec, shape, launch)
    name = spec.entry
    as_typed = bool(command) and not read_command(command).script
    return JobResult(
        name, number, digest, launch.program, launch.mpi, given, excluded, output, dry_run, text, as_typed, venv
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
        raise InputError(
            "venv-missing",
            f"{found} is no virtual environment",
            context=f"there is no {found / 'bin' / 'activate'}",
            hint="with the module loaded: `python -m venv --system-site-packages DIR`; then `--venv DIR`",
        )
    if named is None:
        ctx.reporter.say(f"the job activates {found}, as this shell has (VIRTUAL_ENV)")
    return found.absolute()


def _require(ctx: Context, name: str, current: GenerationRecord) -> None:
    """Require a published entry, as `require_published`; an entry that only has to be built gets that hint."""
    if name not in current.entries and name in {str(found.entry) for found in ctx.catalog.entries()}:
        raise InputError(
            "not-published",
            f"{name} is not published",
            context=f"generation {current.number}",
            hint=f"`envmgr build {name}` publishes it",
        )
    require_published([name], current)


def _with_depends(name: str, specs: Mapping[str, ModuleSpec]) -> dict[str, ModuleSpec]:
    """Return the entry and all that is loaded with it."""
    found: dict[str, ModuleSpec] = {}
    todo = [name]
    while todo:
        entry = todo.pop()
        if entry in specs and entry not in found:
            found[entry] = specs[entry]
            todo += specs[entry].depends
    return found


def _packages(specs: Mapping[str, ModuleSpec]) -> set[str]:
    """Return the names of everything that is loaded."""
    found = {package for each in specs.values() for package in each.packages}
    return found | {extension.partition("/")[0] for each in specs.values() for extension in each.extensions}


def example_job(site: Site, specs: Mapping[str, ModuleSpec], name: str, generation: int) -> str:
    """Return a job of one node, with one GPU where the entry needs one, by what is published: nothing is asked.

    `specs` are those of the whole generation.
    """
    loaded = _with_depends(name, specs)
    python = any(each.python for each in loaded.values())
    gpus = int(any(each.gpu is not None for each in loaded.values()))
    where = [each for each in site.transport.slurm_options if each.partition("=")[0] in _OF_THE_SITE]
    spec = specs[name].model_copy(update={"python": python})
    launch, shape = launch_of(_packages(loaded), python=python), JobShape(1, 1, gpus, None, tuple(where))
    return job_text(spec, generation, site.name, shape, launch, ())


def _where(ctx: Context, asked: JobOptions) -> list[str]:
    # The shape has the cores, because a torchrun task needs those of all its processes.
    given = [word for word in asked.words() if not word.startswith("--cpus-per-task=")]
    named = {word.partition("=")[0] for word in given}
    of_site = {option.partition("=")[0]: option for option in ctx.site.transport.slurm_options}
    return [of_site[name] for name in _OF_THE_SITE if name in of_site and name not in named] + given


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


_TEMPLATE = Path(__file__).with_name("job.sh.j2")
# Lines that a user puts the own program into.
_EXAMPLES = {"torchrun": "train.py", "mpi": "./program", "python": "program.py", "program": "./program"}
_NOTE = "Your program instead of `{example}`; or `envmgr job ENTRY … -- COMMAND`"


@dataclass(frozen=True, slots=True)
class JobShape:
    """The request to Slurm: `processes` on each node, `cpus` of each process; 0 GPUs and None are left to Slurm."""

    nodes: int
    processes: int
    gpus: int
    cpus: int | None
    options: tuple[str, ...]


def sbatch_options(spec: ModuleSpec, shape: JobShape, launch: Launch) -> tuple[str, ...]:
    """Return the options of sbatch. With torchrun one task is a node, with all its processes."""
    tasks, each = (1, shape.processes) if launch.program == "torchrun" else (shape.processes, 1)
    name = spec.version if spec.name == MODULE_NAME else spec.name
    found = [f"--job-name={name}", "--output=%x-%j.out", f"--nodes={shape.nodes}", f"--ntasks-per-node={tasks}"]
    found += [f"--cpus-per-task={shape.cpus * each}"] if shape.cpus is not None else []
    found += [f"--gres=gpu:{shape.gpus}"] if shape.gpus else []
    return (*found, *shape.options)


def job_text(
    spec: ModuleSpec,
    generation: int,
    site: str,
    shape: JobShape,
    launch: Launch,
    command: Sequence[str],
    venv: Path | None = None,
) -> str:
    """Return the script. `command` replaces the example: a script with its arguments, which the entry's launcher
    starts, or a program with its own, which runs as it is.
    """
    example = _EXAMPLES["python" if launch.program == "mpi" and spec.python else launch.program]
    typed = read_command(command or [example])
    launcher, lines = _lines(launch, shape, typed, python=spec.python, venv=venv is not None)
    text: str = _template().render(
        entry=spec.entry,
        generation=generation,
        digest=spec.digest[:8],
        # The name is in a comment of the script: a line break in it would begin a command.
        site=" ".join(site.split()),
        options=sbatch_options(spec, shape, launch),
        cpus=shape.cpus is not None,
        told=f"generation ${GENERATION_VARIABLE}, digest ${{ENVMGR_{variable_name(spec.name)}_DIGEST:0:8}}",
        threads=shape.processes if launch.program == "torchrun" else 1,
        rendezvous=launch.program in ("torchrun", "python"),
        note=typed.why(launcher) if command else _NOTE.format(example=example),
        venv="" if venv is None else words(str(venv / "bin" / "activate")),
        lines=lines,
    )
    return text


@cache
def _template() -> Any:
    import jinja2

    return jinja2.Template(
        _TEMPLATE.read_text(encoding="utf-8"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _lines(launch: Launch, shape: JobShape, typed: JobCommand, *, python: bool, venv: bool) -> tuple[str, list[str]]:
    """Return what starts a script, and the lines that start what was typed.

    torchrun of a module does not see the packages of a virtual environment: its own first line names the module's
    Python.
    """
    start = f"srun --mpi={launch.mpi} " if launch.mpi else "mpirun "
    if launch.program != "torchrun" or not typed.script:
        # Without a Python of its own, an entry runs a script by the script's first line.
        interpreter = typed.python or (("python",) if python or venv else ())
        by = words(*interpreter) if typed.script else ""
        return by, [f"{start}{by} {words(*typed.words)}" if by else f"{start}{words(*typed.words)}"]
    own = words(typed.own_python) if typed.own_python else "python"
    launcher = f"{own} -m torch.distributed.run" if venv or typed.own_python else "torchrun"
    return launcher, [
        f'{start}{launcher} --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node={shape.processes} \\',
        '  --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \\',
        f"  {words(*typed.words)}",
    ]


def launch_of(packages: Iterable[str], *, python: bool, plugins: Collection[str] | None = None) -> Launch:
    """Return how the entry's programs are launched.

    `packages` are the names of everything that is loaded; `plugins` are Slurm's for MPI, None if unknown. torchrun
    starts processes by itself, and a program without MPI does not use Slurm's plugins: both get `none`.
    """
    names = {name.lower() for name in packages}
    wanted = next((interface for name, interface in _INTERFACES.items() if name in names), "")
    # An entry with PyTorch may also bring an MPI, and torchrun still starts its processes.
    if names & _TORCH:
        return Launch("torchrun", "none")
    if not wanted:
        return Launch("python" if python else "program", "none")
    return Launch("mpi", wanted if plugins is None or wanted in plugins else "")
