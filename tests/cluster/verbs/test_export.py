"""`export --to reframe`: real ReFrame, of an ordinary user on the login node, by the file that it wrote, with jobs on the nodes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from tests.helpers.audit_scene import ENTRIES, Audited
from tests.helpers.cluster import Cluster, faults
from tests.helpers.places import CACHE, ROOT

pytestmark = pytest.mark.xdist_group("audited")

REFRAME = CACHE / "reframe/bin/reframe"
CHECK = ROOT / "contrib/reframe/envmgr_checks.py"
CONFIG = "/etc/envmgr/reframe.yaml"
HOME = "/home/alice"


@pytest.fixture
def exported(audited: Audited) -> Iterator[Audited]:
    """The configuration, as the README of contrib/ says."""
    if not REFRAME.exists():
        pytest.skip("needs ReFrame; `make test-cluster` installs it")
    audited.envmgr("export", "--to", "reframe", "--output", CONFIG)
    yield audited
    audited.cluster.sh("login", f"rm -rf {CONFIG} {HOME}/rfm {HOME}/.reframe {HOME}/own.py", check=True)


def reframe(scene: Audited, *words: str) -> tuple[int, str]:
    """Its exit status, and what it said. It runs in a login shell, where modules resolve."""
    argv = [str(REFRAME), "-C", CONFIG, f"--prefix={HOME}/rfm", "--nocolor", *words]
    done = scene.cluster.exec("login", ["bash", "-lc", shlex.join(argv)], user="alice")
    return done.returncode, done.stdout + done.stderr


def runs(scene: Audited, check: str, *words: str) -> dict[str, dict[str, Any]]:
    """environment -> its run: result, reason, nodelist, scheduler, partition. ReFrame's exit status is that of all."""
    path = f"{HOME}/rfm/report.json"
    code, said = reframe(scene, "-c", check, "-r", f"--report-file={path}", *words)
    data = json.loads(scene.cluster.exec("login", ["cat", path], user="alice", check=True).stdout)
    (session,) = data["runs"]
    found = {case["environ"]: case for case in session["testcases"]}
    assert code == (0 if all(case["result"] == "pass" for case in found.values()) else 1), said
    return found


def name(entry: str) -> str:
    """Of its environment."""
    return entry.replace("/", "-").replace(".", "_")


def test_every_entry_passes_as_a_job_of_an_ordinary_user(exported: Audited) -> None:
    found = runs(exported, str(CHECK))
    assert {environ: (run["result"], run["scheduler"], run["partition"]) for environ, run in found.items()} == {
        name(entry): ("pass", "squeue", "compute") for entry in ENTRIES
    }


def test_a_sites_own_check_is_started_by_srun_on_the_nodes_that_were_exported(exported: Audited) -> None:
    cluster = exported.cluster
    exported.envmgr("export", ENTRIES[1], "--to", "reframe", "--nodes", "c[2-3]", "--system", "lab", "-o", CONFIG)
    cluster.write("login", f"{HOME}/own.py", OWN_CHECK)
    found = runs(exported, f"{HOME}/own.py")
    assert {environ: (run["result"], run["system"]) for environ, run in found.items()} == {
        name(ENTRIES[1]): ("pass", "lab")
    }


OWN_CHECK = """\
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Prefixes(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['+python']
    executable = 'python'
    executable_opts = ['-c', '"import socket, sys; print(socket.gethostname(), sys.prefix)"']
    num_tasks = 2
    num_tasks_per_node = 1

    @sanity_function
    def both_run_the_install(self):
        root = self.current_environ.extras['root']
        return sn.assert_eq(sn.sorted(sn.extractall('.+', self.stdout)), [f'c2 {root}', f'c3 {root}'])
"""


def test_nodes_that_slurm_does_not_know_are_reached_by_ssh(exported: Audited) -> None:
    """This host has no Slurm, as far as envmgr can see: its PATH has none of the commands."""
    done = exported.cluster.envmgr(
        ["export", "--to", "reframe", "--nodes", "c2", "--output", CONFIG], env={"PATH": "/usr/local/bin"}
    )
    assert done.code == 0, done.stderr
    found = runs(exported, str(CHECK))
    assert {environ: (run["result"], run["scheduler"]) for environ, run in found.items()} == {
        name(entry): ("pass", "ssh") for entry in ENTRIES
    }
    with faults.unmounted(exported.cluster, "c2"):
        assert {run["result"] for run in runs(exported, str(CHECK)).values()} == {"fail"}


def test_a_node_without_the_install_fails(exported: Audited) -> None:
    exported.envmgr("export", "--to", "reframe", "--nodes", "c1", "--output", CONFIG)
    roots = {env["name"]: env["extras"]["root"] for env in config(exported)["environments"]}
    with covered(exported.cluster, "c1", roots[name(ENTRIES[0])]):
        found = runs(exported, str(CHECK))
    assert {environ: run["result"] for environ, run in found.items()} == {
        name(ENTRIES[0]): "fail",
        name(ENTRIES[1]): "pass",
    }
    broken = found[name(ENTRIES[0])]
    assert broken["fail_phase"] == "sanity"
    assert "its install is not there" in broken["fail_reason"]


def test_a_test_of_an_entry_that_fails_is_told(exported: Audited) -> None:
    exported.envmgr("export", "--to", "reframe", "--nodes", "c1", "--output", CONFIG)
    roots = {env["name"]: env["extras"]["root"] for env in config(exported)["environments"]}
    with covered(exported.cluster, "c1", f"{roots[name(ENTRIES[1])]}/bin"):
        found = runs(exported, str(CHECK))
    assert {environ: run["result"] for environ, run in found.items()} == {
        name(ENTRIES[0]): "pass",
        name(ENTRIES[1]): "fail",
    }
    assert "a test failed" in found[name(ENTRIES[1])]["fail_reason"]


def test_a_node_without_the_prefix_fails(exported: Audited) -> None:
    exported.envmgr("export", "--to", "reframe", "--nodes", "c1", "--output", CONFIG)
    with faults.unmounted(exported.cluster, "c1"):
        found = runs(exported, str(CHECK))
    assert {run["result"] for run in found.values()} == {"fail"}
    assert all("its module was not loaded" in run["fail_reason"] for run in found.values())


def config(scene: Audited) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(scene.cluster.exec("login", ["cat", CONFIG], check=True).stdout)
    return data


@contextmanager
def covered(cluster: Cluster, node: str, folder: str) -> Iterator[None]:
    """An empty file system over a folder of one node."""
    cluster.sh(node, f"mount -t tmpfs tmpfs {folder}", check=True)
    try:
        yield
    finally:
        cluster.sh(node, f"umount {folder}", check=True)


def test_reframe_reads_the_file_as_it_was_meant(exported: Audited) -> None:
    code, said = reframe(exported, "--show-config=systems/0/partitions/@compute")
    assert code == 0, said
    shown = json.loads(said)  # nothing beside it: ReFrame has no warning either
    written = next(part for part in config(exported)["systems"][0]["partitions"] if part["name"] == "compute")
    assert shown == written
    assert (written["scheduler"], written["launcher"], written["access"]) == ("squeue", "srun", ["--partition=all"])
