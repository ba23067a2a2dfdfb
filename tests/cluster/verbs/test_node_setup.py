"""node-setup on the real cluster: put on, used in every context, with a prefix that hangs, and taken away again."""

from __future__ import annotations

import re
import shlex

import pytest

from envmgr.system.files import shipped
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.faults import dead_node, hung, unmounted
from tests.helpers.cluster.node_setup import CONF, SNAPSHOT, set_up
from tests.helpers.cluster.site import settings

LOAD = 'module load hello; echo "$HELLO $ENVMGR_PIN $MODULEPATH"'


IN_QUOTES = f"'{LOAD}'"
SSH = {  # what ssh is given, which the user's shell on the node reads
    "bash over ssh": LOAD,
    "login bash": f"bash -lc {IN_QUOTES}",
    "login sh": f"sh -lc {IN_QUOTES}",
    "zsh": f"zsh -c {IN_QUOTES}",
    "csh": f"csh -c {IN_QUOTES}",
    "fish": f"fish -c {IN_QUOTES}",
}
SRUN = {
    "srun": f"/bin/bash -c {IN_QUOTES}",
    "srun without environment": f"--export=NONE /bin/bash -c {IN_QUOTES}",
    "srun sh": f"--export=NONE /bin/sh -c '. \"$LMOD_PKG/init/sh\"; '{IN_QUOTES}",
}


@pytest.mark.parametrize("user", ["root", "alice"])
def test_module_loads_in_every_context(cluster: Cluster, user: str) -> None:
    with set_up(cluster) as wanted:
        done = {name: cluster.exec("login", ["ssh", "c1", command], user=user) for name, command in SSH.items()}
        done |= {name: cluster.sh("login", f"srun -w c2 {command}", user) for name, command in SRUN.items()}
    assert {name: d.stdout.strip() or d.stderr for name, d in done.items()} == dict.fromkeys(SSH | SRUN, wanted)


def test_batch_jobs_of_every_kind_load_a_module(cluster: Cluster) -> None:
    heads = {
        "sh": '#!/bin/sh\n. "$LMOD_PKG/init/sh"',
        "bash": "#!/bin/bash",
        "login": "#!/bin/bash -l",
        "csh": "#!/bin/csh",
        "fish": "#!/usr/bin/fish",
    }
    with set_up(cluster) as wanted:
        for name, head in heads.items():
            cluster.write("login", f"/home/alice/{name}.job", f"{head}\n{LOAD}\n", 0o755)
        plain = "cd; " + "".join(
            f"env -i PATH=$PATH HOME=$HOME sbatch -Q {option} -o {name}{option}.out {name}.job & "
            for name in heads
            for option in ("", "--export=NONE")
        )
        cluster.sh("login", plain + 'wait; until [ -z "$(squeue -h)" ]; do sleep 0.1; done', "alice", check=True)
        said = cluster.sh("login", "cd; grep -h . *.out", "alice").stdout.splitlines()
        cluster.sh("login", "cd; rm -f *.job *.out", "alice")
        assert said == [wanted] * 10


STEPS = """module load hello && echo $HELLO
srun /bin/bash --norc -c 'echo step ${HELLO-nothing}'
srun --export=ALL /bin/bash --norc -c 'echo asked ${HELLO-nothing}'
srun --export=NONE /bin/bash --norc -c 'echo refused ${HELLO-nothing}'
unset SLURM_EXPORT_ENV
srun /bin/bash --norc -c 'echo unset ${HELLO-nothing}'
"""


def jobs(cluster: Cluster, *options: str) -> str:
    """What a job of alice's says, stderr among it; not what srun says of a step before that has not quite ended."""
    ended = 'while squeue -h -j "$job" | grep -q .; do sleep 0.1; done'  # --wait looks every few seconds
    script = f"cd; job=$(sbatch --parsable -o j.out {shlex.join(options)}); {ended}; cat j.out; rm j.out"
    said = cluster.sh("login", script, "alice").stdout
    return re.sub(
        r"^srun: (Job \d+ step creation temporarily disabled, retrying|Step created for) .*\n",
        "",
        said,
        flags=re.MULTILINE,
    )


def test_steps_of_a_job_without_environment_and_a_wrapped_module(cluster: Cluster) -> None:
    with set_up(cluster):
        module = "/export/sw/generations/0001/modules/hello/1.0.lua"
        note = (shipped("modulefiles") / "srun_note.lua").read_text()
        cluster.write("fs1", module, f'{note}srun_note()\nsetenv("HELLO", "yes")\n')
        cluster.write("login", "/home/alice/steps", f"#!/bin/bash\n{STEPS}", 0o755)
        said = jobs(cluster, "--export=NONE", "steps")
        assert "`unset SLURM_EXPORT_ENV` before it, or `srun --export=ALL`." in said
        assert said.endswith("yes\nstep nothing\nasked yes\nrefused nothing\nunset yes\n")
        told = jobs(cluster, "--wrap", "module load hello; echo $?")
        assert told.startswith(
            "module: this shell (dash) is not bash, and has no function `module`. Nothing was done.\n"
        )
        assert told.endswith("\n127\n")
        assert jobs(cluster, "--wrap", "bash -lc 'module load hello && echo $HELLO'") == "yes\n"
        cluster.write_site(slurm={"heal_export": True})
        assert cluster.envmgr(["node-setup", "--apply", "--nodes", "c[1-3]"]).code == 0
        assert jobs(cluster, "--export=NONE", "steps") == "yes\nstep yes\nasked yes\nrefused nothing\nunset yes\n"
        cluster.sh("login", "rm ~/steps", "alice")
        cluster.write_site()


