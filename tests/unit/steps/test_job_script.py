"""The text of a job script: whole scripts, which bash and shellcheck take, for each kind of program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.modules.spec import ModuleSpec
from envmgr.steps.job_text import JobCommand, JobShape, Launch, job_text, own_environment, read_command
from tools.check_scripts import program

TRAINING = """\
#!/bin/bash -l
# pytorch/2.1-cuda12.1, generation 7, digest abcdef01: by `envmgr job` of the site lab
#SBATCH --job-name=pytorch
#SBATCH --output=%x-%j.out
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gres=gpu:4
#SBATCH --partition=gpu
#SBATCH --time=1:00:00

export SLURM_EXPORT_ENV=ALL # srun gives its tasks what the module sets, with `sbatch --export=NONE`, too
module load pytorch/2.1-cuda12.1 || exit
echo "envmgr: pytorch/2.1-cuda12.1, generation $ENVMGR_GENERATION, digest ${ENVMGR_PYTORCH_DIGEST:0:8}, on $SLURM_JOB_NODELIST"
export OMP_NUM_THREADS=$((${SLURM_CPUS_PER_TASK:-4} / 4)) # each of the 4 processes of a task
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # from Slurm 22.05 on, srun does not take it from sbatch
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT

# Your program instead of `train.py`; or `envmgr job ENTRY … -- COMMAND`
srun --mpi=none torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=4 \\
  --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \\
  train.py
