"""`make demo-cluster` does what it says, the pages show what it says, and whatever ends it leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.__main__ import WAYS_IN
from tests.helpers.places import ROOT
from tests.helpers.transcript import blocks, missing_lines
from tests.helpers.waiting import DEADLINE

PAGES = [ROOT / "README.md", ROOT / "docs/tour.md"]
Start = Callable[..., "subprocess.Popen[str]"]
NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]


@pytest.fixture
def scene(cluster_possible: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder in which demos of this test make theirs. One that is left there fails the test."""
    folder = tmp_path / "scene"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def start(scene: Path) -> Iterator[Start]:
    """Starts a demo, in a process of its own; `code` runs before, with the demo's module as `demo`. It ends with the test."""
    started = []

    def start(code: str = "") -> subprocess.Popen[str]:
        own = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)"  # not as nohup(1) left it
        text = f"{own}\nimport sys, demo.cluster as demo\n{code}\nsys.exit(demo.main())"
        process = subprocess.Popen(
            [sys.executable, "-c", text],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:  # closes its pipes, and waits for it
            process.kill()


def nothing_left(scene: Path) -> None:
    assert list(scene.iterdir()) == []
    named = [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(scene).encode() in _read(p)]
    assert named == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # ended meanwhile
        return b""


def test_demo_holds_and_the_pages_show_what_it_says(scene: Path, start: Start) -> None:
    demo = start()
    said, errors = demo.communicate(timeout=10 * DEADLINE)
    assert (demo.returncode, errors) == (0, ""), said
    last = said.splitlines()[-1]
    assert re.fullmatch(r"demo: all \d+ expectations held, \d+ s", last)
    nothing_left(scene)
    for page in PAGES:
        assert blocks(page), f"{page} shows nothing of the demo"
        assert missing_lines(page, said) == [], page


def test_demo_of_one_node_holds_as_readme_types_it(scene: Path) -> None:
    assert "    make demo  " in (ROOT / "README.md").read_text()
    environ = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
    argv = [  # what runs is not installed again
        "make",
        f"--old-file={sys.prefix}/.installed",
        "demo",
        f"VENV={sys.prefix}",
    ]
    done = subprocess.run(
        argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=5 * DEADLINE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"demo: all \d+ expectations held, \d+ s", done.stdout.splitlines()[-1])
    nothing_left(scene)


BAD_SITE = "demo.SITE = demo.SITE.replace('schema: 1', 'schema: 0')"
FAILED = "\ndemo failed: `envmgr lock pydata/1.0`: exit status 2, expected 0\n"


def test_step_that_does_not_do_what_it_says_ends_the_demo_with_1_and_a_clean_scene(scene: Path, start: Start) -> None:
    demo = start(BAD_SITE)
    said, errors = demo.communicate(timeout=5 * DEADLINE)
    assert (demo.returncode, errors) == (1, FAILED)
    assert "error[site-invalid]" in said
    nothing_left(scene)


def test_keep_leaves_the_cluster_up_and_says_how_to_enter_and_end_it(
    scene: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEEP", "1")
    here = f"from pathlib import Path\ndemo.FOLDER = Path({str(scene / 'kept')!r})"
    demo = start(f"{here}\n{BAD_SITE}")
    _, errors = demo.communicate(timeout=5 * DEADLINE)
    assert (demo.returncode, errors) == (1, f"{FAILED}\nkept, as it is now:\n{WAYS_IN}")
    cluster = Cluster.attach(scene / "kept")
    try:
        assert cluster.exec("c1", ["id", "-un"], user="alice").stdout == "alice\n"
        again = start(here)
        assert again.communicate(timeout=DEADLINE)[1] == (
            "\nerror[cluster-up]: a cluster is up already\n\nhint: `make cluster-down` ends it; or leave out KEEP=1\n"
        )
        assert again.returncode == 3
    finally:
        cluster.down()
    nothing_left(scene)


STOPPED_EARLY = """
import os, signal, threading
begin = threading.Timer.start
threading.Timer.start = lambda self: (begin(self), os.kill(os.getpid(), signal.SIGINT))
"""


def test_demo_that_is_stopped_at_the_very_start_of_a_command_ends(scene: Path, start: Start) -> None:
    demo = start(STOPPED_EARLY)
    _, errors = demo.communicate(timeout=DEADLINE)
    assert (demo.returncode, errors) == (130, "\nstopped\n")
    nothing_left(scene)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_demo_that_is_stopped_leaves_nothing(scene: Path, start: Start, number: signal.Signals) -> None:
    demo = start()
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("[root@login]$ envmgr lock"):
            break
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=DEADLINE)
    assert (demo.returncode, errors) == (130, "\nstopped\n")
    nothing_left(scene)


def test_other_user_is_told_that_root_is_needed_before_anything_is_installed(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(NOBODY if os.geteuid() == 0 else []),
            "make",
            "-f",
            ROOT / "Makefile",
            "demo-cluster",
            f"VENV={tmp_path}/none",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 2  # make's own
    assert done.stdout == ""
    assert done.stderr.startswith(
        "error[root-needed]: a cluster of namespaces and mounts needs root\n"
        "\n"
        "hint: run `sudo make demo-cluster`; `make demo` shows a single node, and needs no root\n"
    )
    assert not (tmp_path / "none").exists()
