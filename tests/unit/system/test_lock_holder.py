"""A lock that a child holds for this process."""

from __future__ import annotations

from pathlib import Path

from envmgr.system.lock_holder import held_by
from envmgr.system.locks import mark_of

BOTH = ["/bin/sh", "-c", 'printf "process 7\\nheld\\n"; cat']


def test_who_holds_it_after_another_does_not_wait(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        with held_by([], tmp_path / "a.lock", on_wait=said.append, check=lambda: None):
            assert mark_of(tmp_path / "a.lock").exists()
        assert not mark_of(tmp_path / "a.lock").exists()
    assert said == []


def test_two_lines_at_once_are_both_read(tmp_path: Path) -> None:
    polls: list[int] = []

    def check() -> None:
        polls.append(1)
        assert len(polls) < 20, "`held` was not read"

    said: list[str] = []
    with held_by(BOTH, tmp_path / "a.lock", on_wait=said.append, check=check):
        assert said == ["process 7"]
