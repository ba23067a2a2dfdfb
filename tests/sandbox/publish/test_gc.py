"""`gc` takes nothing that is in use, and tells what it kept: processes of this machine, nodes that cannot be asked, who may ask."""

from __future__ import annotations

import json
import os
import pwd
import sys
from typing import Any

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.waiting_programs import MAPPED, standing

REFUSED = """\
error[gc-keeps-no-days]: policies.keep_days is 0, and the site names nodes
  a shell or a job that cannot be seen on them would lose its modules

hint: `keep_days` longer than the longest session; or `envmgr gc --now`, which removes what nobody was seen to use
"""
ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    """Two generations, of which policy keeps the second alone; each has an install of its own."""
    sandbox.policies |= {"keep_generations": 1, "keep_days": 0}
    sandbox.write_site()
    for specs in (["hello-prefix"], ["hello-prefix", "shared"]):
        sandbox.recipe("hello/1.0", specs)
        sandbox.ok("lock", "hello/1.0")
        sandbox.ok("build", "hello/1.0")
    return sandbox


def first(box: Sandbox) -> str:
    (entry,) = json.loads((box.prefix / "generations/0001/generation.json").read_text())["entries"].values()
    return str(entry["path"])


def kept(data: dict[str, Any]) -> dict[str, str]:
    return {row["path"]: row["reason"] for row in data["kept"]}


def test_generation_of_an_idle_shell_and_an_install_that_is_mapped_stay_until_they_end(box: Sandbox) -> None:
    """The shell tells nobody of its pin: it has no child that has it. The install's generation goes before the program ends."""
    install = first(box)
    file = next(each for each in (box.prefix / install).rglob("*") if each.is_file() and each.stat().st_size)
    box.ok("rollback", "1")
    init = box.ok("shell-init", "bash").stdout
    with standing("bash", "--norc", "--noprofile", script=f"{init}\necho $ENVMGR_PIN\n") as shell:
        box.ok("rollback", "2")
        told = box.ok("gc", "--dry-run", "--format", "json").data
        done = box.ok("gc", "--format", "json").data
        assert {**told, "dry_run": False, "log": done["log"]} == done
        assert (done["generations"], done["installs"], done["kept_more"], done["kept_all"]) == ([], [], 0, [])
        reason = f"bash ({shell.pid}) of {ME} on this host"
        assert kept(done) == {"generations/0001": reason}
        assert "this host" in done["asked"]
        assert box.ok("gc").stdout == f"kept generations/0001: {reason}\nnothing to remove\n"
    with standing(sys.executable, "-c", MAPPED, str(file)) as program:
        done = box.ok("gc", "--format", "json").data
        assert (done["generations"], done["installs"]) == ([1], [])
        assert list(kept(done)) == [install]
        assert f" ({program.pid}) of {ME} on this host" in kept(done)[install]
        assert file.is_file()
    done = box.ok("gc", "--format", "json").data
    assert (done["installs"], done["kept"]) == ([install], [])


def test_flip_that_the_history_lacks_counts_as_just_now(box: Sandbox) -> None:
    """A kill between the rename and the history: the generation that was left an instant ago was made long before."""
    box.policies |= {"keep_days": 30}
    box.write_site()
    history = box.prefix / "var/history.jsonl"
    line = json.loads(history.read_text().splitlines()[0]) | {"time": "2020-01-01T00:00:00Z"}
    history.write_text(json.dumps(line) + "\n")
    for flips in box.prefix.glob("flips/*"):
        flips.unlink()
    record = box.prefix / "generations/0001/generation.json"
    record.chmod(0o644)
    record.write_text(json.dumps(json.loads(record.read_text()) | {"created": "2020-01-01T00:00:00Z"}))
    assert box.ok("gc", "--format", "json").data["generations"] == []


@pytest.mark.always
def test_what_keeps_a_user_from_holding_is_removed_and_told(box: Sandbox) -> None:
    taken = box.prefix / "var/users/54321"
    told = [f"{taken} of {ME}: no hold"]
    taken.mkdir()
    assert box.ok("gc", "--dry-run", "--format", "json").data["users"] == [f"would remove {told[0]}"]
    assert f"removed {told[0]}\n" in box.ok("gc").stdout
    assert not taken.exists()


def test_a_process_that_names_any_number_of_paths_keeps_nothing(box: Sandbox) -> None:
    made_up = ":".join(f"{box.prefix}/generations/{number}" for number in range(10_000, 11_000))
    with standing("cat", script="\n", **{f"PATHS{number}": made_up for number in range(16)}):
        done = box.ok("gc", "--format", "json").data
    assert (done["generations"], done["kept"], done["kept_all"], done["users"]) == ([1], [], [], [])


def test_no_days_are_refused_where_nodes_are_named_and_a_node_that_is_silent_keeps_all(box: Sandbox) -> None:
    box.settings |= {"groups": {"all": {"nodes": "no[1-2].invalid"}}, "transport": {"connect_timeout": 5}}
    box.write_site()
    for argv in (["gc"], ["gc", "--dry-run"]):
        refused = box.run(*argv)
        assert (refused.code, refused.stderr) == (2, REFUSED)
    done = box.ok("gc", "--now", "--format", "json").data
    assert (done["generations"], done["installs"], done["kept"]) == ([], [], [])
    (reason,) = done["kept_all"]
    assert reason.startswith("no[1-2].invalid: unreachable: ")
    assert "kept all that may be in use: no[1-2].invalid: unreachable: " in box.ok("gc", "--now", "--dry-run").stdout
    box.policies |= {"keep_days": 60}
    box.write_site()
    assert box.ok("gc", "--format", "json").data["asked"] == []  # policy keeps both: nobody need be asked
    del box.settings["groups"]
    box.write_site()
    assert box.ok("gc", "--now", "--format", "json").data["generations"] == [1]
