"""Smoke tests: what they may do, when they are skipped, and which entries have to pass them again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Sandbox

HELLO = ["hello-prefix"]


def test_test_that_needs_mpi_is_skipped_without_a_launcher_and_runs_with_one(sandbox: Sandbox) -> None:
    tests = [{"name": "ranks", "run": "echo ran", "needs": ["mpi"]}]
    sandbox.recipe("plain/1.0", HELLO, tests=tests)
    launcher = sandbox.root / "bin"
    launcher.mkdir()
    (launcher / "mpiexec").write_text("#!/bin/sh\n")
    (launcher / "mpiexec").chmod(0o755)
    sandbox.recipe("mpi/1.0", HELLO, tests=tests, environment={"prepend": {"PATH": [str(launcher)]}})
    sandbox.ok("lock", "--all")
    # Slurm's srun is a launcher, too: here there is none.
    hide = 'for name in srun mpiexec mpirun; do file=$(command -v $name) && mount --bind /dev/null "$file"; done; exec "$@"'
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    argv = sandbox.command("build", "plain/1.0", "mpi/1.0", "--format", "json")
    built = subprocess.run(
        ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", hide, "sh", *argv],
        cwd=sandbox.root, env=sandbox.environ(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    done = json.loads(built.stdout)["tests"]
    assert {t["entry"]: (t["status"], t["detail"]) for t in done} == {
        "plain/1.0": ("skipped", "no MPI launcher on this node"),
        "mpi/1.0": ("passed", ""),
    }


@pytest.mark.parametrize("status", [1, 96, 97])
def test_failing_mpi_test_is_never_a_skip(sandbox: Sandbox, status: int) -> None:
    launcher = sandbox.root / "bin"
    launcher.mkdir()
    (launcher / "srun").write_text("#!/bin/sh\n")
    (launcher / "srun").chmod(0o755)
    tests = [{"name": "ranks", "run": f"exit {status}", "needs": ["mpi"]}]
    sandbox.recipe("mpi/1.0", HELLO, tests=tests, environment={"prepend": {"PATH": [str(launcher)]}})
    sandbox.ok("lock", "mpi/1.0")
    done = sandbox.run("build", "mpi/1.0")
    assert done.code == 3
    assert "error[smoke-test-failed]: 1 smoke test of mpi/1.0 failed" in done.stderr
    assert sandbox.current() is None


def test_test_that_writes_into_its_install_keeps_it_from_being_published(sandbox: Sandbox) -> None:
    """Root is held back by no mode bit; anybody else's write fails by itself."""
    sandbox.recipe("bad/1.0", HELLO, tests=[{"name": "write", "run": "touch $BAD_ROOT/bin/new"}])
    sandbox.ok("lock", "bad/1.0")
    done = sandbox.run("build", "bad/1.0")
    assert done.code == 3
    first = done.stderr[done.stderr.index("error[") :].splitlines()[:3]
    if os.geteuid() == 0:
        assert first[:2] == ["error[test-changed-install]: a smoke test of bad/1.0 wrote into its own install", "  bin"]
    else:
        assert first[0] == "error[smoke-test-failed]: 1 smoke test of bad/1.0 failed"
    assert sandbox.current() is None


def test_entry_is_tested_again_when_what_it_loads_changed(sandbox: Sandbox) -> None:
    sandbox.recipe("base/1.0", HELLO)
    sandbox.recipe("top/1.0", ["shared"], depends=["base/1.0"], tests=[{"name": "has", "run": 'test -z "$BROKEN"'}])
    sandbox.ok("lock", "--all")
    sandbox.ok("build", "top/1.0")
    sandbox.recipe("base/1.0", HELLO, environment={"set": {"BROKEN": "yes"}})
    done = sandbox.run("build", "base/1.0")
    assert done.code == 3
    assert "error[smoke-test-failed]: 1 smoke test of top/1.0 failed" in done.stderr
    assert sandbox.current() == 1


def test_changed_tests_alone_are_published_and_used(sandbox: Sandbox) -> None:
    sandbox.recipe("hello/1.0", HELLO, tests=[{"name": "old", "run": ":"}])
    sandbox.ok("lock", "hello/1.0")
    sandbox.ok("build", "hello/1.0")
    sandbox.recipe("hello/1.0", HELLO, tests=[{"name": "new", "run": ":"}])
    assert sandbox.ok("build", "hello/1.0", "--format", "json").data["generation"] == 2
    assert [t["test"] for t in sandbox.ok("test", "--format", "json").data["tests"]] == ["new"]


@pytest.mark.parametrize(("path", "mode"), [("bin/hello-prefix", 0o500), ("bin", 0o700), (".", 0o700)])
def test_verify_tells_what_users_can_no_longer_read(sandbox: Sandbox, path: str, mode: int) -> None:
    sandbox.recipe("hello/1.0", HELLO)
    sandbox.ok("lock", "hello/1.0")
    sandbox.ok("build", "hello/1.0")
    install = next(p for p in (sandbox.prefix / "store/hello").iterdir() if p.is_dir())
    (install / path).chmod(mode)
    done = sandbox.run("verify")
    assert done.code == 1
    found = Path(path)
    assert f"error[install]: hello/1.0: {found}: mode changed" in done.stdout


def test_remove_tells_dependents_already_in_the_dry_run(sandbox: Sandbox) -> None:
    sandbox.recipe("base/1.0", HELLO)
    sandbox.recipe("top/1.0", ["shared"], depends=["base/1.0"])
    sandbox.ok("lock", "--all")
    sandbox.ok("build", "top/1.0")
    done = sandbox.run("remove", "base/1.0", "--dry-run")
    assert (done.code, done.stdout) == (3, "")
    assert done.stderr.splitlines()[:2] == [
        "error[dependency-missing]: a published entry would lose what it depends on",
        "  top/1.0 depends on base/1.0",
    ]
