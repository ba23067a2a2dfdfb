"""Bad days of an EasyBuild build: kill -9 of each of its processes, signals, full disks, two at once; and a rerun after each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.easybuild.leftovers import nothing_left
from tests.helpers.easybuild.paused_build import (
    compiling,
    orphan_a_compiler,
    pids,
    release,
    rows,
    signs,
    slow,
    wait_until_it_compiles,
)
from tests.helpers.easybuild.workshop import AM_ROOT, BUILD_USER, Workshop, make_workshop
from tests.helpers.scenes import INTERRUPTED, complete, error_of, finish, kill, no_processes, plain, snapshot, wait_at
from tests.helpers.small_disk import Inside, Small
from tests.helpers.waiting import DEADLINE, wait_for


@pytest.fixture
def box(workshop: Workshop) -> Workshop:
    signs(workshop).mkdir()
    signs(workshop).chmod(0o777)
    return workshop


def rerun(box: Workshop, entry: str = "toy/1.0") -> None:
    """The same command again succeeds, says what it found, and leaves nothing but what it made."""
    release(box, "toy")
    box.ok("build", entry)
    complete(box, box.current())
    assert nothing_left(box) == []
    assert box.shell(f"module load {entry}; toy").stdout == "toy 1.0\n"


# kill -9


def test_kill_of_envmgr_takes_easybuild_and_compilers_with_it(box: Workshop) -> None:
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    process = compiling(box)
    assert pids(box, "easybuild.main")
    (row,) = rows(box)
    told = json.loads(row.read_text())
    assert (told["install"].startswith("store/toy/1.0-"), told["pid"] in pids(box, "envmgr build")) == (True, True)
    kill(process)
    no_processes(box)
    assert box.items() == []
    assert box.current() is None
    assert (
        len([*box.prefix.glob("var/jobs/easybuild-locks/*")]) == len(rows(box)) == 1
    )  # what EasyBuild alone would stumble over
    rerun(box)


def test_kill_of_easybuild_alone_is_told(box: Workshop) -> None:
    """As the kernel does when memory runs out."""
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    process = compiling(box)
    os.kill(pids(box, "easybuild.main")[0], signal.SIGKILL)
    done = finish(process)
    assert done.code == 3
    assert error_of(done, box) == (
        "error[worker-died]: toy/1.0 did not build: EasyBuild was ended by SIGKILL (out of memory?)\n"
        "  easyconfig toy-1.0.eb\n"
        "  it was at the build step\n"
        "  log: LOG\n"
        "\n"
        "hint: run the same command again: what was built before is kept"
    )
    assert nothing_left(box) == []
    rerun(box)


def test_easybuild_that_somebody_else_tells_to_end_is_told(box: Workshop) -> None:
    """Its exit status is then the signal's number, which is also that of a failed configuration."""
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    process = compiling(box)
    os.kill(pids(box, "easybuild.main")[0], signal.SIGTERM)
    release(box, "toy")  # it waits for its compiler
    done = finish(process)
    assert done.code == 3
    assert error_of(done, box).splitlines()[0] == (
        "error[worker-died]: toy/1.0 did not build: EasyBuild was ended by SIGTERM"
    )
    assert nothing_left(box) == []
    rerun(box)


def test_compilers_that_outlive_everything_are_ended_by_the_next_run(box: Workshop) -> None:
    """Everything of the build is killed at once but the compiler: nobody is left to end it."""
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    shell = orphan_a_compiler(box)
    (signs(box) / "toy").unlink()
    second = box.start("build", "toy/1.0")
    wait_until_it_compiles(box)
    assert shell not in pids(box, "")
    release(box, "toy")
    done = finish(second)
    assert done.code == 0, done.stderr
    assert re.search(r"^toy/1\.0: ended \d+ process(es)? of a build that was killed$", done.stderr, re.MULTILINE)
    rerun(box)


