"""Mounts of a command's own: nobody else sees them, and the command cannot make more of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envmgr.system import sandbox
from envmgr.system.run import Runner
from envmgr.system.sandbox import with_own_mounts


def test_mount_is_the_command_s_own(tmp_path: Path) -> None:
    words, said = with_own_mounts(Runner())
    assert (words is not None, said) == (True, ())
    assert words is not None
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one/file").touch()
    script = f"mount --rbind {tmp_path}/one {tmp_path}/two && exec setpriv --inh-caps=-all --ambient-caps=-all ls {tmp_path}/two"
    done = subprocess.run([*words, "/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "file\n"
    assert list((tmp_path / "two").iterdir()) == []


def test_host_that_gives_no_mounts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setattr(
        sandbox, "_OF_MOUNTS", ("/bin/sh", "-c", "echo unshare failed: Operation not permitted >&2; exit 1")
    )
    words, said = with_own_mounts(Runner())
    assert (words, said[-1]) == (None, "unshare failed: Operation not permitted")
