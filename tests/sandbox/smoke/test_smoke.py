"""Smoke tests: what they may do, when they are skipped, and which entries have to pass them again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from envmgr.modules.spec import ModuleSpec
from envmgr.smoke import here
from tests.helpers.sandbox import Sandbox

HELLO = ["hello-prefix"]


def test_test_is_skipped_without_what_it_needs_and_runs_with_it(sandbox: Sandbox) -> None:
    tests = [{"name": "ranks", "run": "echo ran", "needs": ["mpi"]}]
    compiled = {"name": "compiled", "run": "echo ran", "needs": ["compiler"]}
    sandbox.recipe("plain/1.0", HELLO, tests=[*tests, compiled])
    launcher = sandbox.root / "bin"
    launcher.mkdir()
    (launcher / "mpiexec").write_text("#!/bin/sh\n")
    (launcher / "mpiexec").chmod(0o755)
    sandbox.recipe("mpi/1.0", HELLO, tests=tests, environment={"prepend": {"PATH": [str(launcher)]}})
    sandbox.ok("lock", "--all")
    # Slurm's srun is a launcher, too: here there is none.
    hide = 'for name in srun mpiexec mpirun g++; do file=$(command -v $name) && mount --bind /dev/null "$file"; done; exec "$@"'
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    argv = sandbox.command("build", "plain/1.0", "mpi/1.0", "--format", "json")
    built = subprocess.run(
        ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", hide, "sh", *argv],
        cwd=sandbox.root,
        env=sandbox.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    done = json.loads(built.stdout)["tests"]
    assert {(t["entry"], t["test"]): (t["status"], t["detail"]) for t in done} == {
        ("plain/1.0", "ranks"): ("skipped", "no MPI launcher on this node"),
        ("plain/1.0", "compiled"): ("skipped", "no C++ compiler (g++) on this node"),
        ("mpi/1.0", "ranks"): ("passed", ""),
    }


@pytest.mark.parametrize("status", [1, 96, 97])
def test_failing_mpi_test_is_never_a_skip(sandbox: Sandbox, status: int) -> None:
    launcher = sandbox.root / "bin"
    launcher.mkdir()
    (launcher / "srun").write_text("#!/bin/sh\n")
    (launcher / "srun").chmod(0o755)
    tests = [{"name": "ranks", "run": f"exit {status}", "needs": ["mpi"]}]
    sandbox.recipe(
        "mpi/1.0",
        HELLO,
        tests=tests,
        environment={"prepend": {"PATH": [str(launcher)]}},
        accept={"hidden-commands": "srun: stand-ins"},
    )
    sandbox.ok("lock", "mpi/1.0")
    done = sandbox.run("build", "mpi/1.0")
    assert done.code == 3
    assert "error[smoke-test-failed]: 1 smoke test of mpi/1.0 failed" in done.stderr
    assert sandbox.current() is None


@pytest.mark.parametrize(
    ("answers", "job", "status"), [(True, "", "passed"), (False, "", "skipped"), (False, "7", "passed")]
)
def test_test_that_needs_slurm_runs_in_a_job_or_where_slurm_answers(
    sandbox: Sandbox, answers: bool, job: str, status: str
) -> None:
    commands = sandbox.root / "bin"
    commands.mkdir()
    for name, text in {"srun": 'exec "$@"', "sinfo": f"exit {int(not answers)}"}.items():
        (commands / name).write_text(f"#!/bin/sh\n{text}\n")
        (commands / name).chmod(0o755)
    # A minute that has begun counts, and a test that needs no Slurm sees nothing of the job.
    says = "echo $SLURM_OVERLAP $SLURM_OVERCOMMIT $SLURM_TIMELIMIT $SLURM_WORKING_DIR ${TMPDIR-none} $SLURM_JOB_ID"
    ranks = f'test "$(srun sh -c "{says.replace("$", chr(92) + "$")}")" = "1 1 2 / none{" 7" if job else ""}"'
    tests = [
        {"name": "ranks", "run": ranks, "needs": ["slurm"], "timeout": 61},
        {"name": "none", "run": 'test -z "$(env | grep SLURM_)"'},
    ]
    sandbox.recipe(
        "app/1.0",
        HELLO,
        tests=tests,
        environment={"prepend": {"PATH": [str(commands)]}},
        accept={"hidden-commands": "sinfo, srun: stand-ins"},
    )
    sandbox.ok("lock", "--all")
    done = sandbox.ok("build", "app/1.0", "--format", "json", **({"SLURM_JOB_ID": job} if job else {})).data["tests"]
    detail = "no Slurm on this node" if status == "skipped" else ""
    assert [(t["test"], t["status"], t["detail"]) for t in done] == [("ranks", status, detail), ("none", "passed", "")]


@pytest.mark.parametrize(("job", "asked"), [("", "hpc small long none"), ("7", "none none none none")])
def test_test_that_needs_slurm_asks_for_what_the_site_says(sandbox: Sandbox, job: str, asked: str) -> None:
    """Before it is published and after. A step of a job runs where that job does."""
    commands = sandbox.root / "bin"
    commands.mkdir()
    for name, text in {"srun": 'exec "$@"', "sinfo": "exit 0"}.items():
        (commands / name).write_text(f"#!/bin/sh\n{text}\n")
        (commands / name).chmod(0o755)
    options = ["--account=physics", "--account=hpc", "--partition=small", "--qos=long", "--exclude=c3"]
    sandbox.settings["transport"] = {"slurm_options": options}
    sandbox.write_site()
    says = " ".join(f"${{SLURM_{name}-none}}" for name in ("ACCOUNT", "PARTITION", "QOS", "EXCLUDE"))
    tests = [{"name": "ranks", "run": f"said=$(srun echo {says}); test \"$said\" = '{asked}'", "needs": ["slurm"]}]
    sandbox.recipe(
        "app/1.0",
        HELLO,
        tests=tests,
        environment={"prepend": {"PATH": [str(commands)]}},
        accept={"hidden-commands": "sinfo, srun: stand-ins"},
    )
    sandbox.ok("lock", "--all")
    environ = {"SLURM_JOB_ID": job} if job else {}
    for argv in (["build", "app/1.0"], ["test", "app/1.0"]):
        done = sandbox.ok(*argv, "--format", "json", **environ).data["tests"]
        assert [(t["status"], t["detail"]) for t in done] == [("passed", "")]


def test_srun_of_the_callers_path_is_found_and_a_failing_test_is_no_skip(sandbox: Sandbox) -> None:
    """Slurm often lies in a folder of its own."""
    commands = sandbox.root / "slurm/bin"
    commands.mkdir(parents=True)
    for name in ("srun", "sinfo"):
        (commands / name).write_text("#!/bin/sh\n")
        (commands / name).chmod(0o755)
    sandbox.recipe("app/1.0", HELLO, tests=[{"name": "ranks", "run": "type -P srun; false", "needs": ["slurm", "mpi"]}])
    sandbox.ok("lock", "--all")
    hide = 'for name in srun sinfo; do file=$(PATH=/usr/bin:/bin:/usr/local/bin command -v $name) && mount --bind /dev/null "$file"; done; exec "$@"'
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = subprocess.run(
        [
            "unshare",
            *user,
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            hide,
            "sh",
            *sandbox.command("build", "app/1.0"),
        ],
        cwd=sandbox.root,
        env=sandbox.environ(PATH=f"{commands}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert f"    {commands}/srun\n    exit status 1\n" in done.stderr


def test_test_that_writes_into_its_install_keeps_it_from_being_published(sandbox: Sandbox) -> None:
    """Root is held back by no mode bit; another user's write fails by itself."""
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