@pytest.mark.skipif(not AM_ROOT, reason="needs a host name of its own")
def test_build_that_died_on_another_host(box: Workshop) -> None:
    """Its processes cannot be seen; its lock on the shared file system is free, so it is dead."""
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    elsewhere = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere; exec "$@"', "sh"]
    process = subprocess.Popen(
        [*elsewhere, *box.command("build", "toy/1.0")],
        cwd=box.root,
        env=box.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    box.started.append(process)
    wait_until_it_compiles(box)
    (row,) = rows(box)
    assert json.loads(row.read_text())["host"] == "elsewhere"
    second = box.start("build", "toy/1.0")  # meanwhile, here
    wait_at(second, "store-toy-")
    kill(process)
    release(box, "toy")
    done = finish(second)
    assert done.code == 0, done.stderr
    assert re.match(r"toy/1\.0: waiting for process \d+ on elsewhere since \S+, which builds it\n", done.stderr)
    rerun(box)


def test_server_that_a_build_starts_in_a_session_of_its_own_ends_with_it(box: Workshop) -> None:
    """As bazel's does."""
    daemon = f"setsid sh -c 'touch {signs(box)}/served; exec sleep 1200' </dev/null >/dev/null 2>&1 & until [ -e {signs(box)}/served ]; do sleep 0.05; done; "
    box.toy(prebuildopts=daemon)
    box.locked("toy/1.0", "toy-1.0.eb")
    box.ok("build", "toy/1.0")
    assert (signs(box) / "served").exists()
    assert nothing_left(box) == []


# Ctrl-C and SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_while_it_compiles(box: Workshop, number: int) -> None:
    box.toy("kept")
    box.locked("kept/1.0", "kept-1.0.eb")
    box.ok("build", "kept/1.0")
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    process = compiling(box)
    process.send_signal(number)
    time.sleep(0.02)
    process.send_signal(number)
    done = finish(process)
    assert (done.code, done.stdout) == (130, "")
    told, log = done.stderr.rstrip("\n").splitlines()[-2:]
    assert told == INTERRUPTED
    story = Path(log.removeprefix("  log: ")).read_text()
    (theirs,) = re.findall(r"toy/1\.0: EasyBuild's log was kept as (\S+)$", story, re.MULTILINE)
    assert "Starting build step" in Path(theirs).read_text()
    assert nothing_left(box) == []
    complete(box, 1)
    rerun(box)
    complete(box, 2)


# Two at once


def test_two_builders_of_one_item(box: Workshop) -> None:
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    first = compiling(box)
    second = box.start("build", "toy/1.0", "--format", "json")
    wait_at(second, "store-toy-")
    release(box, "toy")
    one, two = finish(first), finish(second)
    assert (one.code, two.code) == (0, 0), one.stderr + two.stderr
    assert len(box.items()) == 1
    assert two.data["built"] == []
    rerun(box)


def test_installs_side_by_side_share_the_cores(box: Workshop) -> None:
    """Each waits until the other compiles too: one after the other would never end."""
    for name, other in (("left", "right"), ("right", "left")):
        slow(
            box,
            name,
            prebuildopts=f"touch {signs(box)}/{name}.here; until [ -e {signs(box)}/{other}.here ]; do sleep 0.05; done; ",
        )
    slow(box, "top", dependencies=[("left", "1.0"), ("right", "1.0")])
    box.locked("top/1.0", "top-1.0.eb")
    release(box, "left", "right", "top")
    box.ok("build", "top/1.0", "-j", "4")
    assert {name: (signs(box) / name).read_text().split() for name in ("left", "right", "top")} == {
        "left": ["-j2"],
        "right": ["-j2"],
        "top": ["-j4"],
    }
    assert nothing_left(box) == []


def test_one_that_fails_does_not_stop_what_does_not_need_it(box: Workshop) -> None:
    box.toy("broken", files={"toy.c": "int main(void) { return 0 }\n"})
    slow(box)
    box.locked("broken/1.0", "broken-1.0.eb")
    box.locked("toy/1.0", "toy-1.0.eb")
    process = compiling(box, "broken/1.0", "toy/1.0", "-j", "2")
    wait_for(lambda: any(box.prefix.glob("var/log/easybuild/*broken*")), what="the failure of the other")
    release(box, "toy")
    done = finish(process)
    assert done.code == 3
    text = error_of(done, box)
    assert text.splitlines()[0] == "error[build-failed]: broken/1.0 did not build: the build step failed"
    assert "\n  built and kept for the next run: toy/1.0\n" in text
    assert [item.partition("/")[0] for item in box.items()] == ["toy"]
    assert box.current() is None
    assert nothing_left(box) == []
    box.toy("broken")
    box.ok("lock", "broken/1.0")
    assert box.ok("build", "broken/1.0", "toy/1.0", "--format", "json").data["built"] == ["broken/1.0"]
    complete(box, 1)


def test_lock_of_an_easybuild_that_is_not_ours(box: Workshop) -> None:
    box.toy()
    box.locked("toy/1.0", "toy-1.0.eb")
    (step,) = box.ok("build", "toy/1.0", "--dry-run", "--format", "json").data["steps"]
    lock = (
        box.prefix
        / "var/jobs/easybuild-locks"
        / (str(box.prefix / step["planned"]["path"]).replace("/", "_") + ".lock")
    )
    lock.mkdir(parents=True)
    for folder in (lock, lock.parent, lock.parent.parent, lock.parent.parent.parent):
        box.give(folder)
    done = box.run("build", "toy/1.0")
    assert done.code == 3
    told = plain(str(lock), box)
    assert error_of(done, box) == (
        "error[easybuild-locked]: EasyBuild is building toy/1.0, or died while it did\n"
        f"  {told}\n"
        "  no build of envmgr left it: it is not in the job table\n"
        "  toy/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        f"hint: make sure that no `eb` runs for it, then: rmdir {told}"
    )
    assert lock.is_dir()
    lock.rmdir()
    box.ok("build", "toy/1.0")
    assert nothing_left(box) == []


# What is published stays as it is


def test_job_goes_on_with_the_old_install_while_an_edited_easyconfig_is_built(box: Workshop) -> None:
    box.toy()
    box.locked("toy/1.0", "toy-1.0.eb")
    box.ok("build", "toy/1.0")
    (old,) = (p for p in box.prefix.glob("store/toy/*") if p.is_dir())
    before = snapshot(old, box.prefix / "generations/0001", box.prefix / "easybuild/modules")
    init = box.ok("shell-init", "bash").stdout
    script = f"{init}\nmodule load toy/1.0; touch {signs(box)}/loaded; until [ -e {signs(box)}/end ]; do sleep 0.05; done; toy; type -P toy"
    job = subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-c", script],
        env={"PATH": "/usr/bin:/bin", "HOME": "/tmp"},
        stdout=subprocess.PIPE,
        text=True,
    )
    box.started.append(job)  # killed at the test's end, if it still runs
    wait_for((signs(box) / "loaded").exists, what="the job's module")
    box.toy(files={"toy.c": '#include <stdio.h>\nint main(void) { puts("new"); return 0; }\n'})
    box.ok("lock", "toy/1.0")
    box.ok("build", "toy/1.0")
    assert len(box.items()) == 2
    (signs(box) / "end").touch()
    said, _ = job.communicate(timeout=DEADLINE)
    assert said.splitlines() == ["toy 1.0", f"{old}/bin/toy"]
    assert box.shell("module load toy/1.0; toy").stdout == "new\n"
    after = snapshot(old, box.prefix / "generations/0001", box.prefix / "easybuild/modules")
    changed = {path for path in before if after.get(path) != before[path]}
    assert changed <= {str(box.prefix / "easybuild/modules/toy")}  # the folder, which has another module beside it


