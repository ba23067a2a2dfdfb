"""The text of a job script: whole scripts, which bash and shellcheck take, for each kind of program."""

from __future__ import annotations

import subprocess

import pytest

from envmgr.commands.job import JobShape, Launch, job_text
from envmgr.modules.spec import ModuleSpec
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
