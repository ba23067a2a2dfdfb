"""What a module says of its load, through real Lmod, to a socket in the place of /dev/log; and that nothing about that socket matters."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.helpers.golden_cases import render_case
from tests.helpers.lmod_shell import LMOD, Tree, make_tree, spec

TODAY = datetime.now(UTC).date().isoformat()
HOST = os.uname().nodename


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = make_tree(
        tmp_path,
        spec("lib/1"),
        spec("app/1", depends=("lib/1",)),
        spec("other/1", depends=("lib/1",)),
        generation=7,
        usage=True,
    )
    for path in made.modules.rglob("*.lua"):
        text = path.read_text()
        assert text.count('"/dev/log"') == 1
        path.write_text(text.replace('"/dev/log"', f'"{tmp_path}/log"'))
    return made


@contextmanager
def reader(tree: Tree) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tree.folder / "log"))
        made.setblocking(False)
        yield made


def heard(made: socket.socket) -> list[str]:
    """The texts behind the tag; what is before it is as syslog(3) has it."""
    found = []
    while True:
        try:
            data = made.recv(4096).decode()
        except BlockingIOError:
            return found
        match = re.fullmatch(r"<14>[A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d envmgr: (.*)", data)
        assert match, data
        found.append(match[1])


def said(entry: str, by: str = "-", job: str = "-") -> str:
    return f"load 1 {entry} 7 {job} {by} {TODAY} {HOST}"


LIB, APP = said("lib/1", "app/1"), said("app/1")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("module load app", [LIB, APP]),
        ("module load app; module load other", [LIB, APP, said("other/1")]),
        ("module load lib; module load app", [said("lib/1"), APP]),
        ("module load app; module unload app; module load app", [LIB, APP] * 2),
        ("module show app; module avail; module spider; module spider app; module whatis app; module help app", []),
        ("module keyword app; module is-avail app; module list; module -t overview", []),
        # Lmod reads the modules again for their hash, and for their functions; a restored module is loaded by its name.
        ("module load app; module save it; module refresh", [LIB, APP]),
        ("module load app; module save it; module purge; module restore it", [LIB, APP, said("lib/1"), APP]),
        ("module load app; module swap app other", [LIB, APP, said("lib/1", "other/1"), said("other/1")]),
        # Lmod finds out that a module fails when it has read those before it.
        ("module load none; module load app none", [LIB, APP]),
    ],
)
def test_module_says_once_that_it_is_loaded(tree: Tree, script: str, expected: list[str]) -> None:
    with reader(tree) as made:
        done = tree.shell(f"{{ {script}; }} >/dev/null 2>&1; env | grep ENVMGR_USAGE")
        found = heard(made)
    assert done.stdout == ""
    assert found == expected


def test_module_says_its_job_and_nothing_where_that_is_not_wanted(tree: Tree) -> None:
    with reader(tree) as made:
        tree.shell("module load lib", SLURM_JOB_ID="77")
        tree.shell("module load lib", SLURM_JOB_ID="7 8\n<0>x", ENVMGR_USAGE_BY="a/1 <0>\n")
        tree.shell("module load lib", ENVMGR_USAGE="no")
        assert heard(made) == [said("lib/1", job="77"), said("lib/1")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish"])
def test_module_says_it_in_every_shell(tree: Tree, shell: str) -> None:
    init = LMOD.init_script({"tcsh": "csh"}.get(shell, shell))
    with reader(tree) as made:
        done = tree.shell(f"printf 'source {init}\\nmodule load app\\n' | {shell}")
        assert (done.returncode, done.stderr, heard(made)) == (0, "", [LIB, APP])


def _full(tree: Tree) -> socket.socket:
    """A socket that nobody reads, as that of a syslog that hangs, with a queue that is full."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(str(tree.folder / "log"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.connect(str(tree.folder / "log"))
        with suppress(BlockingIOError):
            while True:
                sender.send(b"x")
    return made


def _stream(tree: Tree) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(str(tree.folder / "log"))
    made.listen(0)
    return made


@pytest.mark.parametrize(
    "bad", ["missing", "full", "stream", "dead", "file", "folder", "link", "closed", "no descriptor"]
)
def test_load_goes_on_whatever_the_syslog_is(tree: Tree, bad: str) -> None:
    """Nothing is printed, nothing waits, and the module is loaded."""
    log, held, before = tree.folder / "log", None, ""
    if bad in ("full", "dead"):
        held = _full(tree)
    elif bad == "stream":
        held = _stream(tree)
    elif bad == "file":
        log.write_text("a file\n")
    elif bad == "folder":
        log.mkdir()
    elif bad == "link":
        log.symlink_to(log)
    elif bad == "closed":
        held = _full(tree)
        log.chmod(0)
    elif bad == "no descriptor":
        before = "ulimit -n 8; "
    if bad == "dead" and held is not None:
        held.close()  # the path stays
    start = time.monotonic()
    done = tree.shell(f"{before}module load app; echo $LOADEDMODULES")
    took = time.monotonic() - start
    if held is not None:
        held.close()
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "lib/1:app/1\n")
    assert took < 20
    assert not log.is_file() or log.read_text() == "a file\n"


@pytest.mark.parametrize("read", [True, False])
def test_none_of_many_loads_at_once_fails(tree: Tree, read: bool) -> None:
    """Lmod itself, 300 times, some at once; the socket takes all that somebody reads in time, and no load waits for it."""

    def load(_: int) -> tuple[int, str]:
        done = tree.shell("$LMOD_CMD bash load app >/dev/null")
        return done.returncode, done.stderr

    with reader(tree) as made, ThreadPoolExecutor(12) as pool:
        loads = pool.map(load, range(300))
        found = []
        for done in loads:
            assert done == (0, "")
            found += heard(made) if read else []
        found += heard(made)
    assert set(found) <= {LIB, APP}
    assert (len(found) > 20) == read


def test_texts_without_usage_have_nothing_of_it() -> None:
    """The golden trees hold the rest: no text changed when usage came."""
    assert all("usage" not in text for text in render_case("modules-full").values())
