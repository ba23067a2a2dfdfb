"""`envmgr usage` and `gc --unused-for`, with real Lmod and a real rsyslogd on a /dev/log of its own."""

from __future__ import annotations

import gzip
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from envmgr.modules.lmod import find_lmod
from envmgr.system.run import clean_env
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.syslog_scene import Syslog, syslog

LMOD = find_lmod(None, os.environ)
HOST = os.uname().nodename
TODAY = datetime.now(UTC).date()


@dataclass
class LoggedSandbox(Sandbox):
    """A sandbox whose commands and shells have the /dev/log of the scene."""

    scene: Syslog | None = None

    def command(self, *argv: str) -> list[str]:
        assert self.scene is not None
        return self.scene.enter(sys.executable, "-m", "envmgr", *argv)

    def load(self, script: str, generation: str = "current", **env: str) -> subprocess.CompletedProcess[str]:
        assert self.scene is not None
        modules = (self.prefix / generation).resolve() / "modules"
        given = clean_env(MODULEPATH=str(modules), HOME=str(self.root), **env)
        return self.scene.run(
            "bash", "--noprofile", "--norc", "-c", f". {LMOD.init_script('bash')}\n{script}", env=given
        )

    def use(self, *argv: str) -> dict[str, Any]:
        return self.ok("usage", *argv, "--format", "json").data

    def say(self, *texts: str) -> None:
        """What anybody may send to a syslog."""
        assert self.scene is not None
        for text in texts:
            self.scene.run("logger", "-t", "envmgr", "--", text)

    def change_state(self, **ago: int) -> None:
        """Let the readings of the past have been so many days earlier; `days` for all of them."""
        path = self.prefix / "var/usage/usage.json"
        data = json.loads(path.read_text())
        for log in data["nodes"].values():
            log["since"] = (datetime.fromisoformat(log["since"]) - timedelta(days=ago["days"])).isoformat()
        for entry in data["entries"].values():
            entry["since"] = (TODAY - timedelta(days=ago["days"])).isoformat()
            entry["days"] = {
                (datetime.fromisoformat(day).date() - timedelta(days=ago["days"])).isoformat(): loads
                for day, loads in entry["days"].items()
            }
        path.write_text(json.dumps(data))


@pytest.fixture
def box(tmp_path: Path, channel: Channel) -> Iterator[LoggedSandbox]:
    with syslog(tmp_path / "scene") as scene:
        made = LoggedSandbox(tmp_path, str(channel.folder), scene=scene)
        made.settings |= {"usage": {"on": True, "logs": [f"{scene.log}*"]}}
        made.write_site()
        made.recipe("zlib/1.3", ["hello-prefix"])
        made.recipe("hello/1.0", ["hello-prefix"], depends=["zlib/1.3"])
        made.recipe("old/1.0", ["hello-prefix"], deprecated={"date": "2030-01-01", "message": "use hello/1.0"})
        entries = ("zlib/1.3", "hello/1.0", "old/1.0")
        made.ok("lock", *entries)
        scene.start()
        made.ok("build", *entries)
        yield made
        made.clear()


def counts(data: dict[str, Any]) -> dict[str, tuple[int, dict[str, int], int]]:
    return {row["entry"]: (row["own"], row["by"], row["jobs"]) for row in data["entries"]}


NOTHING = {"zlib/1.3": (0, {}, 0), "hello/1.0": (0, {}, 0), "old/1.0": (0, {}, 0)}


