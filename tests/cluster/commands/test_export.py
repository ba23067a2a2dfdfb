"""`export --to reframe`: real ReFrame, of an ordinary user on the login node, by the file that it wrote, with jobs on the nodes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.audit_scene import ENTRIES, Audited
from tests.helpers.places import CACHE, ROOT

pytestmark = pytest.mark.xdist_group("audited")

REFRAME = CACHE / "reframe/bin/reframe"
CHECK = ROOT / "contrib/reframe/envmgr_checks.py"
CONFIG = "/etc/envmgr/reframe.json"
HOME = "/home/alice"


@pytest.fixture
def exported(audited: Audited) -> Iterator[Audited]:
    """The configuration, as the README of contrib/ says."""
    if not REFRAME.exists():
        pytest.skip("needs ReFrame; `make test-cluster` installs it")
    audited.envmgr("export", "--to", "reframe", "--output", CONFIG)
    yield audited
    audited.cluster.sh("login", f"rm -rf {CONFIG} {HOME}/rfm {HOME}/.reframe", check=True)


def reframe(scene: Audited, *words: str) -> tuple[int, str]:
    """Its exit status, and what it said. It runs in a login shell, where modules resolve."""
    argv = [str(REFRAME), "-C", CONFIG, f"--prefix={HOME}/rfm", "--nocolor", *words]
    done = scene.cluster.exec("login", ["bash", "-lc", shlex.join(argv)], user="alice")
    return done.returncode, done.stdout + done.stderr


def report(scene: Audited) -> dict[str, Any]:
    """environment -> the run of the last report: its result, and the nodes of its job."""
    path = f"{HOME}/rfm/report.json"
    data = json.loads(scene.cluster.exec("login", ["cat", path], user="alice", check=True).stdout)
    (session,) = data["runs"]
    return {case["environ"]: case for case in session["testcases"]}


def test_reframe_runs_every_entry_as_jobs_of_an_ordinary_user(exported: Audited) -> None:
    code, said = reframe(exported, "-c", str(CHECK), "-r", f"--report-file={HOME}/rfm/report.json")
    assert code == 0, said
    runs = report(exported)
    assert {name: (run["result"], run["scheduler"], run["partition"]) for name, run in runs.items()} == {
        entry.replace("/", "-").replace(".", "_"): ("pass", "squeue", "compute") for entry in ENTRIES
    }
