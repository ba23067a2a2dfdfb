"""The file of an answer, by the command line: errors, wrong options, files that cannot be written."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from envmgr.cli.render import write_report
from envmgr.errors import EnvmgrError
from tests.helpers.exposition import WELL, of, parse, text
from tests.helpers.sandbox import Sandbox
from tests.helpers.waiting import DEADLINE, wait_for


def test_folder_of_the_output_is_not_made(sandbox: Sandbox) -> None:
    path = sandbox.root / "textfile/envmgr.prom"
    done = sandbox.run("audit", "--nodes", "c1", "--format", "prometheus", "--output", str(path))
    assert (done.code, done.stdout, done.stderr) == (
        3,
        "",
        f"error[output-failed]: there is no folder {path.parent}\n  --output {path}\n\nhint: make it first\n",
    )
    assert not path.parent.exists()
    with pytest.raises(EnvmgrError, match="there is no folder"):
        write_report(WELL, "json", path)
    assert not path.parent.exists()


def test_a_site_that_cannot_be_read_turns_the_old_green_file_red(sandbox: Sandbox) -> None:
    path = sandbox.root / "envmgr.prom"
    path.write_text(text(WELL, "prometheus"))
    (sandbox.root / "site.yaml").write_text("prefix: [")
    before = time.time()
    done = sandbox.run("audit", "--format", "prometheus", "--output", "envmgr.prom")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("error[")
    series = parse(path.read_text())
    assert of(series, "envmgr_audit_success") == 0
    when = of(series, "envmgr_audit_timestamp_seconds")
    assert when is not None
    assert before - 1 < when < time.time() + 1
    assert series.keys() == {"envmgr_audit_timestamp_seconds", "envmgr_audit_success", "envmgr_audit_error_info"}


def test_groups_that_cannot_be_read_turn_the_file_red_and_exit_3(sandbox: Sandbox) -> None:
    sandbox.settings["groups"] = {"gpu": {"slurm": "gpu"}}
    sandbox.write_site()
    sinfo = sandbox.root / "bin/sinfo"
    sinfo.parent.mkdir()
    sinfo.write_text("#!/bin/sh\necho 'slurm_load_partitions: Unable to contact slurm controller' >&2\nexit 1\n")
    sinfo.chmod(0o755)
    path = f"{sinfo.parent}:{os.environ['PATH']}"
    done = sandbox.run("audit", "--format", "prometheus", "--output", "x.prom", PATH=path)
    assert done.code == 3
    assert done.stderr.startswith("error[groups-unreadable]: ")
    assert (
        of(parse((sandbox.root / "x.prom").read_text()), "envmgr_audit_error_info", reference="groups-unreadable") == 1
    )


def test_an_error_as_json_goes_to_the_file_and_in_words_to_stderr(sandbox: Sandbox) -> None:
    done = sandbox.run("audit", "--format", "json", "--output", "x.json")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("error[no-nodes]: ")
    assert json.loads((sandbox.root / "x.json").read_text())["reference"] == "no-nodes"


def test_an_error_leaves_a_table_alone(sandbox: Sandbox) -> None:
    (sandbox.root / "x.txt").write_text("old")
    assert sandbox.run("audit", "--output", "x.txt").code == 2
    assert (sandbox.root / "x.txt").read_text() == "old"


@pytest.mark.parametrize("options", [["--oops"], ["--node-timeout", "0"], ["--via", "pigeon"], ["--nodes"]])
def test_an_option_that_is_wrong_does_not_touch_the_file(sandbox: Sandbox, options: list[str]) -> None:
    (sandbox.root / "x.prom").write_text("old")
    done = sandbox.run("audit", "--format", "prometheus", "--output", "x.prom", *options)
    assert done.code == 2
    assert (sandbox.root / "x.prom").read_text() == "old"


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "dangling link", "device"])
def test_only_a_plain_file_is_replaced(sandbox: Sandbox, kind: str) -> None:
    """As root, `--output /dev/null` would else make a file of it."""
    path = sandbox.root / "there"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/null")
    else:
        path.symlink_to("site.yaml" if kind == "link" else "nowhere")
    before = path.lstat()
    done = sandbox.run("audit", "--format", "prometheus", "--output", str(path))
    assert done.code == 2
    assert f"{path} is there, and is not a plain file." in " ".join(done.stderr.replace("│", " ").split())
    assert path.lstat().st_ino == before.st_ino


def test_a_file_that_cannot_be_written_is_told_beside_what_happened(sandbox: Sandbox) -> None:
    done = sandbox.run("audit", "--format", "prometheus", "--output", "x" * 300)
    assert done.code == 3
    assert re.findall(r"^error\[(.+?)\]", done.stderr, re.MULTILINE) == ["no-nodes", "path-unusable"]


def test_a_file_that_cannot_be_written_is_an_error_and_the_old_one_stays(sandbox: Sandbox) -> None:
    (sandbox.root / "file").write_text("old")
    done = sandbox.run("audit", "--explain", "mount", "--output", "file/x.txt")
    assert done.code == 3
    assert done.stderr.startswith("error[path-unusable]: ")
    assert (sandbox.root / "file").read_text() == "old"


def test_sigterm_leaves_the_file_and_exits_130(sandbox: Sandbox) -> None:
    """A reboot, or systemd's time-out: the old numbers stay, and grow stale."""
    ssh = sandbox.root / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text(f"#!/bin/sh\necho >{sandbox.root}/began\nexec sleep 1200\n")
    ssh.chmod(0o755)
    (sandbox.root / "x.prom").write_text("old")
    process = sandbox.start(
        "audit",
        "--nodes",
        "c1",
        "--format",
        "prometheus",
        "--output",
        "x.prom",
        PATH=f"{ssh.parent}:{os.environ['PATH']}",
    )
    wait_for((sandbox.root / "began").exists, what="the first question")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=DEADLINE) == 130
    assert "error[interrupted]: " in process.communicate()[1]
    assert (sandbox.root / "x.prom").read_text() == "old"
