"""Where no site.yaml is found, the verbs that work with the embedded site say so, and what scripts read stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envmgr.catalog.site import SYSTEM_FILE

pytestmark = pytest.mark.skipif(SYSTEM_FILE.exists(), reason=f"{SYSTEM_FILE} is this machine's")


def run(folder: Path, *argv: str) -> str:
    """What it says on stderr about the site."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "envmgr", *argv], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    return "".join(line for line in done.stderr.splitlines(keepends=True) if "site" in line)


def test_embedded_site_is_told_once_beside_text_alone(tmp_path: Path) -> None:
    prefix = "/opt/envmgr" if os.geteuid() == 0 else tmp_path / "envmgr"
    told = f"no site.yaml found: this is the embedded site, prefix {prefix} (`envmgr init` makes one)\n"
    reading = ["history"], ["list"], ["list", "none/1.0"], ["diff"], ["verify"], ["check"]
    for argv in (*reading, ["gc", "--dry-run"], ["build", "none/1.0", "--dry-run"]):
        assert run(tmp_path, *argv) == told, argv
    for quiet in (
        ["history", "--format", "json"],
        ["gc", "--dry-run", "--format", "json"],
        ["gc", "--help"],
        ["shell-init", "sh"],
    ):
        assert run(tmp_path, *quiet) == "", quiet
    (tmp_path / "site.yaml").write_text(f"schema: 1\nprefix: {tmp_path / 'sw'}\n")
    assert run(tmp_path, "gc", "--dry-run") == ""