@pytest.mark.always
def test_each_load_is_counted_once_and_a_log_that_is_read_again_counts_nothing(box: LoggedSandbox) -> None:
    """The tests of `build` are no use. A rotated log is read to where the last reading stopped."""
    assert box.scene is not None
    assert counts(box.use()) == NOTHING
    assert (
        box.load("module load hello; module show old; module avail; module save x; module unload hello").returncode == 0
    )
    box.load("module load hello", SLURM_JOB_ID="7")
    expected = {"zlib/1.3": (0, {"hello/1.0": 2}, 1), "hello/1.0": (2, {}, 1), "old/1.0": (0, {}, 0)}
    assert counts(box.use()) == expected
    assert counts(box.use()) == expected
    box.load("module load old")
    box.scene.stop()
    box.scene.log.rename(f"{box.scene.log}.1")
    box.scene.start()
    box.load("module load old")
    box.scene.stop()
    first, second = Path(f"{box.scene.log}.1"), Path(f"{box.scene.log}.2.gz")
    second.write_bytes(gzip.compress(first.read_bytes()))
    os.utime(second, (first.stat().st_mtime,) * 2)
    box.scene.log.rename(first)
    box.scene.start()
    box.load("module load old")
    data = box.use()
    assert counts(data) == {**expected, "old/1.0": (3, {}, 0)}
    assert (data["unread"], data["off"], data["damaged"], data["others"]) == ([], "", 0, 0)
    assert counts(box.use("--recorded")) == counts(data)
    today = TODAY.isoformat()
    rows = [line.split() for line in box.ok("usage").stdout.splitlines()]
    assert rows[1] == ["hello/1.0", "2", "0", "1", today]
    assert rows[3] == ["zlib/1.3", "0", "2", "1", today, "by", "hello/1.0"]


def test_what_is_not_read_is_said_and_ends_with_3(box: LoggedSandbox) -> None:
    assert box.scene is not None
    known = box.use()["known"]
    box.load("module load old")
    box.scene.stop()
    done = box.run("usage")
    assert done.code == 3
    assert f"not read: {HOST}: its syslog takes no message: there is no socket /dev/log\n" in done.stdout
    box.scene.start()
    data = box.use()
    assert (counts(data)["old/1.0"], data["known"]) == ((1, {}, 0), known)
    box.scene.freeze()
    done = box.run("usage")
    assert (done.code, f"not read: {HOST}: its mark did not arrive in the log" in done.stdout) == (3, True)
    box.scene.freeze(again=True)
    # A log that was lost with the earlier mark: what it had is not known, and all is known only from now on.
    box.scene.stop()
    box.scene.log.unlink()
    box.scene.start()
    data = box.use()
    assert (counts(data)["old/1.0"], data["known"] > known) == ((1, {}, 0), True)


def test_lines_that_anybody_can_send_break_nothing(box: LoggedSandbox) -> None:
    """A figure can be forged; a name that no entry has, a day that is far, a mark that is not ours count nothing."""
    assert box.scene is not None
    box.use()
    state = json.loads((box.prefix / "var/usage/usage.json").read_text())
    mark = state["nodes"][HOST]["mark"]
    day = TODAY.isoformat()
    box.load("module load old")
    box.say(
        f"load 1 hello/1.0 1 - - {day} {HOST}",
        f"load 1 evil/$(touch${{IFS}}/tmp/x) 1 - - {day} {HOST}",
        f"load 1 hello/1.0 1 - - 1970-01-01 {HOST}",
        f"load 1 hello/1.0 1 - - {day} other",
        "load 1 hello/1.0",
        "load 2 hello/1.0 1 - - - -",
        f"mark 1 {HOST} {mark}",
        f"mark 1 {HOST} 0123456789abcdef",
        "load host c1 mark mark \x1b[31m",
        f"load 1 hello/1.0 1 - {'x' * 5000} {day} {HOST}",
    )
    box.load("module load old")
    data = box.use()
    assert counts(data) == {"zlib/1.3": (0, {}, 0), "hello/1.0": (1, {}, 0), "old/1.0": (2, {}, 0)}
    assert data["others"] == 2
    assert data["damaged"] >= 4


