"""`envmgr job` for PyTorch: what it prints is submitted as it is, for each way in which people type their command.

torch is a stand-in: its torchrun takes the options of the real one, and starts a process for each of `--nproc-per-node`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.waiting import wait_for
from tests.helpers.wheelhouse import Wheelhouse

pytestmark = pytest.mark.xdist_group("audited")

ENTRY = "torch/1.0"
HOME = Path("/home/alice/train")
RUN = """\
import argparse, os, subprocess, sys


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-id", "rdzv-endpoint"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    argv = [sys.executable, "-u", *(["-m"] if given.module else []), given.script, *given.args]
    ranks = range(int(given.nproc_per_node))
    started = [subprocess.Popen(argv, env={**os.environ, "LOCAL_RANK": str(rank)}) for rank in ranks]
    sys.exit(max(process.wait() for process in started))


if __name__ == "__main__":
    main()
"""
TRAIN = """\
import importlib.util, json, os, sys

import torch

row = {
    "argv": sys.argv[1:],
    "rank": os.environ.get("LOCAL_RANK"),
    "extra": importlib.util.find_spec("extra") is not None,
    "x": os.environ.get("X"),
    "meet": "MASTER_ADDR" in os.environ,
}
sys.stdout.write("row " + json.dumps(row) + "\\n")
"""
# As accelerate does: a program of the module, or of an environment, that starts the script by itself.
ACCELERATE = """\
import subprocess, sys


def main():
    verb, *words = sys.argv[1:]
    assert verb == "launch"
    sys.exit(subprocess.run([sys.executable, *words]).returncode)
