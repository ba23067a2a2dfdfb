"""The script of a job: what starts an entry's programs, and what sbatch is asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from envmgr.catalog.names import MODULE_NAME, variable_name
from envmgr.catalog.site import Site
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import GENERATION_VARIABLE
from envmgr.system.shelltext import words
from envmgr.wording import one_line

_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.[0-9]+)?)?")


# Modules that start processes themselves. Source: the manuals of PyTorch, accelerate, DeepSpeed and mpi4py.
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "accelerate.", "deepspeed", "mpi4py")
_SHOWN = 80  # characters


@dataclass(frozen=True, slots=True)
class JobCommand:
    """A command. `words` follow the launcher if it is a `script`, and are the whole command if not. `python` is the
    interpreter that was typed before a script, with its option `-u`; empty without one.
    """

    words: tuple[str, ...]
    script: bool
    python: tuple[str, ...] = ()

    @property
    def own_python(self) -> str:
        """The interpreter if it was typed with its folder, such as that of a virtual environment."""
        return self.python[0] if self.python and "/" in self.python[0] else ""

    def why(self, launcher: str) -> str:
        """Return the comment of the job script: what `launcher` starts, empty if nothing does, and the reason."""
        if not self.script or not launcher:
            return f"`{one_line(self.words[0], _SHOWN)}` is a program: it runs as it is, once for each task"
        what = f"module {self.words[1]}" if self.words[0] == "-m" else self.words[0]
        return f"`{one_line(what, _SHOWN)}` is a script: {launcher} starts it"


def read_command(command: Sequence[str]) -> JobCommand:
    """Return what was typed: `train.py`, `python train.py`, `python -m package`, `/venv/bin/python train.py`, or a
    program.
    """
    first, *rest = command
    if first.endswith(".py"):
        return JobCommand(tuple(command), script=True)
    if not _PYTHON.fullmatch(first):
        return JobCommand(tuple(command), script=False)
    # torchrun itself adds `-u`. A script behind any other option of Python needs that option, and torchrun takes none.
    words = rest[1:] if rest[:1] == ["-u"] else rest
    module = len(words) > 1 and words[0] == "-m" and not words[1].startswith(_LAUNCHERS)
    if module or (words and words[0].endswith(".py")):
        return JobCommand(tuple(words), script=True, python=tuple(command[: len(command) - len(words)]))
    return JobCommand(tuple(command), script=False)


def own_environment(variable: str | None, envmgr: str) -> Path | None:
    """Return the virtual environment that a shell's `VIRTUAL_ENV` names; None without one, and for that of envmgr."""
    return None if not variable or Path(variable).resolve() == Path(envmgr).resolve() else Path(variable)


# Of what the site gives its own jobs, what is true of a user's, too; an account is not.
OF_THE_SITE = ("--clusters", "--constraint", "--partition")


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


def with_depends(name: str, specs: Mapping[str, ModuleSpec]) -> dict[str, ModuleSpec]:
    """Return the entry and all that is loaded with it."""
    found: dict[str, ModuleSpec] = {}
    todo = [name]
    while todo:
        entry = todo.pop()
        if entry in specs and entry not in found:
            found[entry] = specs[entry]
            todo += specs[entry].depends
    return found


def loaded_packages(specs: Mapping[str, ModuleSpec]) -> set[str]:
    """Return the names of everything that is loaded."""
    found = {package for each in specs.values() for package in each.packages}
    return found | {extension.partition("/")[0] for each in specs.values() for extension in each.extensions}


def example_job(site: Site, specs: Mapping[str, ModuleSpec], name: str, generation: int) -> str:
    """Return a job of one node, with one GPU where the entry needs one, by what is published: nothing is asked.

    `specs` are those of the whole generation.
    """
    loaded = with_depends(name, specs)
    python = any(each.python for each in loaded.values())
    gpus = int(any(each.gpu is not None for each in loaded.values()))
    where = [each for each in site.transport.slurm_options if each.partition("=")[0] in OF_THE_SITE]
    spec = specs[name].model_copy(update={"python": python})
    launch, shape = launch_of(loaded_packages(loaded), python=python), JobShape(1, 1, gpus, None, tuple(where))
    return job_text(spec, generation, site.name, shape, launch, ())


_TEMPLATE = Path(__file__).with_name("job_text.sh.j2")


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