def test_uids_are_kept_only_where_the_site_says_so(box: LoggedSandbox) -> None:
    assert box.scene is not None
    box.scene.stop()
    box.scene.start(uid=True)
    me = pwd.getpwuid(os.geteuid()).pw_name
    box.load("module load old")
    assert {tuple(row["users"]) for row in box.use()["entries"]} == {()}
    box.settings["usage"]["uids"] = True
    box.write_site()
    box.say(f"uid=1 envmgr: load 1 old/1.0 1 - - {TODAY.isoformat()} {HOST}")
    box.load("module load old")
    data = box.use("--deprecated")
    assert [(row["entry"], row["users"], row["deprecated"]) for row in data["entries"]] == [
        ("old/1.0", [me], "until 2030-01-01: use hello/1.0")
    ]
    assert (box.prefix / "var/usage/usage.json").stat().st_mode & 0o777 == 0o600


def test_gc_lets_an_entry_go_that_nobody_loaded_and_nothing_while_that_is_not_known(box: LoggedSandbox) -> None:
    assert box.scene is not None
    box.load("module load hello")
    refused = box.run("gc", "--unused-for", "180d")
    assert refused.code == 3
    assert (
        "error[usage-unknown]: what was loaded in the last 180 days is not known, and nothing is removed\n"
        "  all nodes are known since "
    ) in refused.stderr
    assert "hint: `envmgr usage` reads the logs" in refused.stderr
    box.change_state(days=200)
    box.load("module load hello")
    box.scene.freeze()
    assert "its mark did not arrive" in box.run("gc", "--unused-for", "180d").stderr
    box.scene.freeze(again=True)
    told = box.ok("gc", "--unused-for", "180d", "--dry-run", "--format", "json").data
    assert (told["entries"], box.current()) == (["old/1.0"], 1)
    done = box.ok("gc", "--unused-for", "180d")
    assert done.stdout.splitlines()[0] == "published a generation without old/1.0"
    assert box.current() == 2
    record = json.loads((box.prefix / "generations/0002/generation.json").read_text())
    assert sorted(record["entries"]) == ["hello/1.0", "zlib/1.3"]
    assert box.ok("gc", "--unused-for", "180d", "--format", "json").data["entries"] == []
    box.settings["usage"] = False
    box.write_site()
    assert "hint: with `usage: true` in site.yaml, loads count" in box.run("gc", "--unused-for", "180d").stderr


def test_gc_keeps_defaults_and_what_others_depend_on(box: LoggedSandbox) -> None:
    """hello is a default here, and nobody loads it; it depends on zlib."""
    box.recipe("hello/1.0", ["hello-prefix"], depends=["zlib/1.3"], default=True)
    box.ok("lock", "hello/1.0")
    box.ok("build", "hello/1.0")
    box.use()
    box.change_state(days=200)
    data = box.ok("gc", "--unused-for", "180d", "--dry-run", "--format", "json").data
    assert data["entries"] == ["old/1.0"]
    kept = {row["path"]: row["reason"] for row in data["kept"]}
    assert kept == {
        "hello/1.0": "nobody loaded it for 180 days; it is the default of its name",
        "zlib/1.3": "nobody loaded it for 180 days; hello/1.0 depends on it",
    }


def test_without_usage_nothing_is_sent_and_the_verb_says_what_to_do(box: LoggedSandbox) -> None:
    assert box.scene is not None
    box.settings["usage"] = False
    box.write_site()
    box.ok("publish")
    assert box.current() == 2
    box.load("module load hello")
    assert box.scene.lines() == []
    assert box.ok("usage").stdout.splitlines()[-1] == "loads are not recorded now: site.yaml has no `usage: true`"
    box.settings["usage"] = {"on": True, "logs": [f"{box.scene.log}*"]}
    box.write_site()
    said = box.run("usage")
    assert "the modules of generation 2 are without it: `envmgr publish` makes them again" in said.stdout
    box.ok("publish")
    box.load("module load hello")
    assert counts(box.use())["hello/1.0"] == (1, {}, 0)
