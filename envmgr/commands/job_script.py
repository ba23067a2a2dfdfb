"""A job script as text: what its lines say, from the entry and what was asked for. Pure, but for reading the template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.launch import Launch
from envmgr.catalog.names import variable_name
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import GENERATION_VARIABLE
from envmgr.system.shelltext import words

_TEMPLATE = Path(__file__).with_name("job.sh.j2")
# Lines that a user puts the own program into.
_EXAMPLES = {"torchrun": "train.py", "mpi": "./program", "python": "program.py", "program": "./program"}
_NOTE = "Your program instead of `{example}`; or `envmgr job ENTRY … -- COMMAND`"


@dataclass(frozen=True, slots=True)
class JobShape:
    """What is asked of Slurm. `processes` are those of a node, `cpus` those of a process; 0 GPUs and None are left to Slurm."""

    nodes: int
    processes: int
    gpus: int
    cpus: int | None
    options: tuple[str, ...]


def sbatch_options(spec: ModuleSpec, shape: JobShape, launch: Launch) -> tuple[str, ...]:
    """A task of torchrun is a node's, with all its processes."""
    tasks, each = (1, shape.processes) if launch.program == "torchrun" else (shape.processes, 1)
    found = [f"--job-name={spec.name}", "--output=%x-%j.out", f"--nodes={shape.nodes}", f"--ntasks-per-node={tasks}"]
    found += [f"--cpus-per-task={shape.cpus * each}"] if shape.cpus is not None else []
    found += [f"--gres=gpu:{shape.gpus}"] if shape.gpus else []
    return (*found, *shape.options)


def job_text(
    spec: ModuleSpec, generation: int, site: str, shape: JobShape, launch: Launch, command: Sequence[str]
) -> str:
    """The script. `command` takes the example's place: torchrun's script with its arguments, or a program with its own."""
    import jinja2

    example = _EXAMPLES["python" if launch.program == "mpi" and spec.python else launch.program]
    given = words(*command) if command else example
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - a shell's words are quoted
    )
    text: str = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        entry=spec.entry,
        generation=generation,
        digest=spec.digest[:8],
        site=" ".join(site.split()),
        options=sbatch_options(spec, shape, launch),
        cpus=shape.cpus is not None,
        told=f"generation ${GENERATION_VARIABLE}, digest ${{ENVMGR_{variable_name(spec.name)}_DIGEST:0:8}}",
        threads=shape.processes if launch.program == "torchrun" else 1,
        rendezvous=launch.program in ("torchrun", "python"),
        note="" if command else _NOTE.format(example=example),
        lines=_lines(launch, shape, given, python=spec.python and not command),
    )
    return text


def _lines(launch: Launch, shape: JobShape, command: str, *, python: bool) -> list[str]:
    srun = f"srun --mpi={launch.mpi} "
    if launch.program == "torchrun":
        return [
            f'{srun}torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node={shape.processes} \\',
            '  --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \\',
            f"  {command}",
        ]
    if launch.program == "mpi" and not launch.mpi:
        return [f"mpirun {'python ' if python else ''}{command}"]
    return [f"{srun}{'python ' if python else ''}{command}"]
