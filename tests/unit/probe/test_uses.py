"""What processes use: the script on this machine, with real processes; and its answer, where it is not whole."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from envmgr.steps.in_use import Uses, read_uses, uses_script
from envmgr.system.run import run_detached
from tests.helpers.waiting import DEADLINE, HANGS, long_enough
from tests.helpers.waiting_programs import MAPPED, OPENED, standing

INSTALL = "store/tool/1.0-0123abcd"
PATHS = [*(f"generations/{number:04d}" for number in range(1, 5)), INSTALL]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
# A user who has no other processes, whatever else this machine runs.
ALONE = ["setpriv", "--reuid=61184", "--regid=61184", "--clear-groups"]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    (tmp_path / INSTALL / "lib").mkdir(parents=True)
    (tmp_path / INSTALL / "lib/tool").write_text("content")
    (tmp_path / "generations/0001").mkdir(parents=True)
    return tmp_path


# No command line names the file: its last argument is the rest of its path.
SHORTER = "import sys; sys.argv[1] += sys.argv.pop();"


def parts(prefix: Path) -> tuple[str, str]:
    return f"{prefix}/{INSTALL[:-4]}", f"{INSTALL[-4:]}/lib/tool"


def look(prefix: Path, before: str = "", seconds: float = DEADLINE) -> Uses:
    script = before + uses_script(str(prefix), seconds, PATHS)
    return read_uses(run_detached(["/bin/sh", "-s"], stdin=script, seconds=DEADLINE).output)


def test_each_way_in_which_a_process_uses_a_path_is_seen(prefix: Path) -> None:
    """A shell that exports changes its own memory alone: nothing else tells of that."""
    exported = f"number=3; export ENVMGR_PIN={prefix}/generations/000$number; number=; echo; read line\n"
    with ExitStack() as stack:
        started = [
            stack.enter_context(each)
            for each in (
                standing("cat", script="\n", ENVMGR_PIN=f"{prefix}/generations/0002"),
                standing("bash", "--norc", script=exported),
                standing("sh", script=exported.replace("=3", "=4")),
                standing(sys.executable, "-c", f"{SHORTER}{MAPPED}", *parts(prefix)),
                standing("sh", "-c", f"cd {prefix}/generations/0001; echo; exec cat"),
            )
        ]
        found = look(prefix)
    pids = [process.pid for process in started]
    assert {path: [pid for pid in pids if f"({pid})" in who] for path, who in found.named.items()} == {
        "generations/0001": pids[4:],
        "generations/0002": pids[:1],
        "generations/0003": pids[1:2],
        "generations/0004": pids[2:3],
        INSTALL: pids[3:4],
    }
    assert (found.since, found.unknown, found.uid) == (None, "", os.geteuid())
    assert look(prefix).named == {}


def test_open_file_and_prefix_that_is_a_link(prefix: Path) -> None:
    link = prefix / "link"
    link.symlink_to(prefix)
    (prefix / "current").symlink_to("generations/0001")
    (prefix / "generations/0001/generation.json").write_text("{}")
    with standing(sys.executable, "-c", f"{SHORTER}{OPENED}", *parts(prefix)):
        assert [*look(link).named] == [INSTALL]


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone looks at others' processes")
def test_process_of_another_user_is_told_to_an_ordinary_one() -> None:
    with standing("cat", script="\n") as other:
        script = uses_script("/nowhere", DEADLINE, PATHS)
        done = run_detached([*NOBODY, "/bin/sh", "-s"], stdin=script, seconds=DEADLINE)
        found = read_uses(done.output)
        assert other.poll() is None
    assert found.uid == 65534
    assert "cannot be looked at: " in found.closed
    assert found.unknown == ""


def test_paths_that_do_not_exist_count_nothing_however_many_a_process_names(prefix: Path) -> None:
    made_up = ":".join(f"{prefix}/generations/{number}" for number in range(10_000, 11_000))
    named = f"{prefix}/store/tool/.staging-1.0-0123abcd/bin:{prefix}/generations/0002"
    environ = {f"PATHS{number}": made_up for number in range(8)}
    with standing("cat", script="\n", NAMED=named, **environ) as process:
        found = look(prefix)
    who = f"cat ({process.pid}) of root"
    assert found.named == {"generations/0002": who, INSTALL: who}  # other processes of this machine are not its matter


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone looks at others' processes")
def test_process_that_hangs_who_looks_at_it_is_named_and_hides_no_other_users(prefix: Path, tmp_path: Path) -> None:
    """Her memory may lie on a file system of her own, which does not answer."""
    environ = {"NAMED": f"{prefix}/generations/0002"}
    with ExitStack() as stack:
        hangs = [stack.enter_context(standing(*ALONE, "cat", script="\n", **environ)) for _ in range(5)]
        other = stack.enter_context(standing("cat", script="\n", **environ))
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/grep").write_text(
            f'#!/bin/sh\ncase " $* " in {"|".join(f"*/proc/{each.pid}/*maps*" for each in hangs)}) exec sleep {HANGS} ;; esac\n'
            f'exec {shutil.which("grep")} "$@"\n'
        )
        (tmp_path / "bin/grep").chmod(0o755)
        before = f"PATH={tmp_path}/bin:$PATH\n"
        found = long_enough(
            lambda limit: look(prefix, before, limit), lambda found: found.named and not found.unknown, first=28
        )
    assert found.named == {"generations/0002": f"cat ({other.pid}) of root"}
    assert f"cat ({hangs[0].pid}) of uid 61184 and 4 more" in [who for _, who in found.late]
    assert (found.since, found.closed, found.unknown) == (None, "", "")


ANSWER = """@gate=ok
@use.uid=0
@use.count=3
@use.closed.count=5
@use.closed|11 0 a daemon
@use.closed|12 0 b
@use.closed|13 0 c
@use.closed|14 0 d
@use.since.count=2
@use.since|86400 77 0 bash
@use.since|10 78 0 bash
@use.late|900 3 31 0 python
@use.named|generations/0002 2 21 0 (sd pam)
@use.named|store/a/1.0-0123abcd 1 22 ? ?
@use.looked.node=yes
"""


def test_answer_is_read() -> None:
    assert read_uses(ANSWER) == Uses(
        {"generations/0002": "(sd pam) (21) of root and 1 more", "store/a/1.0-0123abcd": "? (22) of ?"},
        (86400.0, "bash (77) of root and 1 more"),
        "5 processes cannot be looked at: a daemon (11) of root, b (12) of root, c (13) of root, …",
        "",
        0,
        ((900.0, "python (31) of root and 2 more"),),
    )


@pytest.mark.parametrize(
    ("answer", "unknown"),
    [
        ("", "the probe did not end: no reason"),
        (ANSWER.replace("@use.looked.node=yes", "@node.end=no end in 9 s"), "the probe did not end: no end in 9 s"),
        (
            "@probe=cannot write to /tmp, /dev/shm or /run\n",
            "the probe did not end: cannot write to /tmp, /dev/shm or /run",
        ),
        (f"{ANSWER}@use.left=12\n", "12 processes were not looked at in time"),
    ],
)
def test_answer_that_is_not_whole_says_so(answer: str, unknown: str) -> None:
    assert read_uses(answer).unknown == unknown