def test_two_builds_of_the_same_lock_are_the_same_to_the_byte(box: Workshop) -> None:
    box.toy("base")
    box.toy(dependencies=[("base", "1.0")])
    box.locked("toy/1.0", "toy-1.0.eb")
    first = box.ok("build", "toy/1.0", "--format", "json").data
    manifests = {p.name: json.loads(p.read_text())["tree"] for p in box.prefix.glob("store/*/*.manifest.json")}
    modules = {p.name: p.read_bytes() for p in box.prefix.glob("easybuild/modules/*/*.lua")}
    flat = (box.prefix / "generations/0001/modules/toy/1.0.lua").read_bytes()
    for folder in ("store", "easybuild/modules", "generations", "flips"):
        remove_tree(box.prefix / folder)
    for file in ("current", "var/history.jsonl"):
        (box.prefix / file).unlink()
    again = box.ok("build", "toy/1.0", "--format", "json").data
    assert again["built"] == first["built"] == ["toy/1.0"]
    assert again["trees"] == first["trees"]
    assert {p.name: json.loads(p.read_text())["tree"] for p in box.prefix.glob("store/*/*.manifest.json")} == manifests
    assert {p.name: p.read_bytes() for p in box.prefix.glob("easybuild/modules/*/*.lua")} == modules
    assert (box.prefix / f"generations/{again['generation']:04d}/modules/toy/1.0.lua").read_bytes() == flat