"""
HARD = ["--name=a b", "it's", '"quoted"', "$HOME", "*", "a\\b", "", "ü"]


@pytest.fixture(scope="module")
def lab(audited: Audited) -> Iterator[Audited]:
    cluster = audited.cluster
    house = Wheelhouse(cluster.host_prefix / "house")
    files = {"torch/__init__.py": "", "torch/distributed/__init__.py": "", "torch/distributed/run.py": RUN}
    scripts = {"torchrun": "torch.distributed.run:main", "accelerate": "launching:main"}
    house.wheel("torch", files={**files, "launching.py": ACCELERATE}, scripts=scripts)
    index = {"url": f"file://{cluster.prefix}/house/simple"}
    cluster.write_site(backends={"wheels": {"indexes": {"house": index}}})
    given = {"python": "hello/1.0", "requirements": ["torch"], "indexes": ["house"]}
    cluster.recipe(ENTRY, [], backend="wheels", input=given)
    try:
        audited.envmgr("lock", ENTRY)
        audited.envmgr("build", ENTRY)
        cluster.sh("login", f"rm -rf {HOME}; install -d -o alice {HOME} {HOME}/pack", check=True)
        for name in ("train.py", "pack/__init__.py", "pack/__main__.py"):
            cluster.write("login", HOME / name, TRAIN if name != "pack/__init__.py" else "")
        cluster.write("login", HOME / "program", f'#!/bin/sh\nexec python {HOME}/train.py "$@"\n', 0o755)
        venv = "python -m venv --system-site-packages --without-pip venv"
        line = f"module load {ENTRY} && {venv} && cd venv/lib/python3*/site-packages && touch extra.py"
        made = cluster.exec("login", ["bash", "-lc", f"cd {HOME} && {line}"], user="alice")
        assert made.returncode == 0, made.stderr
        yield audited
    finally:
        cluster.envmgr(["publish", "--remove", ENTRY])
        cluster.write_site()
        cluster.sh("login", f"rm -rf {HOME} {cluster.prefix}/house /etc/envmgr/recipes/torch")


def submitted(lab: Audited, name: str, command: list[str], *options: str, shell: str = "true") -> str:
    """Print the script for the command in a shell of alice, and submit it; returns the script."""
    argv = ["envmgr", "job", ENTRY, "-N", "2", "--ntasks-per-node", "2", *options, "--", *command]
    lab.cluster.put_envmgr_on_path()
    line = f"cd {HOME} && {shell} && {shlex.join(argv)} >{name}.sh && sbatch -o {name}.out {name}.sh"
    done = lab.cluster.exec("login", ["bash", "-lc", line], user="alice")
    assert done.returncode == 0, done.stderr
    return lab.cluster.sh("login", f"cat {HOME}/{name}.sh", check=True).stdout


def finished(lab: Audited, name: str) -> tuple[list[dict[str, Any]], str]:
    said = lab.cluster.sh("login", f"cat {HOME}/{name}.out").stdout
    return [json.loads(line[4:]) for line in said.splitlines() if line.startswith("row ")], said


LAUNCHED = {"rank": {"0", "1"}, "count": 4, "argv": [], "extra": False, "x": None}
AS_TYPED = {"rank": {None}, "count": 2, "argv": [], "extra": False, "x": None}
OF_VENV = {**LAUNCHED, "extra": True}
ACTIVE = "module load torch/1.0 && source venv/bin/activate"
# Name -> command, options, the shell before it, what runs, and the comment above the last line.
CASES: dict[str, tuple[list[str], list[str], str, dict[str, Any], str]] = {
    "readme": (["python", "train.py"], [], "true", LAUNCHED, "`train.py` is a script: torchrun starts it"),
    "script": (["train.py"], [], "true", LAUNCHED, "`train.py` is a script: torchrun starts it"),
    "hard": (["train.py", *HARD], [], "true", {**LAUNCHED, "argv": HARD}, "`train.py` is a script"),
    "module": (
        ["python", "-m", "pack", "--lr", "1"],
        [],
        "true",
        {**LAUNCHED, "argv": ["--lr", "1"]},
        "`module pack` is",
    ),
    "unbuffered": (["python", "-u", "train.py", "-u"], [], "true", {**LAUNCHED, "argv": ["-u"]}, "torchrun starts it"),
    "own": (
        ["./venv/bin/python", "train.py"],
        [],
        "true",
        OF_VENV,
        "./venv/bin/python -m torch.distributed.run starts it",
    ),
    "venv": (["train.py"], ["--venv", "venv"], "true", OF_VENV, "python -m torch.distributed.run starts it"),
    "active": (["python", "train.py"], [], ACTIVE, OF_VENV, "python -m torch.distributed.run starts it"),
    "launch": (
        ["accelerate", "launch", "train.py", "-x"],
        [],
        "true",
        {**AS_TYPED, "argv": ["-x"]},
        "`accelerate` is a program",
    ),
    "program": (
        ["./program", *HARD],
        [],
        "true",
        {**AS_TYPED, "argv": HARD},
        "`./program` is a program: it runs as it is",
    ),
    "shell": (
        ["bash", "-c", 'X="a b" python train.py $((1 + 1))'],
        [],
        "true",
        {**AS_TYPED, "argv": ["2"], "x": "a b"},
        "`bash` is",
    ),
    "env": (["env", "X=1", "python", "train.py"], [], "true", {**AS_TYPED, "x": "1"}, "`env` is a program"),
    "optimised": (["python", "-O", "train.py"], [], "true", AS_TYPED, "`python` is a program"),
}


def test_each_way_to_type_a_command_runs_what_was_typed(lab: Audited) -> None:
    scripts = {name: submitted(lab, name, case[0], *case[1], shell=case[2]) for name, case in CASES.items()}
    wait_for(lambda: not lab.cluster.exec("login", ["squeue", "-h"]).stdout, what="the end of the jobs", seconds=600)
    found, wanted = {}, {}
    for name, (_, _, _, expected, comment) in CASES.items():
        rows, said = finished(lab, name)
        found[name] = {
            "rank": {row["rank"] for row in rows},
            "count": len(rows),
            **{key: next((row[key] for row in rows), said) for key in ("argv", "extra", "x")},
        }
        wanted[name] = expected
        assert all(row["meet"] for row in rows), name
        assert comment in scripts[name], scripts[name]
    assert found == wanted
