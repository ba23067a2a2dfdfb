"""A worker's last event is its last, and counts whatever follows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envmgr.errors import EnvmgrError
from envmgr.report import SilentReporter
from envmgr.system.child import Event, call_worker
from envmgr.system.run import Completed, Runner

LINKED = {"event": "linked", "name": "hello"}
STALLED = {"event": "error", "kind": "Stalled", "message": "no byte for 60 s"}


class Scripted(Runner):
    """In the worker's place a program that writes these events, and ends with `status`."""

    def __init__(self, *events: Mapping[str, Any], status: int = 0) -> None:
        super().__init__()
        text = "".join(json.dumps(event) + "\n" for event in events)
        self._argv = ["sh", "-c", 'printf %s "$0"; exit "$1"', text, str(status)]

    def stream(self, argv: object, **options: Any) -> Completed:  # noqa: ARG002
        return super().stream(self._argv, **options)


def failure(event: Event, request: Mapping[str, Any]) -> EnvmgrError:
    return EnvmgrError("told", event["message"])


def call(runner: Runner, tmp_path: Path, module: str = "none", **request: Any) -> tuple[Event, list[str]]:
    """What the call gives, and the kinds of the events that it passed on."""
    seen: list[str] = []
    end = call_worker(
        module,
        {"cache": str(tmp_path), **request},
        runner,
        SilentReporter(),
        failure=failure,
        on_event=lambda event: seen.append(event["event"]),
    )
    return end, seen


def test_event_that_comes_after_the_last_one_changes_nothing(tmp_path: Path) -> None:
    """It was taken for the end of a worker that had died: `ended with status 0 before it was done`."""
    assert call(Scripted({"event": "done"}, LINKED), tmp_path) == ({"event": "done"}, ["done"])


def test_error_of_a_watcher_that_comes_too_late_does_not_undo_a_solve(tmp_path: Path) -> None:
    solved = {"event": "solved", "records": []}
    assert call(Scripted(solved, {"event": "done"}, STALLED, status=1), tmp_path)[0] == solved
    assert call(Scripted(solved, STALLED, {"event": "done"}), tmp_path)[0] == solved


def test_error_is_told_whatever_follows_it(tmp_path: Path) -> None:
    with pytest.raises(EnvmgrError, match="no byte for 60 s"):
        call(Scripted(STALLED, LINKED, status=1), tmp_path)


def test_worker_that_ends_early_has_died(tmp_path: Path) -> None:
    with pytest.raises(EnvmgrError) as raised:
        call(Scripted(LINKED), tmp_path)
    assert raised.value.render() == (
        "error[worker-died]: the rattler worker ended with status 0 before it was done\n\n"
        "hint: run the same command again: what was downloaded is kept"
    )


def test_thread_that_is_late_says_nothing_after_the_last_event(tmp_path: Path) -> None:
    """The real worker's end, with a thread that speaks as soon as the last event is out, and an exit that waits for it."""
    log: list[str] = []

    class Log(SilentReporter):
        def log(self, text: str) -> None:
            log.append(text)

    call_worker("tests.helpers.late_worker", {"cache": str(tmp_path)}, Runner(), Log(), failure=failure)
    assert log == ['worker: {"event": "done"}']
    with pytest.raises(EnvmgrError, match="no luck"):
        call(Runner(), tmp_path, "tests.helpers.late_worker", fails=True)
