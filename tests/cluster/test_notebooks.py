"""Kernels of entries on a real cluster: alice's Jupyter starts one in a shell, in a job, and where no start-up file is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import ask_kernel
from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import Cluster
from tests.helpers.real_wheels import PLATFORM, real_wheels
from tests.helpers.sandbox import PYTHON
from tests.helpers.wheelhouse import Wheelhouse

ENTRY, KERNEL = "nb/1.0", "nb-1.0"
CODE = "import einops, os; print(einops.VERSION, os.uname().nodename, os.environ['ENVMGR_GENERATION'])"


@pytest.fixture(scope="module")
def lab(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Generation 1 has a Python, generation 2 an entry with ipykernel, too; alice has a program that asks kernels."""
    cluster, made = own_cluster, Audited(own_cluster)
    cluster.empty_prefix("rsw")
    house = Wheelhouse(Path(f"/proc/{cluster.pid('login')}/root/srv/index"))
    house.add(*real_wheels("ipykernel", tmp_path_factory.mktemp("wheels")))
    house.wheel("einops", "0.7.0")
    indexes = {"house": {"url": "file:///srv/index/simple"}}
    cluster.write_site(backends={"wheels": {"indexes": indexes}}, slurm={"heal_export": False})
    cluster.recipe("interpreter/1.0", [f"python {PYTHON}.*"])
    wanted = {
        "python": "interpreter/1.0",
        "requirements": ["ipykernel", "einops"],
        "indexes": ["house"],
        "platform": PLATFORM,
    }
    cluster.recipe(ENTRY, [], backend="wheels", input=wanted)
    for entry in ("interpreter/1.0", ENTRY):
        made.envmgr("lock", entry)
        made.envmgr("build", entry)
    made.set_up("login,c[1-3]")
    made.task_prolog()
    cluster.write("login", "/home/alice/ask.py", Path(ask_kernel.__file__).read_text())
    return made


def test_kernel_is_started_in_shells_jobs_and_services_and_rollback_takes_it_back(lab: Audited) -> None:
    cluster = lab.cluster
    python = cluster.sh("login", f"bash -lc 'module load {ENTRY} && command -v python'", check=True).stdout.strip()
    ask = f'{python} ask.py {KERNEL} "{CODE}"'
    cluster.write("login", "/home/alice/shell.sh", f"cd; {ask}\n")
    service = "su alice -c 'cd && env -i HOME=/home/alice PATH=/usr/bin:/bin {}'"  # as systemd starts a JupyterHub
    assert cluster.sh("c1", "su - alice -c 'sh shell.sh'").stdout == "0.7.0 c1 2\n"
    cluster.write("login", "/home/alice/job.sh", f"#!/bin/sh\n{ask}\n")
    done = cluster.sh(
        "login", "su - alice -c 'sbatch --wait --export=NONE -w c2 -o job.out -e job.err job.sh >&2; cat job.out'"
    )
    assert done.stdout == "0.7.0 c2 2\n"
    assert cluster.sh("c3", service.format("sh shell.sh")).stdout == "0.7.0 c3 2\n"
    offered = service.format(f"{python} ask.py")
    place = f"/usr/local/share/jupyter/kernels/{KERNEL}"
    assert f"{KERNEL}\tnb/1.0 (generation 2)\t{place}\n" in cluster.sh("c1", offered, check=True).stdout
    assert lab.findings("--via", "both") == []
    try:
        lab.envmgr("rollback", "1")
        for said in (offered, f"su - alice -c '{python} ask.py'"):
            assert KERNEL not in cluster.sh("c1", said, check=True).stdout
        kept = f"ENVMGR_PIN={cluster.prefix}/generations/0002"
        assert cluster.sh("c1", f"su alice -c 'cd; {kept} bash -lc \"sh shell.sh\"'").stdout == "0.7.0 c1 2\n"
    finally:
        lab.envmgr("rollback", "2")


def test_audit_names_a_link_that_was_lost_or_turned_and_leaves_a_folder_of_the_site(lab: Audited) -> None:
    cluster, link = lab.cluster, "/usr/local/share/jupyter/kernels"
    again = "`envmgr node-setup --apply --nodes c2`"
    for do, hint in ((f"rm {link}", again), (f"ln -sfn /srv {link}", f"remove it, unless it is yours, then {again}")):
        cluster.sh("c2", do, check=True)
        (cause,) = lab.audit("--nodes", "c[1-3]", "--check", "inventory")["causes"]
        assert (cause["severity"], cause["nodes"], cause["where"], cause["hint"]) == ("warning", "c2", link, hint)
        cluster.sh("c2", f"rm -f {link}", check=True)
        lab.envmgr("node-setup", "--apply", "--nodes", "c2")
        assert lab.findings("--nodes", "c[1-3]", "--check", "inventory") == []
    cluster.sh("c2", f"rm {link}; mkdir -p {link}/site; echo {{}} >{link}/site/kernel.json", check=True)
    done = lab.envmgr("node-setup", "--apply", "--nodes", "c2")
    assert f"JUPYTER_PATH={cluster.prefix}/current" in done.stdout
    assert lab.findings("--nodes", "c[1-3]", "--check", "node-setup") == []
    cluster.envmgr(["node-setup", "--undo", "--apply", "--nodes", "c2"])  # the task prolog stays
    assert cluster.sh("c2", f"cat {link}/site/kernel.json").stdout == "{}\n"
