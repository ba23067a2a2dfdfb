"""Bad days: kill -9 at each step, Ctrl-C, a full or lost disk, and two of everything at once."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import (
    STOPPED,
    complete,
    error_of,
    finish,
    kill,
    locked,
    no_processes,
    parts,
    plain,
    processes,
    rerun,
    wait_at,
)
from tests.helpers.small_disk import Small
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.server import Fault, Server, serve
from tests.helpers.waiting import HANGS, wait_for

TRIES = 50
"""For a step that lasts milliseconds: a slow machine does not see it every time."""


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    """`kept` is published as generation 1; `hello` and `tested`, whose smoke test hangs, are locked."""
    locked(sandbox, "kept/1.0", ["hello-activate"])
    locked(sandbox, "hello/1.0", ["hello-prefix"])
    locked(sandbox, "tested/1.0", ["hello-prefix"], tests=hangs(sandbox))
    sandbox.ok("build", "kept/1.0")
    return sandbox


@pytest.fixture
def server(box: Sandbox, channel: Channel) -> Iterator[Server]:
    with serve(channel.folder) as running:
        box.mirror = running.url
        box.write_site()
        yield running


def hangs(box: Sandbox) -> list[dict[str, str]]:
    """A smoke test that writes a sign and does not end: what has it is never published."""
    return [{"name": "slow", "run": f"cd {box.root}; touch testing; sleep {HANGS}"}]


def being_tested(box: Sandbox) -> bool:
    return (box.root / "testing").exists()


def quick(box: Sandbox) -> None:
    """Mend the recipe whose smoke test hangs."""
    box.recipe("tested/1.0", ["hello-prefix"], tests=[{"name": "quick", "run": "hello-prefix"}])


# kill -9


def staging(box: Sandbox) -> bool:
    return any(box.prefix.glob("store/*/.staging-*"))


def without_manifest(box: Sandbox, name: str) -> bool:
    found = [p for p in box.prefix.glob(f"store/{name}/*") if p.is_dir() and not p.name.startswith(".")]
    return any(not p.with_name(f"{p.name}.manifest.json").exists() for p in found)


def generation(box: Sandbox, *present: str, absent: str = "generation.json") -> bool:
    folder = box.prefix / "generations/0002"
    return folder.is_dir() and all((folder / p).exists() for p in present) and not (folder / absent).exists()


def begin_again(box: Sandbox) -> None:
    remove_tree(box.prefix)
    (box.root / "testing").unlink(missing_ok=True)
    box.ok("build", "kept/1.0")


def kill_at(box: Sandbox, step: str, sign: Callable[[], object], *argv: str) -> None:
    """Kill the build at this step. Its smoke test hangs: one that was past the step before we looked is begun again."""
    for _ in range(TRIES):
        process = box.start(*argv)
        wait_for(lambda: sign() or being_tested(box), what=step)
        kill(process)
        no_processes(box)
        if sign():
            return
        begin_again(box)
    raise AssertionError(f"never seen: {step}")


@pytest.mark.parametrize(
    ("step", "sign"),
    [
        ("the install's lock", lambda b: any(b.prefix.glob("var/lock/store-tested-*"))),
        ("linking", staging),
        ("no manifest yet", lambda b: without_manifest(b, "tested")),
        ("manifest written", lambda b: any(b.prefix.glob("store/tested/*.manifest.json"))),
        ("generation taken", lambda b: (b.prefix / "generations/0002").is_dir()),
        ("modules written", lambda b: generation(b, "modules/tested/1.0.lua")),
        ("spider cache", lambda b: generation(b, "spider")),
        ("smoke test", being_tested),
    ],
)
def test_kill_at_each_step_then_a_rerun(box: Sandbox, step: str, sign: Callable[[Sandbox], bool]) -> None:
    kill_at(box, step, lambda: sign(box), "build", "tested/1.0")
    complete(box, 1)
    quick(box)
    rerun(box, "tested/1.0")


def test_kill_in_a_download_then_a_rerun(box: Sandbox, server: Server) -> None:
    server.faults["noarch/hello-prefix*"] = Fault("stall")
    process = box.start("build", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    wait_for(lambda: parts(box), what="the part file")
    kill(process)
    no_processes(box)
    complete(box, 1)
    server.faults.clear()
    server.release()
    assert rerun(box, "hello/1.0") == 2


def test_kill_while_python_is_compiled_and_hashed_then_a_rerun(box: Sandbox) -> None:
    """The long steps of a large install, each with processes of its own; every kill is followed by the next build."""
    locked(box, "py/1.0", ["python"], tests=hangs(box))
    signs: dict[str, Callable[[], object]] = {
        "linking": lambda: staging(box),
        "python linked": lambda: any(box.prefix.glob("store/py/.staging-*/bin/python")),
        "compiling": lambda: any(box.prefix.glob("store/py/.staging-*/lib/python3*/__pycache__/*")),
        "hashing": lambda: without_manifest(box, "py"),
    }
    for step, sign in signs.items():
        kill_at(box, step, sign, "build", "py/1.0", "-j", "2")
        assert box.current() == 1
        # Another entry's build takes the leftovers away; the last kill's are left to the same entry's.
        if step == "compiling":
            box.ok("build", "hello/1.0", "--no-publish")
            assert box.leftovers() == []
    box.recipe("py/1.0", ["python"], tests=[{"name": "runs", "run": "python -c 'import ssl'"}])
    assert rerun(box, "py/1.0") == 2


def test_worker_that_is_killed_alone_is_told(box: Sandbox, server: Server) -> None:
    """As the kernel does when memory runs out."""
    server.faults["noarch/hello-prefix*"] = Fault("stall", times=1)
    process = box.start("build", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    worker = next(int(p.partition(":")[0]) for p in processes(box) if "envmgr.backends.conda.install_worker" in p)
    os.kill(worker, signal.SIGKILL)
    done = finish(process)
    assert done.code == 3
    assert error_of(done, box) == (
        "error[worker-died]: the rattler worker was ended by SIGKILL (out of memory?) before it was done\n"
        "  hello/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: run the same command again: what was downloaded is kept"
    )
    assert box.leftovers() == []
    complete(box, 1)
    assert rerun(box, "hello/1.0") == 2


def test_kill_in_a_garbage_collection_then_another(box: Sandbox) -> None:
    box.policies["keep_days"] = 0
    box.write_site()
    locked(box, "py/1.0", ["python"])
    box.ok("build", "--no-publish", "py/1.0")
    process = box.start("gc")
    wait_for(lambda: not any(box.prefix.glob("store/py/*.manifest.json")), what="the end of the manifest")
    kill(process)
    complete(box, 1)
    box.ok("gc")
    assert box.leftovers() == []
    assert not list(box.prefix.glob("store/py/*"))
    assert rerun(box, "hello/1.0") == 2


def test_kill_around_the_flip_leaves_one_of_two_complete_generations(box: Sandbox) -> None:
    process = box.start("build", "hello/1.0")
    wait_for((box.prefix / "generations/0002/generation.json").exists, what="the record")
    kill(process)
    number = box.current()
    assert number in (1, 2)
    complete(box, number)
    again = box.ok("build", "hello/1.0", "--format", "json").data
    assert again["generation"] == (3 if number == 1 else None)  # numbers are not used again
    complete(box, 3 if number == 1 else 2)


def test_kill_after_the_flip_needs_nothing_more(box: Sandbox) -> None:
    process = box.start("build", "hello/1.0")
    wait_for(lambda: box.current() == 2, what="the flip")
    kill(process)
    complete(box, 2)
    assert box.ok("build", "hello/1.0").stdout == "nothing to do: hello/1.0 is published in generation 2\n"
    assert [g["number"] for g in box.ok("history", "--format", "json").data["generations"]] == [1, 2]


def test_what_a_kill_in_a_rename_leaves_goes_too(box: Sandbox) -> None:
    """Too short to be hit from outside: put there what such a kill leaves."""
    store = box.prefix / "store/hello"
    store.mkdir()
    (store / ".1.0-01234567.manifest.json.77.88.tmp").write_text("{")
    (box.prefix / ".current.77.tmp").symlink_to("generations/0001")
    (box.prefix / "generations/0002/modules").mkdir(parents=True)
    (box.prefix / "generations/0002/.generation.json.77.88.tmp").write_text("{")
    assert rerun(box, "hello/1.0") == 3


def test_leftovers_that_cannot_be_removed_do_not_stop_other_builds(box: Sandbox) -> None:
    stuck = box.prefix / "store/stuck/.staging-1.0-01234567"
    (stuck / "at").mkdir(parents=True)
    inside = Small.enter(box.root, f"mount -t tmpfs tmpfs {stuck}/at")  # a mount point cannot be removed
    try:
        done = subprocess.run(
            [*inside.words(), *box.command("build", "hello/1.0")],
            env=box.environ(),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        inside.leave()
    assert done.returncode == 0, done.stderr
    assert f"warning: cannot remove {stuck}, left by a build that was killed: Device or resource busy\n" in done.stderr
    assert box.current() == 2
    rerun_all(box)


def rerun_all(box: Sandbox) -> None:
    locked(box, "last/1.0", ["shared"])
    rerun(box, "last/1.0")


def test_live_builds_are_no_leftovers(box: Sandbox) -> None:
    folder = box.prefix / "store/alive/.staging-1.0-01234567"
    folder.mkdir(parents=True)
    with (box.prefix / "var/lock/store-alive-1.0-01234567.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        box.ok("build", "hello/1.0")
        box.ok("gc")
        assert folder.is_dir()
    box.ok("gc")
    assert not folder.exists()


# Ctrl-C and SIGTERM


def stop(box: Sandbox, process: subprocess.Popen[str], number: int = signal.SIGINT) -> None:
    """Signal envmgr (twice, as impatient people do); it must end soon, clean up itself and say so."""
    process.send_signal(number)
    time.sleep(0.02)
    process.send_signal(number)
    done = finish(process)
    assert (done.code, done.stdout) == (130, "")
    told, log = (
        done.stderr.rstrip("\n").split("\n")[-2:] if "  log: " in done.stderr else (done.stderr.rstrip("\n"), "")
    )
    assert STOPPED in told, done.stderr
    assert not log or Path(log.removeprefix("  log: ")).is_file()
    assert processes(box) == []
    assert box.leftovers() == []
    assert parts(box) == []
    assert box.current() == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_in_a_download(box: Sandbox, server: Server, number: int) -> None:
    server.faults["noarch/hello-prefix*"] = Fault("stall")
    process = box.start("build", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    stop(box, process, number)
    server.faults.clear()
    server.release()
    assert rerun(box, "hello/1.0") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_in_a_smoke_test(box: Sandbox, number: int) -> None:
    process = box.start("build", "tested/1.0")
    wait_for((box.root / "testing").exists, what="the smoke test")
    stop(box, process, number)
    assert json.loads((box.prefix / "generations/0002/abandoned.json").read_text())["reason"] == "KeyboardInterrupt"
    quick(box)
    assert rerun(box, "tested/1.0") == 3


def test_interrupt_while_compiling(box: Sandbox) -> None:
    locked(box, "py/1.0", ["python"], tests=hangs(box))
    compiled = "store/py/.staging-*/lib/python3*/__pycache__/*"
    for _ in range(TRIES):
        process = box.start("build", "py/1.0", "hello/1.0", "-j", "2")
        wait_for(lambda: any(box.prefix.glob(compiled)) or being_tested(box), what="compilation")
        stop(box, process)
        if not being_tested(box):
            return
        begin_again(box)  # it was past that before we looked
    raise AssertionError("never seen: compilation")


def test_interrupt_while_waiting_for_an_install(box: Sandbox, server: Server) -> None:
    server.faults["noarch/hello-prefix*"] = Fault("stall")
    first = box.start("build", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    second = box.start("build", "hello/1.0")
    wait_at(second, "store-hello-")
    second.send_signal(signal.SIGINT)
    done = finish(second)
    assert done.code == 130
    assert re.match(r"hello/1\.0: waiting for process \d+ on .*, which builds it\n", done.stderr)
    server.release()
    assert finish(first).code == 0  # undisturbed
    complete(box, 2)


def test_interrupt_while_waiting_to_publish(box: Sandbox) -> None:
    with (box.prefix / "var/lock/publish.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = box.start("build", "hello/1.0")
        wait_at(process, "publish")
        process.send_signal(signal.SIGINT)
        done = finish(process)
    assert done.code == 130
    assert "which publishes\n" in done.stderr
    assert box.leftovers() == []
    assert box.current() == 1
    assert not list(box.prefix.glob("var/jobs/holds/*"))
    assert box.ok("build", "hello/1.0", "--format", "json").data["built"] == []  # its install was finished and kept


# Two at once


def test_two_builds_of_one_entry(box: Sandbox, server: Server) -> None:
    server.faults["noarch/hello-prefix*"] = Fault("stall")
    first = box.start("build", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    second = box.start("build", "hello/1.0", "-j", "1")
    wait_at(second, "store-hello-")
    server.release()
    one, two = finish(first), finish(second)
    assert (one.code, two.code) == (0, 0), one.stderr + two.stderr
    assert "hello/1.0: built  store/hello/1.0-DIGEST" in plain(one.stdout, box)
    assert "hello/1.0: reused  store/hello/1.0-DIGEST" in plain(two.stdout, box)
    assert plain(two.stderr, box).startswith("hello/1.0: waiting for process N on HOST since TIME, which builds it\n")
    assert [r.path for r in server.requests] == ["noarch/hello-prefix-1.0-0.conda"]
    assert flipped_in_turn(box) == 2  # what both staged, one published
    assert box.leftovers() == []


def test_second_builder_takes_over_from_one_that_is_killed(box: Sandbox, server: Server) -> None:
    server.faults["noarch/hello-prefix*"] = Fault("stall", times=1)
    first = box.start("build", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    second = box.start("build", "hello/1.0")
    wait_at(second, "store-hello-")
    kill(first)
    done = finish(second)
    assert done.code == 0, done.stderr
    assert "hello/1.0: built " in done.stdout
    complete(box, 2)
    assert parts(box) == []


def test_two_publishes_at_once_are_both_published(box: Sandbox) -> None:
    hold = f"touch {box.root}/testing; while [ ! -e {box.root}/go ]; do sleep 0.02; done; echo x >>{box.root}/tested"
    for entry, tests in (("one/1.0", [{"name": "holds", "run": hold}]), ("two/1.0", [])):
        locked(box, entry, ["shared"], tests=tests)
        box.ok("build", "--no-publish", entry)
    first = box.start("publish", "one/1.0")
    wait_for((box.root / "testing").exists, what="the smoke test")
    box.ok("publish", "two/1.0")  # it waits for no test of others
    complete(box, 3)
    (box.root / "go").touch()
    done = finish(first)
    assert done.code == 0, done.stderr
    assert "generation 3 became current meanwhile: the change is put on it\n" in done.stderr
    assert (box.root / "tested").read_text() == "x\n"  # what it had tested did not change
    assert sorted(entries(box)) == ["kept/1.0", "one/1.0", "two/1.0"]
    complete(box, 4)
    flips = box.ok("history", "--format", "json").data["flips"]
    assert [(f["from"], f["to"]) for f in flips] == [(None, 1), (1, 3), (3, 4)]


def flipped_in_turn(box: Sandbox) -> int:
    """Each flip was from the one before it, to a higher number, and to what is complete now. Returns how many there were."""
    flips = box.ok("history", "--format", "json").data["flips"]
    numbers = [f["to"] for f in flips]
    assert [f["from"] for f in flips] == [None, *numbers[:-1]]
    assert numbers == sorted(set(numbers))
    complete(box, numbers[-1])
    return len(numbers)


def entries(box: Sandbox) -> dict[str, object]:
    found: dict[str, object] = json.loads((box.prefix / "current/generation.json").read_text())["entries"]
    return found


def test_builds_of_many_entries_at_once_end_in_one_generation_with_all(box: Sandbox) -> None:
    names = [f"many{n}/1.0" for n in range(4)]
    for name in names:
        locked(box, name, ["shared"])
    running = [box.start("build", n) for n in names]
    done = [finish(p) for p in running]
    assert [d.code for d in done] == [0] * 4, [d.stderr for d in done]
    assert sorted(entries(box)) == ["kept/1.0", *names]
    assert flipped_in_turn(box) == 5
    assert box.leftovers() == []


def test_publish_and_remove_at_once(box: Sandbox) -> None:
    first = box.start("build", "tested/1.0")
    wait_for((box.root / "testing").exists, what="the smoke test")
    box.ok("publish", "--remove", "kept/1.0")
    assert entries(box) == {}
    assert box.current() == 3
    kill(first)
    quick(box)
    rerun(box, "tested/1.0")
    assert list(entries(box)) == ["tested/1.0"]


def test_install_that_gc_takes_before_its_publish_is_told(box: Sandbox) -> None:
    """Between plan and publish lies a wait for the lock that gc holds."""
    box.policies |= {"keep_days": 0}
    box.write_site()
    box.ok("build", "hello/1.0", "--no-publish")
    with (box.prefix / "var/lock/publish.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        publish = box.start("publish", "hello/1.0")
        wait_at(publish, "publish")
        for path in box.prefix.glob("store/hello/*"):  # as gc does it
            path.unlink() if path.is_file() else subprocess.run(["rm", "-rf", path], check=True)
    done = finish(publish)
    assert done.code == 3
    assert error_of(done, box) == (
        "error[install-missing]: an install of hello/1.0 is gone\n"
        "  ROOT/prefix/store/hello/1.0-DIGEST\n"
        "  log: LOG\n"
        "\n"
        "hint: run `envmgr build hello/1.0` again"
    )
    complete(box, 1)
    rerun(box, "hello/1.0")


# What a bad day may have left: a history that was cut, a `current` that is damaged


def test_history_with_a_cut_last_line(box: Sandbox) -> None:
    history = box.prefix / "var/history.jsonl"
    history.write_text(history.read_text() + '{"time": "2026-11-20T13:10:25Z", "user": "ro')
    box.ok("build", "hello/1.0")
    flips = box.ok("history", "--format", "json").data["flips"]
    assert [(f["from"], f["to"]) for f in flips] == [(None, 1), (1, 2)]


def test_history_that_cannot_be_written_does_not_fail_a_publish(box: Sandbox) -> None:
    history = box.prefix / "var/history.jsonl"
    history.unlink()
    history.symlink_to(box.root / "nowhere/history.jsonl")
    done = box.ok("build", "hello/1.0")
    assert plain(done.stderr, box).endswith(
        "warning: generation 2 is current, but ROOT/prefix/var/history.jsonl could not be written: "
        "it is a link, and no regular file\n"
    )
    complete(box, 2)


@pytest.mark.parametrize("damage", ["a file", "a folder", "elsewhere", "a generation that is gone"])
def test_damaged_current_is_told_and_a_rollback_mends_it(box: Sandbox, damage: str) -> None:
    box.ok("build", "hello/1.0")
    current = box.prefix / "current"
    current.unlink()
    match damage:
        case "a file":
            current.write_text("")
        case "a folder":
            current.mkdir()
        case "elsewhere":
            current.symlink_to("/etc")
        case _:
            current.symlink_to("generations/0009")
    target = "/etc" if damage == "elsewhere" else "generations/0009"
    expected = {"a file": "is not a link\n  it is a file", "a folder": "is not a link\n  it is a folder"}.get(
        damage, f"names no complete generation\n  it points to {target}"
    )
    for argv in (["build", "tested/1.0"], ["list"], ["gc"], ["publish", "--remove", "kept/1.0"], ["rollback"]):
        done = box.run(*argv)
        assert done.code == 3, done.stderr
        text = plain(done.stderr[done.stderr.index("error[") :], box)
        assert text.startswith(f"error[current-damaged]: ROOT/prefix/current {expected}\n"), text
    assert [g["number"] for g in box.ok("history", "--format", "json").data["generations"]] == [1, 2]
    if damage in ("a file", "a folder"):
        current.rename(box.prefix / "current.damaged")
    done = box.ok("rollback", "2", "--format", "json")
    assert done.data["after"] == 2
    complete(box, 2)
