"""Smoke tests run before the publish lock is taken: who waits for whom, and what is tested again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, complete, error_of, finish, locked, no_processes, rerun, times_tested
from tests.helpers.waiting import wait_for


@pytest.fixture
def box(sandbox: Sandbox) -> Iterator[Sandbox]:
    """`kept` is generation 1, `other` came with 2; `tested`, whose test waits for the file `go`, is locked."""
    locked(sandbox, "kept/1.0", ["hello-activate"])
    locked(sandbox, "other/1.0", ["shared"])
    locked(sandbox, "tested/1.0", HELLO, tests=waits(sandbox))
    sandbox.ok("build", "kept/1.0")
    sandbox.ok("build", "other/1.0")
    return sandbox


def waits(box: Sandbox) -> list[dict[str, str]]:
    """A smoke test that counts how often it ran, and ends once there is a file `go`."""
    return [{"name": "waits", "run": f"cd {box.root}; echo x >>tested; while [ ! -e go ]; do sleep 0.02; done"}]


def in_its_test(box: Sandbox, *argv: str) -> subprocess.Popen[str]:
    """Start a command, and wait until its smoke test runs."""
    process = box.start(*argv)
    wait_for(lambda: times_tested(box) or process.poll() is not None, what="the smoke test")
    assert process.poll() is None
    return process


def entries(box: Sandbox) -> list[str]:
    return sorted(json.loads((box.prefix / "current/generation.json").read_text())["entries"])


def path_of(box: Sandbox, entry: str) -> str:
    return str(json.loads((box.prefix / "current/generation.json").read_text())["entries"][entry]["path"])


def reason(box: Sandbox, number: int) -> str:
    return str(json.loads((box.prefix / f"generations/{number:04d}/abandoned.json").read_text())["reason"])


def test_rollback_waits_for_no_smoke_test_and_is_not_undone_by_it(box: Sandbox) -> None:
    process = in_its_test(box, "build", "tested/1.0")
    back = box.ok("rollback", "1")  # while the test runs, and goes on to run
    assert "waiting" not in back.stderr
    complete(box, 1)
    (box.root / "go").touch()
    done = finish(process)
    assert done.code == 0, done.stderr
    assert "generation 1 became current meanwhile: the change is put on it\n" in done.stderr
    assert entries(box) == ["kept/1.0", "tested/1.0"]  # `other` stays rolled back
    complete(box, 4)
    assert times_tested(box) == 1
    assert reason(box, 3) == "another generation became current first"
    assert not list(box.prefix.glob("var/jobs/holds/*"))
    flips = box.ok("history", "--format", "json").data["flips"]
    assert [(f["from"], f["to"]) for f in flips] == [(None, 1), (1, 2), (2, 1), (1, 4)]


def test_rollback_there_and_back_leaves_no_number_below_a_complete_one(box: Sandbox) -> None:
    """`current` is what it was staged from again, but a higher number is complete."""
    process = in_its_test(box, "build", "tested/1.0")
    box.ok("publish", "--remove", "other/1.0")  # 4
    box.ok("rollback", "2")
    (box.root / "go").touch()
    assert finish(process).code == 0
    complete(box, 5)
    assert entries(box) == ["kept/1.0", "other/1.0", "tested/1.0"]
    assert times_tested(box) == 1


def test_what_a_module_loads_changed_meanwhile_and_it_is_tested_again(box: Sandbox) -> None:
    """What the other one published stays: of what a module loads nothing was to change."""
    locked(box, "tested/1.0", HELLO, tests=waits(box), depends=["kept/1.0"])
    process = in_its_test(box, "build", "tested/1.0")
    locked(box, "kept/1.0", ["hello-activate", "shared"])
    box.ok("build", "kept/1.0")
    kept = path_of(box, "kept/1.0")
    (box.root / "go").touch()
    assert finish(process).code == 0
    assert times_tested(box) == 2
    complete(box, 5)
    assert path_of(box, "kept/1.0") == kept


def test_what_a_module_loads_was_removed_meanwhile_and_comes_with_it(box: Sandbox) -> None:
    locked(box, "tested/1.0", HELLO, tests=waits(box), depends=["other/1.0"])
    process = in_its_test(box, "build", "tested/1.0")
    box.ok("rollback", "1")
    (box.root / "go").touch()
    assert finish(process).code == 0
    assert times_tested(box) == 1
    assert entries(box) == ["kept/1.0", "other/1.0", "tested/1.0"]
    complete(box, 4)


def test_the_same_change_came_first(box: Sandbox) -> None:
    process = in_its_test(box, "build", "tested/1.0")
    (box.root / "go").touch()
    box.ok("build", "tested/1.0")
    assert finish(process).code == 0
    assert box.current() in (3, 4)
    complete(box, box.current())
    assert [f["to"] for f in box.ok("history", "--format", "json").data["flips"]] == [1, 2, box.current()]


def test_gc_leaves_a_generation_that_is_staged_and_its_installs_alone(box: Sandbox) -> None:
    box.policies |= {"keep_days": 0, "keep_generations": 1}
    box.write_site()
    box.ok("build", "--no-publish", "tested/1.0")
    process = in_its_test(box, "publish", "tested/1.0")
    gone = box.ok("gc", "--format", "json").data
    assert gone["installs"] == []
    assert (box.prefix / "generations/0003/modules/tested/1.0.lua").is_file()
    (box.root / "go").touch()
    assert finish(process).code == 0
    complete(box, 3)
    assert not list(box.prefix.glob("var/jobs/holds/*"))


def test_smoke_test_that_writes_into_the_generation_is_told(box: Sandbox) -> None:
    write = 'echo "-- more" >>"${MODULEPATH%%:*}/kept/1.0.lua"; touch "${MODULEPATH%%:*}/new"'
    locked(box, "writer/1.0", HELLO, tests=[{"name": "writes", "run": write}])
    done = box.run("build", "writer/1.0")
    assert done.code == 3
    assert error_of(done, box) == (
        "error[staged-changed]: files of generation 3 changed after they were written\n"
        "  modules/kept/1.0.lua\n"
        "  modules/new\n"
        "  log: LOG\n"
        "\n"
        "hint: a smoke test wrote there, or somebody else did: fix the test, then run the same command again"
    )
    complete(box, 2)
    locked(box, "writer/1.0", HELLO)  # as the hint says
    assert rerun(box, "writer/1.0") == 4


def test_killed_with_its_test_it_leaves_nothing(box: Sandbox) -> None:
    process = in_its_test(box, "build", "tested/1.0")
    assert [p.name for p in box.prefix.glob("var/jobs/holds/generation-*")] == ["generation-0003.json"]
    process.kill()
    process.wait()
    no_processes(box)
    box.ok("rollback", "1")
    assert reason(box, 3) == "its publish was killed"
    assert not list(box.prefix.glob("var/jobs/holds/*"))
    assert Path(box.prefix / "generations/0003").is_dir()