def test_job_keeps_the_generation_it_was_submitted_with(cluster: Cluster) -> None:
    with set_up(cluster) as wanted:
        flip = "cd /export/sw && cp -a generations/0001 generations/0002 && ln -sfn generations/0002 current"
        old = "ENVMGR_PIN=/cluster/sw/generations/0001"
        cluster.sh("fs1", flip, check=True)
        said = cluster.sh("login", f"{old} srun -w c3 /bin/bash -c '{LOAD}'; srun -w c3 /bin/bash -c '{LOAD}'", "alice")
        assert said.stdout.splitlines() == [wanted, wanted.replace("0001", "0002")]


def test_dead_node_is_in_the_result_and_the_others_are_done(cluster: Cluster) -> None:
    with set_up(cluster):
        with dead_node(cluster, "c2"):
            done = cluster.envmgr(["node-setup", "--apply", "--nodes", "c[1-3]", "--format", "json"])
        assert done.code == 3
        assert {(o["status"], o["nodes"]) for o in done.data["outcomes"]} == {("same", "c[1,3]")}
        assert [(f["nodes"], f["status"]) for f in done.data["failures"]] == [("c2", "unreachable")]
        cluster.wait_idle()


def test_slurm_is_a_way_too_and_undo_asks_for_the_line_first(cluster: Cluster) -> None:
    with set_up(cluster):
        done = cluster.envmgr(["node-setup", "--undo", "--nodes", "c[1-3]", "--via", "slurm"])
        assert done.code == 3
        rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
        assert any(f"failed /etc/envmgr/node/task-prolog c[1-3] stays: {CONF} names it" in row for row in rows)
        assert done.stdout.splitlines()[-1] == (
            f"Slurm: take `TaskProlog=/etc/envmgr/node/task-prolog` out of {CONF} on c[1-3], then `scontrol reconfigure`"
        )
        assert cluster.sh("login", "ssh c1 'echo $ENVMGR_PIN'", "alice").stdout != "\n"  # nothing was done


def test_ordinary_user_is_told_that_root_is_needed(cluster: Cluster) -> None:
    cluster.write_site(transport={**settings(cluster.compute)["transport"], "user": "alice"})
    try:
        done = cluster.envmgr(["node-setup", "--apply", "--nodes", "c1"])
    finally:
        cluster.write_site()
    assert done.code == 3
    assert done.stdout.splitlines() == [
        "not-root: c1: the script ran there as alice, and only root can write to /etc",
        "in site.yaml: `transport: {user: root}`, or a user who may use sudo and `transport: {become: sudo -n}`",
    ]


def test_hung_prefix_hangs_no_login_and_drains_no_node(sshfs_cluster: Cluster) -> None:
    cluster = sshfs_cluster
    with set_up(cluster) as wanted:
        with hung(cluster, "c1"):
            done = cluster.exec("login", ["ssh", "c1", "bash -lc 'echo on $ENVMGR_AWAY'"], user="alice")
            assert (done.stdout.split()[:4:3], done.stderr) == (["on", "hung"], "")
            done = cluster.sh("login", "srun -w c1 /bin/bash -c 'echo on $ENVMGR_AWAY'", "alice")
            assert done.stdout.split()[:4:3] == ["on", "hung"]
        cluster.wait_idle()
        assert cluster.sh("login", f"ssh c1 '{LOAD}'", "alice").stdout.strip() == wanted


def test_unmounted_prefix_costs_nothing(cluster: Cluster) -> None:
    with set_up(cluster) as wanted:
        with unmounted(cluster, "c1"):
            done = cluster.sh("login", "ssh c1 'echo on $ENVMGR_AWAY'", "alice")
            assert (done.stdout.split()[:4:3], done.stderr) == (["on", "gone"], "")
        assert cluster.sh("login", f"ssh c1 '{LOAD}'", "alice").stdout.strip() == wanted


def test_the_line_that_nothing_was_changed_is_the_command_that_changes_it(cluster: Cluster) -> None:
    cluster.empty_prefix()
    cluster.write_site()
    before = cluster.sh("c1", SNAPSHOT).stdout

    def typed(shown: str) -> list[str]:
        found = re.search(r"^nothing was changed; `envmgr (.*)` does it$", shown, re.MULTILINE)
        assert found, shown
        return shlex.split(found[1])

    for options in ([], ["--undo"]):
        asked = ["node-setup", "--nodes", "c[1]", *options]
        state = cluster.sh("c1", SNAPSHOT).stdout
        shown = cluster.envmgr(asked)
        assert (shown.code, cluster.sh("c1", SNAPSHOT).stdout == state) == (0, True)
        done = cluster.envmgr(typed(shown.stdout))
        assert done.code == 0, done.stdout + done.stderr
        assert "nothing was changed" not in done.stdout + cluster.envmgr(asked).stdout
    assert cluster.sh("c1", SNAPSHOT).stdout == before