"""


def spec(entry: str, *, python: bool = False) -> ModuleSpec:
    name, version = entry.split("/")
    return ModuleSpec(
        name=name, version=version, root="/r", digest="abcdef01" + "0" * 56, description="", python=python
    )


def text(entry: str, launch: Launch, shape: JobShape, *command: str, python: bool = False) -> str:
    made = job_text(spec(entry, python=python), 7, "lab", shape, launch, command)
    checked = subprocess.run([program(), "-"], input=made, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
    return made


def test_training_on_gpus_is_one_task_a_node_with_a_process_a_gpu() -> None:
    shape = JobShape(2, 4, 4, 4, ("--partition=gpu", "--time=1:00:00"))
    assert text("pytorch/2.1-cuda12.1", Launch("torchrun", "none"), shape, python=True) == TRAINING


@pytest.mark.parametrize(
    ("launch", "command", "python", "last"),
    [
        (Launch("mpi", "pmi2"), (), False, "srun --mpi=pmi2 ./program"),
        (Launch("mpi", "pmix"), (), True, "srun --mpi=pmix python program.py"),
        (Launch("mpi", ""), ("./a b", "*"), False, "mpirun './a b' '*'"),
        (Launch("python", "none"), (), True, "srun --mpi=none python program.py"),
        (Launch("python", "none"), ("python", "-m", "x"), True, "srun --mpi=none python -m x"),
        (Launch("program", "none"), ("run",), False, "srun --mpi=none run"),
        (Launch("torchrun", "none"), ("ddp.py", "--epochs", "3"), True, "  ddp.py --epochs 3"),
    ],
)
def test_last_line_starts_what_the_entry_has(launch: Launch, command: tuple[str, ...], python: bool, last: str) -> None:
    made = text("app-x/1.0", launch, JobShape(3, 2, 0, None, ()), *command, python=python)
    assert made.splitlines()[-1] == last
    tasks = 1 if launch.program == "torchrun" else 2
    assert f"#SBATCH --nodes=3\n#SBATCH --ntasks-per-node={tasks}\n\n" in made
    assert "digest ${ENVMGR_APP_X_DIGEST:0:8}," in made
    assert ("MASTER_ADDR" in made) is (launch.program in ("torchrun", "python"))
    assert ("Your program" in made) is (not command)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("train.py --epochs 3", JobCommand(("train.py", "--epochs", "3"), script=True)),
        ("python train.py", JobCommand(("train.py",), script=True, python=("python",))),
        ("python3.11 -u train.py", JobCommand(("train.py",), script=True, python=("python3.11", "-u"))),
        ("/v/bin/python train.py", JobCommand(("train.py",), script=True, python=("/v/bin/python",))),
        ("python -m package.train x", JobCommand(("-m", "package.train", "x"), script=True, python=("python",))),
        ("python -c pass", JobCommand(("python", "-c", "pass"), script=False)),
        ("python -O train.py", JobCommand(("python", "-O", "train.py"), script=False)),
        ("python", JobCommand(("python",), script=False)),
        ("python -m torch.distributed.run train.py", None),
        ("accelerate launch x.py", None),
        ("torchrun --nnodes 2 x.py", None),
        ("./run.sh x.py", None),
        ("pythonic train.py", None),
    ],
)
def test_command_is_read_as_it_was_typed(typed: str, found: JobCommand | None) -> None:
    assert read_command(typed.split()) == (found or JobCommand(tuple(typed.split()), script=False))


def test_line_break_in_a_command_stays_in_the_comment() -> None:
    """Else the script would run what follows it."""
    made = text("torch/2", Launch("torchrun", "none"), JobShape(1, 1, 0, None, ()), "a\ntouch /x", python=True)
    (said,) = [line for line in made.splitlines() if "is a program" in line]
    assert said == "# `a\\ntouch /x` is a program: it runs as it is, once for each task"


TORCH = Launch("torchrun", "none")
ONE = JobShape(2, 1, 0, None, ())


@pytest.mark.parametrize("typed", ["train.py", "python train.py"])
def test_script_goes_to_torchrun_and_a_comment_says_so(typed: str) -> None:
    lines = text("torch/2", TORCH, ONE, *typed.split(), python=True).splitlines()
    assert lines[-4] == "# `train.py` is a script: torchrun starts it"
    assert lines[-3].startswith("srun --mpi=none torchrun --nnodes=")
    assert lines[-1] == "  train.py"


def test_program_runs_as_it_is_and_a_comment_says_so() -> None:
    made = text("torch/2", TORCH, ONE, "accelerate", "launch", "x.py", python=True)
    assert made.splitlines()[-2:] == [
        "# `accelerate` is a program: it runs as it is, once for each task",
        "srun --mpi=none accelerate launch x.py",
    ]
    assert "#SBATCH --ntasks-per-node=1\n" in made
    assert "export MASTER_ADDR MASTER_PORT" in made


def test_script_of_an_environment_is_started_by_its_python() -> None:
    """torchrun is the module's: its first line names the Python that does not see the environment's packages."""
    lines = text("torch/2", TORCH, ONE, "/v/my env/bin/python", "train.py", python=True).splitlines()
    assert lines[-3].startswith("srun --mpi=none '/v/my env/bin/python' -m torch.distributed.run --nnodes=")
    assert lines[-1] == "  train.py"


@pytest.mark.parametrize(
    ("launch", "last"),
    [
        (TORCH, "srun --mpi=none python -m torch.distributed.run --nnodes="),
        (Launch("python", "none"), "srun --mpi=none python "),
    ],
)
def test_environment_is_activated_behind_the_module(launch: Launch, last: str) -> None:
    made = job_text(spec("torch/2", python=True), 7, "lab", ONE, launch, ["train.py"], Path("/home/a/my env"))
    checked = subprocess.run([program(), "-"], input=made, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
    lines = made.splitlines()
    load = lines.index("module load torch/2 || exit")
    assert lines[load + 2] == "source '/home/a/my env/bin/activate' || exit"
    assert any(line.startswith(last) for line in lines)


def test_environment_of_envmgr_is_none_of_the_users() -> None:
    assert own_environment(None, "/opt/envmgr") is None
    assert own_environment("/opt/envmgr", "/opt/envmgr") is None
    assert own_environment("/home/a/venv", "/opt/envmgr") == Path("/home/a/venv")


@pytest.mark.parametrize("launch", [Launch("mpi", "pmix"), Launch("program", "none"), Launch("mpi", "")])
@pytest.mark.parametrize(
    ("typed", "python", "venv", "last"),
    [
        ("x.py a", False, False, "x.py a"),
        ("x.py a", True, False, "python x.py a"),
        ("x.py a", False, True, "python x.py a"),
        ("python x.py", False, False, "python x.py"),
        ("python3 -u x.py", False, False, "python3 -u x.py"),
        ("python -m mod a", False, False, "python -m mod a"),
        ("/v/bin/python x.py", True, False, "/v/bin/python x.py"),
        ("./run x.py", True, True, "./run x.py"),
    ],
)
def test_interpreter_that_was_typed_stays(launch: Launch, typed: str, python: bool, venv: bool, last: str) -> None:
    """An entry with an MPI and no Python, and an environment with mpi4py, for one."""
    entry, folder = spec("app/1", python=python), Path("/home/a/venv") if venv else None
    lines = job_text(entry, 7, "lab", ONE, launch, typed.split(), folder).splitlines()
    start = f"srun --mpi={launch.mpi} " if launch.mpi else "mpirun "
    assert lines[-1] == start + last
    assert ("is a program" in lines[-2]) is not (" is a script: " in lines[-2])
    assert (" is a script: " in lines[-2]) is ("python" in last)
