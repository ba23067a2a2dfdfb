"""Bad days: kill -9 at each step, Ctrl-C, a full or lost disk, and two of everything at once."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envmgr.conda.client import call_worker
from envmgr.errors import EnvmgrError
from envmgr.report import SilentReporter
from envmgr.run import Completed, Runner
from tests.conftest import Sandbox
from tests.done import Done
from tests.scenes import complete, error_of, finish, kill, locked, no_processes, parts, plain, processes, wait_for
from tests.standin.channel import Channel
from tests.standin.server import Fault, Server, serve

INTERRUPTED = (
    "error[interrupted]: stopped by a signal; `current` names a complete generation, and the next run cleans up"
)
FREE = (
    "hint: free some space (`envmgr gc` removes old generations and unused installs), then run the same command again"
)


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    """`kept` is published as generation 1; `hello` and the slow-testing `tested` are locked."""
    locked(sandbox, "kept/1.0", ["hello-activate"])
    locked(sandbox, "hello/1.0", ["hello-prefix"])
    slow = f"cd {sandbox.root}; touch testing; sleep 60"
    locked(sandbox, "tested/1.0", ["hello-prefix"], tests=[{"name": "slow", "run": slow}])
    sandbox.ok("build", "kept/1.0")
    return sandbox


@pytest.fixture
def server(box: Sandbox, channel: Channel) -> Iterator[Server]:
    with serve(channel.folder) as running:
        box.mirror = running.url
        box.write_site()
        yield running


def quick(box: Sandbox) -> None:
    """Mend the recipe whose smoke test hangs."""
    box.recipe("tested/1.0", ["hello-prefix"], tests=[{"name": "quick", "run": "hello-prefix"}])


def rerun(box: Sandbox, entry: str) -> int:
    """The same command again succeeds, and nothing of the run before is left. Returns the new generation."""
    done = box.ok("build", entry, "--format", "json").data
    number = box.current()
    assert number is not None
    assert done["generation"] == number
    complete(box, number)
    assert box.leftovers() == []
    assert parts(box) == []
    for folder in (box.prefix / "generations").iterdir():
        names = {p.name for p in folder.iterdir()}
        assert names == {"abandoned.json"} or "generation.json" in names, f"{folder.name}: {names}"
    assert not list(box.prefix.glob(".current.*"))
    no_processes(box)
    return number


def wait_at(process: subprocess.Popen[str], lock: str) -> None:
    """Until the process has this lock file open, which somebody else holds."""

    def at_lock() -> bool:
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                if re.search(rf"/var/lock/{lock}", str(link.readlink())):
                    return True
            except FileNotFoundError:
                continue
        return False

    wait_for(at_lock, what=f"the wait for {lock}")
    time.sleep(0.05)  # between opening a lock and trying it lie microseconds


# kill -9


def staging(box: Sandbox) -> bool:
    return any(box.prefix.glob("store/*/.staging-*"))


def without_manifest(box: Sandbox, name: str) -> bool:
    found = [p for p in box.prefix.glob(f"store/{name}/*") if p.is_dir() and not p.name.startswith(".")]
    return any(not p.with_name(f"{p.name}.manifest.json").exists() for p in found)


def generation(box: Sandbox, *present: str, absent: str = "generation.json") -> bool:
    folder = box.prefix / "generations/0002"
    return folder.is_dir() and all((folder / p).exists() for p in present) and not (folder / absent).exists()


@pytest.mark.parametrize(
    ("step", "entry", "sign"),
    [
        ("the install's lock", "hello/1.0", lambda b: any(b.prefix.glob("var/lock/store-hello-*"))),
        ("linking", "hello/1.0", staging),
        ("no manifest yet", "hello/1.0", lambda b: without_manifest(b, "hello")),
        ("manifest written", "hello/1.0", lambda b: any(b.prefix.glob("store/hello/*.manifest.json"))),
        ("generation taken", "hello/1.0", lambda b: (b.prefix / "generations/0002").is_dir()),
        ("modules written", "hello/1.0", lambda b: generation(b, "modules/hello/1.0.lua")),
        ("spider cache", "hello/1.0", lambda b: generation(b, "spider")),
        ("smoke test", "tested/1.0", lambda b: (b.root / "testing").exists()),
    ],
)
def test_kill_at_each_step_then_a_rerun(box: Sandbox, step: str, entry: str, sign: Callable[[Sandbox], bool]) -> None:
    process = box.start("build", entry)
    wait_for(lambda: sign(box), what=step)
    kill(process)
    no_processes(box)
    complete(box, 1)
    quick(box)
    rerun(box, entry)


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
    locked(box, "py/1.0", ["python"], tests=[{"name": "runs", "run": "python -c 'import ssl'"}])
    signs: dict[str, Callable[[], object]] = {
        "linking": lambda: staging(box),
        "python linked": lambda: any(box.prefix.glob("store/py/.staging-*/bin/python")),
        "compiling": lambda: any(box.prefix.glob("store/py/.staging-*/lib/python3*/__pycache__/*")),
        "hashing": lambda: without_manifest(box, "py"),
    }
    for step, sign in signs.items():
        process = box.start("build", "py/1.0", "-j", "2")
        wait_for(sign, what=step)
        kill(process)
        no_processes(box)
        assert box.current() == 1
        # Another entry's build takes the leftovers away; the last kill's are left to the same entry's.
        if step == "compiling":
            box.ok("build", "hello/1.0", "--no-publish")
            assert box.leftovers() == []
    assert rerun(box, "py/1.0") == 2


def test_worker_that_is_killed_alone_is_told(box: Sandbox, server: Server) -> None:
    """As the kernel does when memory runs out."""
    server.faults["noarch/hello-prefix*"] = Fault("stall", times=1)
    process = box.start("build", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    worker = next(int(p.partition(":")[0]) for p in processes(box) if "envmgr.conda.worker" in p)
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
    start = time.monotonic()
    process.send_signal(number)
    time.sleep(0.02)
    process.send_signal(number)
    done = finish(process)
    assert time.monotonic() - start < 8
    assert (done.code, done.stdout) == (130, "")
    told, log = (
        done.stderr.rstrip("\n").split("\n")[-2:] if "  log: " in done.stderr else (done.stderr.rstrip("\n"), "")
    )
    assert told.endswith(INTERRUPTED), done.stderr
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
    locked(box, "py/1.0", ["python"])
    process = box.start("build", "py/1.0", "hello/1.0", "-j", "2")
    wait_for(lambda: any(box.prefix.glob("store/py/.staging-*/lib/python3*/__pycache__/*")), what="compilation")
    stop(box, process)


def test_interrupt_while_waiting_for_an_install(box: Sandbox, server: Server) -> None:
    server.faults["noarch/hello-prefix*"] = Fault("stall")
    first = box.start("build", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    second = box.start("build", "hello/1.0")
    wait_at(second, "store-hello-")
    start = time.monotonic()
    second.send_signal(signal.SIGINT)
    done = finish(second)
    assert time.monotonic() - start < 3
    assert done.code == 130
    assert re.match(r"hello/1\.0: waiting for process \d+ on .*, which builds it\n", done.stderr)
    server.release()
    assert finish(first).code == 0  # undisturbed
    complete(box, 2)


def test_interrupt_while_waiting_to_publish(box: Sandbox) -> None:
    first = box.start("build", "tested/1.0")
    wait_for((box.root / "testing").exists, what="the smoke test")
    second = box.start("build", "hello/1.0")
    wait_at(second, "publish")
    second.send_signal(signal.SIGINT)
    done = finish(second)
    assert done.code == 130
    assert "which publishes\n" in done.stderr
    assert box.leftovers() == []
    stop(box, first)
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
    complete(box, 2)
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
    hold = f"touch {box.root}/testing; while [ ! -e {box.root}/go ]; do sleep 0.02; done"
    for entry, tests in (("one/1.0", [{"name": "holds", "run": hold}]), ("two/1.0", [])):
        locked(box, entry, ["shared"], tests=tests)
        box.ok("build", "--no-publish", entry)
    first = box.start("publish", "one/1.0")
    wait_for((box.root / "testing").exists, what="the smoke test")
    second = box.start("publish", "two/1.0")
    wait_at(second, "publish")
    (box.root / "go").touch()
    done = [finish(p) for p in (first, second)]
    assert [d.code for d in done] == [0, 0], done
    waited = [d for d in done if "which publishes" in d.stderr]
    assert len(waited) == 1
    assert plain(waited[0].stderr, box).count("waiting for process N on HOST since TIME, which publishes\n") == 1
    assert sorted(entries(box)) == ["kept/1.0", "one/1.0", "two/1.0"]
    complete(box, 3)
    flips = box.ok("history", "--format", "json").data["flips"]
    assert [(f["from"], f["to"]) for f in flips] == [(None, 1), (1, 2), (2, 3)]


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
    complete(box, 5)
    assert box.leftovers() == []


def test_publish_and_remove_at_once(box: Sandbox) -> None:
    first = box.start("build", "tested/1.0")
    wait_for((box.root / "testing").exists, what="the smoke test")
    second = box.start("remove", "kept/1.0")
    wait_at(second, "publish")
    kill(first)
    done = finish(second)
    assert done.code == 0, done.stderr
    assert entries(box) == {}
    assert box.current() == 3
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


# A full disk, a read-only disk, a disk that goes away


@dataclass
class Inside:
    """A mount namespace that a sleeping process keeps; what is mounted in it is seen nowhere else."""

    process: subprocess.Popen[bytes]

    def words(self) -> list[str]:
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", f"--target={self.process.pid}", *user, "--mount"]

    def sh(self, script: str) -> None:
        subprocess.run([*self.words(), "sh", "-ec", script], check=True, capture_output=True)

    def leave(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Small(Sandbox):
    """A sandbox whose prefix is a small disk, mounted for its own processes only. The prefix is looked at through /proc."""

    inside: Inside | None = None

    @staticmethod
    def enter(root: Path, script: str) -> Inside:
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        ready = root / "mounted"
        ready.unlink(missing_ok=True)
        text = f"set -e; {script}\ntouch {ready}; exec sleep 600"
        process = subprocess.Popen(["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", text])
        wait_for(ready.exists, what="the mount")
        return Inside(process)

    def mount(self, size: str) -> None:
        (self.root / "prefix").mkdir()
        self.inside = self.enter(self.root, f"mount -t tmpfs -o size={size},mode=755 tmpfs {self.root}/prefix")

    def resize(self, size: str) -> None:
        assert self.inside is not None
        self.inside.sh(f"mount -o remount,size={size} {self.root}/prefix")

    @property
    def prefix(self) -> Path:
        return Path(f"/proc/{self.inside.process.pid}/root{self.root}/prefix") if self.inside else self.root / "prefix"

    def command(self, *argv: str) -> list[str]:
        assert self.inside is not None
        return [*self.inside.words(), *super().command(*argv)]

    def fill(self) -> None:
        """Take the last byte of the disk."""
        with (self.prefix / "ballast").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1024))
            except OSError:
                return

    def empty(self) -> None:
        (self.prefix / "ballast").unlink()


@contextmanager
def small_in(root: Path, channel: Channel) -> Iterator[Small]:
    """Locks without sidecars: sizes are not known, so that the check before the first byte lets everything through."""
    box = Small(root, str(channel.folder))
    box.settings["prefix"] = str(root / "prefix")
    box.write_site()
    plainly = Sandbox(root, str(channel.folder))  # `box` itself needs its mount
    locked(plainly, "kept/1.0", ["hello-activate"])
    locked(plainly, "hello/1.0", ["hello-prefix"])
    locked(plainly, "py/1.0", ["python"])
    for sidecar in root.glob("recipes/*/*/conda-lock.records.json"):
        sidecar.unlink()
    try:
        yield box
    finally:
        if box.inside:
            box.inside.leave()


@pytest.fixture
def small(tmp_path: Path, channel: Channel) -> Iterator[Small]:
    with small_in(tmp_path, channel) as box:
        yield box


def full(box: Small, *argv: str) -> str:
    return full_disk(box.run(*argv), box)


def full_disk(done: Done, box: Small) -> str:
    assert done.code == 3, done.stderr
    text = error_of(done, box)
    assert text.startswith("error[disk-full]: "), text
    assert text.endswith(FREE)
    assert box.leftovers() == []
    assert parts(box) == []
    return text


def until_it_fits(box: Small, *argv: str, pages: int) -> list[str]:
    """Run with ever more room, `pages` of 4096 bytes at a time, until it succeeds. Returns the errors: each is `disk-full`."""
    texts: list[str] = []
    while True:
        room = (len(texts) + 1) * pages * 4096
        box.resize(str(shutil.disk_usage(box.prefix).used + room))
        done = box.run(*argv)
        if done.code == 0:
            return texts
        texts.append(full_disk(done, box))


def test_too_little_space_is_told_before_the_first_byte(small: Small, channel: Channel) -> None:
    small.mount("20m")
    locked(small, "py/1.0", ["python"])  # with its sidecar
    size = next(r["size"] for r in channel.records.values() if r["name"] == "python")
    small.policies["min_free"] = 2 << 30
    small.write_site()
    text = full(small, "build", "py/1.0")
    assert re.sub(r"[\d.]+ MB are", "SOME are", text) == (
        f"error[disk-full]: py/1.0 needs {(size * 5 + (2 << 30)) / 1e9:.2f} GB under ROOT/prefix, SOME are free\n"
        f"  download {size / 1e6:.1f} MB, install about {size * 4 / 1e6:.1f} MB, policies.min_free 2.15 GB\n"
        f"  log: LOG\n"
        f"\n{FREE}"
    )
    assert [p for p in small.prefix.rglob("*") if p.is_file() and p.suffix not in (".log", ".lock")] == []
    small.resize("3g")
    small.ok("build", "py/1.0")
    assert small.current() == 1


def understate_sizes(small: Small) -> None:
    """Locks that say the packages are tiny: the check before the first byte lets the build begin."""
    locked(small, "py/1.0", ["python"])
    sidecar = small.root / "recipes/py/1.0/conda-lock.records.json"
    data = json.loads(sidecar.read_text())
    for package in data["packages"]:
        package["size"] = 1
    sidecar.write_text(json.dumps(data))


def test_disk_full_in_a_download(small: Small, channel: Channel) -> None:
    size = next(r["size"] for r in channel.records.values() if r["name"] == "python")
    small.mount(str(size // 2))
    small.ok("build", "kept/1.0")
    understate_sizes(small)
    with serve(channel.folder) as server:
        small.mirror = server.url
        small.write_site()
        assert full(small, "build", "py/1.0") == (
            f"error[disk-full]: no space left under ROOT/prefix/store/py/.staging-1.0-DIGEST\n"
            f"  [Errno 28] No space left on device\n"
            f"  py/1.0 was not built\n"
            f"  log: LOG\n"
            f"\n{FREE}"
        )
        complete(small, 1)
        small.resize("400m")
        assert rerun(small, "py/1.0") == 2


# The stages in which an install grows, in their order, and what the error says when the disk is full then.
FULL_WHILE = {
    "unpacking": "\n  failed to fetch python-",
    "compiling": "\n  compileall: ",
    "manifest": ".manifest.json\n",
}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> dict[str, tuple[int, int]]:
    """Stage -> bytes of the disk in use before and after it, as py/1.0 is built beside kept/1.0: Pythons differ in size."""
    with small_in(tmp_path_factory.mktemp("used"), channel) as box:
        box.mount("400m")
        box.ok("build", "kept/1.0")
        kept = shutil.disk_usage(box.prefix).used
        understate_sizes(box)
        box.ok("build", "py/1.0", "--no-publish")
        made = shutil.disk_usage(box.prefix).used
        manifest, bytecode = (
            sum(p.lstat().st_blocks * 512 for p in box.prefix.glob(f"store/py/{files}"))
            for files in ("*.manifest.json", "*/**/*.pyc")
        )
    compiled = made - manifest
    linked = compiled - bytecode  # links take no space
    return {"unpacking": (kept, linked), "compiling": (linked, compiled), "manifest": (compiled, made)}


@pytest.mark.parametrize(
    ("stage", "share"), [("unpacking", "20%"), ("unpacking", "90%"), ("compiling", "50%"), ("manifest", "50%")]
)
def test_disk_full_while_an_install_is_made(
    small: Small, used: dict[str, tuple[int, int]], stage: str, share: str
) -> None:
    """The disk has room for all the stages before, and for this share of what the stage itself writes."""
    before, after = used[stage]
    small.mount(str(before + (after - before) * int(share.rstrip("%")) // 100))
    small.ok("build", "kept/1.0")
    understate_sizes(small)
    text = full(small, "build", "py/1.0")
    assert FULL_WHILE[stage] in text
    assert "\n  py/1.0 was not built\n" in text
    complete(small, 1)
    small.resize("400m")
    assert rerun(small, "py/1.0") == 2


def test_disk_full_of_what_rattler_reads_again(small: Small) -> None:
    """It takes its cut record of a package as written, and then says that it cannot read it."""
    small.mount("4m")
    small.ok("build", "kept/1.0")
    texts = until_it_fits(small, "build", "--no-publish", "hello/1.0", pages=3)
    again = [text for text in texts if "currently installed packages" in text]
    assert again
    assert again[0] == (
        f"error[disk-full]: no space left under ROOT/prefix/store/hello/.staging-1.0-DIGEST\n"
        f"  No space left on device, 0.0 MB are free\n"
        f"  failed to determine the currently installed packages: EOF while parsing a value at line 1 column 0\n"
        f"  hello/1.0 was not built\n"
        f"  log: LOG\n"
        f"\n{FREE}"
    )


class Bounded(Runner):
    """Files cannot grow beyond 64 KiB, as on a disk that was full for a moment: what is written is cut, and no error comes."""

    def stream(self, argv: Sequence[str | Path], **options: Any) -> Completed:
        return super().stream(["prlimit", "--fsize=65536", *argv], **options)


def compiled(staging: Path, cache: Path, runner: Runner) -> str:
    """The worker installs no package into `staging`, and compiles the one file there. Returns its error, or nothing.

    Of one file, nothing comes after it that would find the disk full.
    """
    request = {
        "op": "install", "records": [], "staging": str(staging), "final": "/final", "cache": str(cache), "jobs": 2,
        "platform": "linux-64", "retries": 0, "stall_timeout": 5, "min_free": 0, "unpacked": 4,
    }  # fmt: skip
    (staging / ".unpacked").mkdir(exist_ok=True)
    try:
        call_worker(request, runner, SilentReporter())
    except EnvmgrError as error:
        return error.render().replace(str(staging), "STAGING")
    return ""


def test_bytecode_that_is_cut_is_never_an_install(small: Small) -> None:
    small.mount("4m")
    staging = small.prefix / "staging"
    library = staging / "lib" / f"python3.{sys.version_info.minor}"
    library.mkdir(parents=True)
    (staging / "bin").mkdir()
    (staging / "bin/python").symlink_to(Path(sys.executable).resolve())
    (library / "large.py").write_text(f"text = '{'x' * 200_000}'\n")
    (library / "python2.py").write_text("print 1\n")  # has no bytecode, which is no fault
    written = f"__pycache__/large.{sys.implementation.cache_tag}.pyc"
    cut = f"bytecode was not written whole: lib/{library.name}/{written}: marshal data too short"
    noticed = "compileall: *** OSError: os.write() didn't write the full pyc file"  # newer Pythons look
    assert compiled(staging, small.root, Bounded()) in {f"error[install-failed]: {text}" for text in (cut, noticed)}
    (library / written).unlink(missing_ok=True)
    small.resize(str(shutil.disk_usage(small.prefix).used + (100 << 10)))
    assert compiled(staging, small.root, Runner()) in {
        f"error[disk-full]: no space left under STAGING\n  No space left on device, {free} MB are free\n  {text}\n\n{FREE}"
        for text, free in ((cut, "0.0"), (noticed, "0.1"))
    }
    small.resize("4m")
    assert compiled(staging, small.root, Runner()) == ""
    assert (library / written).stat().st_size > 100 << 10


def test_disk_full_while_a_generation_is_staged(small: Small) -> None:
    small.mount("4m")
    small.ok("build", "kept/1.0")
    small.ok("build", "--no-publish", "hello/1.0")
    small.fill()
    done = small.run("publish", "hello/1.0")
    assert done.code == 3
    assert (
        re.sub(r"(?<=done in )[0-9.]+(?= s\n)", "SOME", plain(done.stderr, small))
        == (
            "warning: the log ROOT/prefix/var/log/"
            + re.search(r"var/log/(\S+) ", done.stderr)[1]  # type: ignore[index]
            + " cannot be written: No space left on device\n"
            "hello/1.0 verify: done in SOME s\n"
            "error[disk-full]: no space left for ROOT/prefix/generations/0002\n"
            "  [Errno 28] No space left on device\n"
            f"\n{FREE}\n"
        )
    )
    assert small.leftovers() == []
    assert small.current() == 1
    small.ok("test")  # who loads modules does not notice
    small.empty()
    number = small.ok("publish", "hello/1.0", "--format", "json").data["generation"]
    assert number == 3
    complete(small, 3)


def test_disk_full_at_any_page_of_a_publish(small: Small) -> None:
    small.mount("4m")
    small.ok("build", "kept/1.0")
    small.ok("build", "--no-publish", "hello/1.0")
    texts = until_it_fits(small, "publish", "hello/1.0", pages=1)
    cache = next(text for text in texts if "/spider\n" in text)
    number = cache.partition("/spider\n")[0][-4:]
    assert cache.splitlines()[:2] == [
        f"error[disk-full]: no space left for ROOT/prefix/generations/{number}/spider",
        "  0.0 MB are free",
    ]
    assert "/update_lmod_system_cache_files -d " in cache.splitlines()[2]
    complete(small, small.current())


def test_disk_full_at_the_very_end_of_a_publish(small: Small) -> None:
    """The smoke test fills the disk: all is staged, and the record does not fit any more."""
    small.mount("4m")
    small.ok("build", "kept/1.0")
    fill = f"cat /dev/zero >{small.root}/prefix/ballast 2>/dev/null; true"
    small.recipe("hello/1.0", ["hello-prefix"], tests=[{"name": "fills", "run": fill}])
    text = full(small, "build", "hello/1.0")
    assert text == (
        f"error[disk-full]: no space left for ROOT/prefix/generations/0002/generation.json\n"
        f"  [Errno 28] No space left on device\n"
        f"  log: LOG\n"
        f"\n{FREE}"
    )
    assert small.current() == 1
    small.empty()
    small.recipe("hello/1.0", ["hello-prefix"])
    assert rerun(small, "hello/1.0") == 3


def test_read_only_prefix(small: Small) -> None:
    small.mount("4m")
    small.ok("build", "kept/1.0")
    assert small.inside is not None
    small.inside.sh(f"mount -o remount,ro {small.root}/prefix")
    done = small.run("build", "hello/1.0")
    assert done.code == 3
    assert error_of(done, small) == (
        "error[not-writable]: cannot write ROOT/prefix\n"
        "  it is mounted read-only\n"
        "\n"
        "hint: run as the site's build user (as root, envmgr changes to it), or give this user the whole prefix"
    )
    assert small.ok("build", "kept/1.0").stdout == "nothing to do: kept/1.0 is published in generation 1\n"
    small.ok("test")
    small.inside.sh(f"mount -o remount,rw {small.root}/prefix")
    assert rerun(small, "hello/1.0") == 2


def test_mount_that_is_lost_in_a_publish(small: Small) -> None:
    small.mount("4m")
    small.ok("build", "kept/1.0")
    assert small.inside is not None
    saved = small.root / "saved"
    saved.mkdir()
    small.inside.sh(f"mount --bind {small.root}/prefix {saved}")
    test = f"cd /; touch {small.root}/testing; while [ ! -e {small.root}/gone ]; do sleep 0.02; done"
    small.recipe("hello/1.0", ["hello-prefix"], tests=[{"name": "waits", "run": test}])
    process = small.start("build", "hello/1.0")
    wait_for((small.root / "testing").exists, what="the smoke test")
    small.inside.sh(f"umount -l {small.root}/prefix")
    (small.root / "gone").touch()
    done = finish(process)
    assert done.code == 3
    start = done.stderr.index("error[")
    assert re.sub(r"\n  log: .*", "", plain(done.stderr[start:], small)) == (
        "error[mount-lost]: ROOT/prefix/generations/0002 is gone\n"
        "  [Errno 2] No such file or directory: 'ROOT/prefix/generations/0002'\n"
        "\n"
        "hint: is the file system still mounted? Mount it again; the next run cleans up\n"
    )
    small.inside.sh(f"mount --bind {saved} {small.root}/prefix")
    complete(small, 1)
    small.recipe("hello/1.0", ["hello-prefix"])
    assert rerun(small, "hello/1.0") == 3


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
        "No such file or directory\n"
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
    expected = {
        "a file": "is not a link\n  it is a file",
        "a folder": "is not a link\n  it is a folder",
    }.get(damage, f"names no complete generation\n  it points to {target}")
    for argv in (["build", "tested/1.0"], ["list"], ["gc"], ["remove", "kept/1.0"], ["rollback"]):
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
