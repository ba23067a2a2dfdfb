"""What a run of another host makes is none's leftover, where its flock is not seen here."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from envmgr.builds.prepare import clean_leftovers
from envmgr.report import SilentReporter
from envmgr.store.prefix import Install, Prefix
from envmgr.system import locks
from envmgr.system.locks import mark_of
from envmgr.system.processes import this_process

LEFT = ["one/.again-1.0-01234567", "one/.staging-1.0-01234567", "one/1.0-01234567"]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Half an install: what was made again, a staging folder, and a tree without a manifest."""
    install = Prefix(tmp_path).install_at("store/one/1.0-01234567")
    install.again.mkdir(parents=True)
    install.staging.mkdir()
    install.path.mkdir()
    install.lock.parent.mkdir(parents=True)
    return install


def mark(install: Install, **fields: object) -> Path:
    path = mark_of(install.lock)
    path.write_text(json.dumps({**asdict(this_process()), "host": "elsewhere", "since": "x", "number": 1, **fields}))
    return path


def test_what_another_host_builds_stays(install: Install) -> None:
    theirs = mark(install)
    assert clean_leftovers(install.prefix, SilentReporter()) == []
    assert install.staging.is_dir()
    assert install.path.is_dir()
    assert theirs.exists()


def test_what_a_dead_run_of_another_host_left_goes_with_its_mark(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_WATCH", 0.1)
    theirs, done = mark(install), install.lock.with_name("store-two-1.0-89abcdef.lock.holder")
    done.write_text(theirs.read_text())
    for path in (theirs, done):
        os.utime(path, (1, 1))
    assert clean_leftovers(install.prefix, SilentReporter()) == LEFT
    assert [*install.prefix.locks.glob("*.holder")] == []


def test_mark_of_a_killed_run_of_this_host_goes_at_once(install: Install) -> None:
    theirs = mark(install, host=this_process().host, ticks=1)
    assert clean_leftovers(install.prefix, SilentReporter()) == LEFT
    assert not theirs.exists()