# A full disk


@dataclass
class Cramped(Workshop):
    """A workshop with a small disk at `root/at`, mounted for its own processes only."""

    at: str = ""
    inside: Inside | None = None

    def mount(self, at: str, size: str) -> None:
        folder = self.root / at
        folder.mkdir(exist_ok=True)
        self.at = at
        self.inside = Small.enter(
            self.root, f"mount -t tmpfs -o size={size},mode=755,uid=$(id -u {BUILD_USER}) tmpfs {folder}"
        )

    def resize(self, size: str) -> None:
        assert self.inside is not None
        self.inside.sh(f"mount -o remount,size={size} {self.root / self.at}")

    @property
    def prefix(self) -> Path:
        inner = f"/proc/{self.inside.process.pid}/root" if self.inside and self.at == "prefix" else ""
        return Path(f"{inner}{self.root}/prefix")

    def command(self, *argv: str) -> list[str]:
        return [*(self.inside.words() if self.inside else []), *super().command(*argv)]


@pytest.fixture
def cramped() -> Iterator[Cramped]:
    plainly = make_workshop()
    box = Cramped(plainly.root, "", settings={**plainly.settings, "prefix": str(plainly.root / "prefix")})
    box.write_site()
    yield box
    if box.inside:
        box.inside.leave()
    remove_tree(box.root)


@pytest.mark.skipif(not AM_ROOT, reason="mounts a small disk for another user")
@pytest.mark.parametrize("at", ["build", "prefix"])
def test_full_disk(cramped: Cramped, at: str) -> None:
    ballast = "dd if=/dev/zero of=$(TO)/ballast bs=1M count=20"
    makefile = f"all:\n\t{ballast.replace('$(TO)', '.') if at == 'build' else 'true'}\n"
    makefile += f"install:\n\tmkdir -p $(PREFIX)/bin\n\t{ballast.replace('$(TO)', '$(PREFIX)/bin') if at == 'prefix' else 'true'}\n"
    makefile += "\techo 'echo toy 1.0' >$(PREFIX)/bin/toy; chmod 755 $(PREFIX)/bin/toy\n"
    cramped.toy(files={"Makefile": makefile})
    cramped.entry("toy/1.0", "toy-1.0.eb")
    cramped.mount(at, "12m")
    cramped.ok("lock", "toy/1.0")
    done = cramped.run("build", "toy/1.0")
    assert done.code == 3
    text = re.sub(r"'[^']*ballast'", "'BALLAST'", error_of(done, cramped))
    # EasyBuild may be the first to notice, in its log or in a file of its own: that is a matter of pages.
    first = r"^  .*\[Errno 28\] No space left on device.*$"
    text = re.sub(first, "  dd: error writing 'BALLAST': No space left on device", text, flags=re.MULTILINE)
    assert text == (
        "error[disk-full]: no space left while toy/1.0 was built\n"
        "  easyconfig toy-1.0.eb\n"
        "  dd: error writing 'BALLAST': No space left on device\n"
        "  toy/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: free some space where it compiles (build_dir in site.yaml, else $TMPDIR or /tmp) and under the prefix, "
        "then run the same command again"
    )
    assert nothing_left(cramped) == []
    cramped.resize("60m")
    cramped.ok("build", "toy/1.0")
    complete(cramped, 1)
    assert nothing_left(cramped) == []
