"""`envmgr export` on this machine: what is written where, and what is not. ReFrame itself reads it in tests/cluster."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.sandbox import Sandbox

HERE = socket.gethostname().partition(".")[0]


@pytest.fixture
def published(sandbox: Sandbox) -> Sandbox:
    sandbox.recipe("hello/1.0", ["hello-prefix"], tests=[{"name": "runs", "run": "hello-prefix"}])
    sandbox.ok("lock", "hello/1.0")
    sandbox.ok("build", "hello/1.0")
    return sandbox


def config(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_a_site_without_groups_has_one_partition_this_host(published: Sandbox) -> None:
    found = config(published.ok("export", "--to", "reframe").stdout)
    (system,) = found["systems"]
    assert [system["name"], *system["hostnames"]] == [system["name"], rf"{HERE}(\.|$)"]
    assert [(p["name"], p["scheduler"], p["environs"]) for p in system["partitions"]] == [
        ("login", "local", ["hello-1_0"])
    ]
    (environment,) = found["environments"]
    assert Path(environment["extras"]["root"]).is_dir()
    assert [test["run"] for test in environment["extras"]["tests"]] == ["hello-prefix"]


def test_groups_that_slurm_does_not_know_are_reached_by_ssh_beside_the_login_nodes(published: Sandbox) -> None:
    published.settings |= {"groups": {"lab": {"nodes": "w[1-3]"}, "old": {"nodes": "v1"}}, "login_nodes": "front[1-2]"}
    published.write_site()
    (system,) = config(published.ok("export", "--to", "reframe", PATH=no_slurm(published)).stdout)["systems"]
    assert system["hostnames"] == [rf"{host}(\.|$)" for host in ("front1", "front2", HERE)]
    assert [(p["name"], p["scheduler"], p["descr"]) for p in system["partitions"]] == [
        ("login", "local", "this host"),
        ("lab", "ssh", "w[1-3]"),
        ("old", "ssh", "v1"),
    ]
    (system,) = config(published.ok("export", "--to", "reframe", "--nodes", "w[2-9]", PATH=no_slurm(published)).stdout)[
        "systems"
    ]
    assert [p["descr"] for p in system["partitions"]] == ["this host", "w[2-3]"]


def no_slurm(sandbox: Sandbox) -> str:
    """A PATH with a `sinfo` that has no configuration, whatever this machine has."""
    folder = sandbox.root / "bin"
    folder.mkdir(exist_ok=True)
    for name in ("sinfo", "srun", "sbatch"):
        (folder / name).write_text("#!/bin/sh\necho 'Could not establish a configuration source' >&2\nexit 1\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_an_entry_that_a_node_cannot_run_is_left_out_there_and_told(published: Sandbox) -> None:
    published.settings["groups"] = {"lab": {"nodes": "w[1-2]"}}
    published.write_site()
    published.recipe("new/1.0", ["hello-prefix"], requires={"glibc": "9.9"})
    published.ok("lock", "new/1.0")
    published.ok("build", "new/1.0")
    facts = published.prefix / "var/audit/nodes.json"
    facts.parent.mkdir(parents=True, exist_ok=True)
    seen = {"nodes": ["w2"], "time": 1.0, "facts": {"glibc": "2.36"}}
    facts.write_text(json.dumps({"schema": 1, "groups": {}, "seen": [seen]}))
    done = published.ok("export", "--to", "reframe", PATH=no_slurm(published))
    (partition,) = config(done.stdout)["systems"][0]["partitions"]
    assert partition["environs"] == ["hello-1_0"]
    assert "lab: without new/1.0: glibc 2.36 is older than 9.9 (w2)" in done.stderr


def test_output_is_written_whole_and_told_and_a_dry_run_writes_nothing(published: Sandbox) -> None:
    path = published.root / "reframe.yaml"
    done = published.ok("export", "--to", "reframe", "--output", str(path), "--dry-run")
    assert done.stdout.startswith(f"would write {path}: 1 entry of generation 1 for reframe, as ")
    assert not path.exists()
    done = published.ok("export", "--to", "reframe", "--output", str(path), "--system", "lab")
    assert done.stdout == (f"wrote {path}: 1 entry of generation 1 for reframe, as lab\n  login: this host, 1 entry\n")
    assert path.stat().st_mode & 0o7777 == 0o644
    assert path.read_text() == published.ok("export", "--to", "reframe", "--system", "lab").stdout


def test_json_tells_what_was_written_and_where(published: Sandbox) -> None:
    path = published.root / "reframe.yaml"
    data = published.ok("export", "--to", "reframe", "-o", str(path), "--format", "json").data
    assert data["schema"] == "envmgr.export/1"
    assert (data["to"], data["generation"], data["entries"], data["output"]) == ("reframe", 1, ["hello/1.0"], str(path))
    assert data["parts"] == [{"name": "login", "nodes": "", "entries": ["hello/1.0"]}]
    assert data["text"] == path.read_text()


def test_what_cannot_be_written_is_told(published: Sandbox) -> None:
    for argv, reference, code in (
        (["--to", "refrain"], "unknown-exchange", 2),
        (["hello/2.0", "--to", "reframe"], "not-published", 2),
        (["--to", "reframe", "--nodes", "w9"], "no-nodes", 2),
        (["--to", "reframe", "--output", "no/such/folder"], "output-failed", 3),
    ):
        done = published.run("export", *argv)
        assert (done.code, done.stdout) == (code, "")
        assert done.stderr.startswith(f"error[{reference}]: ")


def test_nothing_published_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("export", "--to", "reframe")
    assert (done.code, done.stderr.partition(":")[0]) == (3, "error[nothing-published]")
