"""`envmgr usage`: loads through real Lmod and a real rsyslogd on a /dev/log of its own, counted in its text."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from envmgr.modules.lmod import find_lmod
from envmgr.system.run import clean_env
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.syslog_scene import syslog

LMOD = find_lmod(None, os.environ)
TODAY = datetime.now(UTC).date().isoformat()
HINT = "hint: `journalctl -t envmgr | envmgr usage`, or the file that your syslog writes: `envmgr usage FILE`"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path_factory.mktemp("usage"), str(channel.folder))
    made.settings |= {"usage": True}
    made.write_site()
    made.recipe("zlib/1.3", ["hello-prefix"])
    made.recipe("hello/1.0", ["hello-prefix"], depends=["zlib/1.3"])
    made.recipe("old/1.0", ["hello-prefix"], deprecated={"date": "2030-01-01", "message": "use hello/1.0"})
    entries = ("zlib/1.3", "hello/1.0", "old/1.0")
    made.ok("lock", *entries)
    made.ok("build", *entries)
    yield made
    made.clear()


def counts(data: dict[str, Any]) -> dict[str, tuple[int, dict[str, int], int]]:
    return {row["entry"]: (row["own"], row["by"], row["jobs"]) for row in data["entries"]}


def typed(box: Sandbox, *argv: str, **given: Any) -> subprocess.CompletedProcess[str]:
    """`envmgr usage` with something on its standard input."""
    command = box.command("usage", *argv)
    return subprocess.run(
        command, **given, cwd=box.root, env=box.environ(), capture_output=True, text=True, check=False
    )


@pytest.mark.always
def test_loads_are_counted_in_the_log_of_a_real_syslog(box: Sandbox, tmp_path: Path) -> None:
    """What is no load says nothing; neither do envmgr's own tests."""
    modules = (box.prefix / "current").resolve() / "modules"
    with syslog(tmp_path / "scene") as scene:
        scene.start()

        def load(script: str, **env: str) -> None:
            given = clean_env(MODULEPATH=str(modules), HOME=str(box.root), **env)
            shell = ("bash", "--noprofile", "--norc", "-c", f". {LMOD.init_script('bash')}\n{script}")
            done = scene.run(*shell, env=given)
            assert done.returncode == 0, done.stderr

        load("module load hello; module show old; module avail; module save x; module unload hello")
        load("module load hello", SLURM_JOB_ID="7")
        load("module load old", ENVMGR_USAGE="no")
        assert len(scene.lines()) == 4
        shown = box.ok("usage", str(scene.log)).stdout
        twice = box.ok("usage", str(scene.log), str(scene.log), "--format", "json").data
    assert [re.split(" {2,}", line.rstrip()) for line in shown.splitlines()] == [
        ["entry", "loads", "by others", "in jobs", "last load"],
        ["hello/1.0", "2", "0", "1", TODAY],
        ["old/1.0", "0", "0", "0", "deprecated until 2030-01-01: use hello/1.0"],
        ["zlib/1.3", "0", "2", "1", TODAY, "by hello/1.0"],
        [f"4 loads from {TODAY} to {TODAY}"],
    ]
    assert counts(twice) == {"zlib/1.3": (0, {"hello/1.0": 4}, 2), "hello/1.0": (4, {}, 2), "old/1.0": (0, {}, 0)}


def test_text_of_journals_and_syslogs_is_read_from_standard_input(box: Sandbox) -> None:
    load = "load 1 old/1.0 12 - - 2026-11-0{} c1\n"
    ways = ("Nov 28 19:41:09 c1 envmgr: {}", "2026-11-28T19:41:09 c1 envmgr[4711]: {}", "c1 envmgr - - - {}", "{}")
    text = "".join(way.format(load.format(day)) for day, way in enumerate(ways, 1))
    done = typed(box, "--format", "json", input=text)
    said = json.loads(done.stdout)
    assert counts(said)["old/1.0"] == (4, {}, 0)
    assert (said["first"], said["last"], said["others"], said["recorded"]) == ("2026-11-01", "2026-11-04", 0, True)


def test_lines_that_anybody_can_send_break_nothing(box: Sandbox, tmp_path: Path) -> None:
    """A figure can be forged; a name that no entry has counts nothing, and nothing of it is shown."""
    log = tmp_path / "log"
    good = f"c1 envmgr: load 1 hello/1.0 1 - - {TODAY} c1\n"
    forged = (
        f"load 1 evil/\x1b[31m 1 - - {TODAY} c1",
        f"load 1 hello/1.0 1 - evil/1 {TODAY} c1",
        "load 1 hello/1.0",
        "load 2 hello/1.0 1 - - - -",
        f"load 1 hello/1.0 1 - {'x' * 9000} {TODAY} c1",
    )
    log.write_bytes(b"\xff\0\n" + "".join([good, *(f"c1 envmgr: {each}\n" for each in forged), good[:-1]]).encode())
    done = box.ok("usage", str(log))
    left = "left out: 5 lines of entries that are not published, or without sense"
    assert done.stdout.splitlines()[-2:] == [f"2 loads from {TODAY} to {TODAY}", left]
    assert "evil" not in done.stdout


def test_text_without_a_load_and_a_file_that_cannot_be_read(box: Sandbox, tmp_path: Path) -> None:
    assert box.ok("usage", "/dev/null").stdout.splitlines()[-1] == "no load is in this text"
    done = box.run("usage", str(tmp_path / "none"))
    first, last = os.openpty()
    said = "error[usage-unread]: name the files whose loads to count, or give their text\n"
    assert typed(box, stdin=last).stderr == f"{said}\n{HINT}\n"
    os.close(first)
    os.close(last)
    why = f"[Errno 2] No such file or directory: '{tmp_path}/none'"
    assert (done.code, done.stderr) == (2, f"error[usage-unread]: cannot read {tmp_path}/none\n  {why}\n\n{HINT}\n")