def test_remove_tells_dependents_already_in_the_dry_run(sandbox: Sandbox) -> None:
    sandbox.recipe("base/1.0", HELLO)
    sandbox.recipe("top/1.0", ["shared"], depends=["base/1.0"])
    sandbox.ok("lock", "--all")
    sandbox.ok("build", "top/1.0")
    done = sandbox.run("publish", "--remove", "base/1.0", "--dry-run")
    assert (done.code, done.stdout) == (3, "")
    assert done.stderr.splitlines()[:2] == [
        "error[dependency-missing]: a published entry would lose what it depends on",
        "  top/1.0 depends on base/1.0",
    ]


def test_test_of_several_nodes_is_not_run_here_and_holds_no_publish_back(sandbox: Sandbox) -> None:
    tests = [{"name": "both", "run": "false", "needs": ["slurm"], "nodes": 2}, {"name": "one", "run": "true"}]
    sandbox.recipe("span/1.0", HELLO, tests=tests)
    sandbox.ok("lock", "span/1.0")
    why = "it needs 2 nodes: `envmgr test span/1.0 --via slurm -N 2`"
    for argv in (["build", "span/1.0"], ["test", "span/1.0"]):
        done = sandbox.ok(*argv, "--format", "json").data["tests"]
        assert [(t["test"], t["status"], t["detail"]) for t in done] == [
            ("both", "not-run", why),
            ("one", "passed", ""),
        ]
    assert f"test span/1.0 `both`: not run ({why})" in sandbox.ok("test", "span/1.0").stdout.splitlines()
    assert sandbox.current() == 1


def test_changed_file_of_a_test_is_published_and_used(sandbox: Sandbox) -> None:
    tests = [{"name": "file", "run": "bash ./program.sh", "files": ["program.sh"]}]
    sandbox.recipe("app/1.0", HELLO, tests=tests)
    program = sandbox.root / "recipes/app/program.sh"
    program.write_text("exit 0")
    sandbox.ok("lock", "app/1.0")
    sandbox.ok("build", "app/1.0")
    program.write_text("exit 7")
    done = sandbox.run("build", "app/1.0")
    assert (done.code, "    exit status 7\n" in done.stderr) == (3, True)
    program.write_text("exit 0 # changed")
    sandbox.ok("build", "app/1.0")
    assert sandbox.current() == 3  # the failed build has taken 2
    program.unlink()
    assert [t["status"] for t in sandbox.ok("test", "--format", "json").data["tests"]] == ["passed"]


LOST = {
    "no interpreter": ("#!/nowhere/python\n", "its interpreter /nowhere/python is not there"),
    "no format": ("\x7fELF", "cannot be started: it ended with 12"),
    "a crash": ("#!/bin/sh\nkill -ILL $$\n", "cannot be started: it ended with 132"),
}


@pytest.mark.parametrize("fault", LOST)
def test_entry_without_tests_is_not_published_where_its_program_does_not_start(tmp_path: Path, fault: str) -> None:
    root, (text, said) = tmp_path / "store/a/1-00aa11bb", LOST[fault]
    program = root / "bin/a"
    program.parent.mkdir(parents=True)
    (root / "bin/other").write_text("#!/usr/bin/env nothing-of-this-system\n")
    (root / "bin/other").chmod(0o755)
    spec = ModuleSpec(name="a", version="1", root=str(root), digest="0" * 64, description="a")
    (test,) = here.tests_of(spec)
    for content, failed in ((text, said), ("#!/bin/sh\nexit 3\n", None)):
        program.write_text(content)
        program.chmod(0o755)
        done = subprocess.run(
            ["bash", "-c", test.run],
            env={"PATH": f"{root}/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, failed is None or failed in done.stderr) == (1 if failed else 0, True), done.stderr
