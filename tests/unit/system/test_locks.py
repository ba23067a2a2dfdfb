"""Locks between hosts: where a file system keeps flock to each client, hosts wait for each other by a mark with a pulse.

The other host is this one with another name: its flock is not seen, as if it had gone to no server.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from envmgr.errors import EnvmgrError
from envmgr.system import locks, pulse
from envmgr.system.locks import file_lock, mark_of, try_file_lock
from envmgr.system.processes import this_process
from envmgr.system.pulse import renew_listing


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "publish.lock"


def mark(lock: Path, **fields: object) -> Path:
    """What a run writes that holds the lock: this process on another host, unless `fields` say otherwise."""
    row = {**asdict(this_process()), "host": "elsewhere", "since": "2026-11-24T00:00:00Z", "number": 1, **fields}
    mark_of(lock).write_text(json.dumps(row))
    return mark_of(lock)


@contextmanager
def beat(path: Path) -> Iterator[None]:
    """Touched as by a run that lives."""
    ended = threading.Event()

    def touch() -> None:
        while not ended.wait(0.05):
            os.utime(path)

    thread = threading.Thread(target=touch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_lock_has_a_mark_as_long_as_it_is_held(lock: Path) -> None:
    with file_lock(lock) as held:
        assert json.loads(mark_of(lock).read_text())["pid"] == os.getpid()
        held.require()
    assert sorted(lock.parent.iterdir()) == [lock]


def test_a_run_of_another_host_is_waited_for_though_flock_was_had(lock: Path) -> None:
    told: list[str] = []
    theirs = mark(lock)
    with try_file_lock(lock) as had:
        assert not had

    def check() -> None:
        if len(told) == 1:
            told.append("looked")
            theirs.unlink()

    with file_lock(lock, on_wait=told.append, check=check) as held:
        held.require()
    assert told == [f"process {os.getpid()} on elsewhere since 2026-11-24T00:00:00Z", "looked"]


@pytest.mark.parametrize("fields", [{"host": this_process().host, "ticks": 1}, {"host": this_process().host, "pid": 0}])
def test_mark_of_a_dead_run_of_this_host_stops_nobody(lock: Path, fields: dict[str, object]) -> None:
    for _ in range(2):
        mark(lock, **fields)
        with try_file_lock(lock) as had:
            assert had
        mark(lock, **fields)
        with file_lock(lock, on_wait=lambda _: None):
            pass
    assert sorted(lock.parent.iterdir()) == [lock]


@pytest.mark.parametrize("text", [None, "", "{", "[]"])
def test_mark_of_another_host_without_a_pulse_is_taken_away(
    lock: Path, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_WATCH", 0.1)
    theirs = mark(lock)
    if text is not None:
        theirs.write_text(text)
    os.utime(theirs, (1, 1))
    with file_lock(lock) as held:
        held.require()
    assert sorted(lock.parent.iterdir()) == [lock]


def test_mark_whose_run_was_silent_with_its_server_is_left_when_it_beats_again(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that stood still for two minutes: nobody could touch anything, and nobody was dead."""
    monkeypatch.setattr(pulse, "_DEAD", -1.0)  # each touch is long ago
    with beat(mark(lock)), try_file_lock(lock) as had:
        assert not had


def test_reboot_of_a_namesake_does_not_end_a_run(lock: Path) -> None:
    """Two hosts may have one name, `localhost`: only the same boot of it is this one."""
    mark(lock, host=this_process().host, boot="another")
    with try_file_lock(lock) as had:
        assert not had


def test_run_whose_lock_was_taken_as_it_stood_still_is_told_and_takes_nothing_back(lock: Path) -> None:
    with file_lock(lock) as held:
        mark_of(lock).unlink()
        theirs = mark(lock)
        before = theirs.stat().st_mtime_ns
        with pytest.raises(EnvmgrError, match=r"(?s)error\[lock-lost\].*another one took .*elsewhere"):
            held.require()
        assert not held.still()
        threading.Event().wait(2 * pulse._BEAT)
        assert theirs.stat().st_mtime_ns == before  # it gives no pulse to what is not its own
    assert theirs.exists()


def test_mark_made_as_a_dead_one_was_taken_away_is_put_back(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host is quicker: between our look and our rename it takes the dead one away, and makes its own."""
    dead = mark(lock, number=1)
    row = locks._read_mark(dead)
    rename = Path.rename

    def late(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        mark(lock, number=2)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    locks._take_away(dead, row)
    assert json.loads(mark_of(lock).read_text())["number"] == 2
    assert [*lock.parent.iterdir()] == [mark_of(lock)]


def test_of_many_that_want_a_dead_ones_lock_one_has_it_at_a_time(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with a flock of its own, as on clients that share none."""
    mark(lock, host=this_process().host, ticks=1)
    inside, most, done = [0], [0], [0]

    def work() -> None:
        for _ in range(5):
            with file_lock(lock):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1
            done[0] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    monkeypatch.setattr(locks, "_try_lock", lambda *_: True)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [20]
    assert most == [1]


def test_lock_is_had_on_a_full_disk(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gc` frees space, and must have it for that."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pulse, "write_new", full)
    with file_lock(lock) as held:
        held.require()
    assert sorted(lock.parent.iterdir()) == [lock]


def test_what_a_killed_run_left_of_a_renewed_listing_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / ".renew.killed.0.0.tmp").touch()
    (tmp_path / ".other.1.2.tmp").touch()
    renew_listing(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".other.1.2.tmp"]
    renew_listing(tmp_path / "none")  # says nothing
