"""The job table: whose row it is, whether its build lives, and what a dead one left running."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envmgr.catalog.names import Entry
from envmgr.store.dead_builds import end_processes_in
from envmgr.store.jobtable import beats, left_row, lives_perhaps, recorded, row_path
from envmgr.store.prefix import Install, Prefix
from envmgr.system.processes import runs_here, this_process
from tests.helpers.waiting import DEADLINE, HANGS, soon


@pytest.fixture
def install(tmp_path: Path) -> Install:
    (tmp_path / "var/jobs").mkdir(parents=True)
    return Install(Prefix(tmp_path), Entry("toy", "1.0"), "0123456789abcdef" * 4)


def test_row_is_there_as_long_as_the_build(install: Install, tmp_path: Path) -> None:
    assert left_row(install) is None
    with recorded(install, tmp_path / "work"):
        row = left_row(install)
        assert row is not None
        assert (row.install, row.pid, row.work) == ("store/toy/1.0-01234567", os.getpid(), str(tmp_path / "work"))
        assert runs_here(row)
    assert left_row(install) is None
    assert not row_path(install).exists()


def test_row_goes_when_the_build_fails(install: Install, tmp_path: Path) -> None:
    with pytest.raises(KeyError), recorded(install, tmp_path):
        raise KeyError
    assert not row_path(install).exists()


def test_build_is_dead_when_its_number_is_another_process_s_or_its_host_is_not_this_one(
    install: Install, tmp_path: Path
) -> None:
    with recorded(install, tmp_path):
        row = left_row(install)
    assert row is not None
    for change in ({"ticks": row.ticks + 1}, {"boot": "another"}, {"host": "elsewhere"}, {"pid": 2**22 + 1}):
        assert not runs_here(dataclasses.replace(row, **change)), change


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1, "pid": 1}', "null"])
def test_row_that_cannot_be_read_is_none(install: Install, text: str) -> None:
    row_path(install).write_text(text)
    assert left_row(install) is None


def test_processes_are_known_by_their_folder_or_their_environment(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "work-2"
    for folder in (work / "deep", other):
        folder.mkdir(parents=True)

    def sleeper(cwd: Path, **env: str) -> subprocess.Popen[bytes]:
        env = {"PATH": "/usr/bin:/bin", **env}
        started.append(subprocess.Popen(["sleep", str(HANGS)], cwd=cwd, env=env, start_new_session=True))
        return started[-1]

    started: list[subprocess.Popen[bytes]] = []
    try:
        by_folder = sleeper(work / "deep")
        by_environment = sleeper(Path("/"), ENVMGR_ANY_FILE=f"{work}/events/steps.jsonl")
        beside = [sleeper(other), sleeper(Path("/"), ENVMGR_ANY_FILE=f"{other}/events/steps.jsonl")]
        assert end_processes_in(str(work)) == 2
        assert (by_folder.wait(DEADLINE), by_environment.wait(DEADLINE)) == (-9, -9)
        assert [p.poll() for p in beside] == [None, None]
        assert end_processes_in(str(work)) == 0
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_row_of_a_living_build_is_touched_and_a_dead_one_is_not(
    install: Install, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("envmgr.store.jobtable._WATCH", DEADLINE)
    assert not beats(install)
    with recorded(install, tmp_path):
        assert beats(install)
        text = row_path(install).read_text()
    monkeypatch.setattr("envmgr.store.jobtable._WATCH", 1.0)
    row_path(install).write_text(text)  # as a kill leaves it
    assert lives_perhaps(install)
    assert not beats(install)
    os.utime(row_path(install), (1, 1))
    assert not lives_perhaps(install)
    assert not beats(install)


def test_process_that_was_killed_and_not_yet_collected_does_not_run() -> None:
    """In a container the first process may never collect it: what it held would stay held."""
    with subprocess.Popen(["sleep", "1299"]) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        ticks = int(stat.read_text().rpartition(")")[2].split()[19])
        row = dataclasses.replace(this_process(), pid=process.pid, ticks=ticks)
        assert runs_here(row)
        process.kill()
        assert soon(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
        assert not runs_here(row)
