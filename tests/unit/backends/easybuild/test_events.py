"""What EasyBuild's hooks tell, as the bar and the log get it."""

from __future__ import annotations

import json
from pathlib import Path

from envmgr.backends.easybuild.build import STEPS, Events


def line(event: str, **fields: str) -> str:
    return json.dumps({"event": event, "time": 0.0, **fields}) + "\n"


def test_nothing_is_told_before_the_first_step(tmp_path: Path) -> None:
    events = Events(tmp_path / "none.jsonl")
    assert list(events.read()) == []
    assert (events.done, events.total, events.step, events.failed) == (0, len(STEPS), "", "")


def test_steps_are_told_once_and_a_half_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    events = Events(path)
    whole, half = line("step", step="fetch", log="/l"), line("step", step="build", log="/l")
    path.write_text(whole + half[:20])
    assert len(list(events.read())) == 1
    assert (events.step, events.done) == ("fetch", 0)
    path.write_text(whole + half)
    assert len(list(events.read())) == 1
    assert (events.step, events.done) == ("build", STEPS.index("build"))
    assert list(events.read()) == []


def test_extensions_are_the_detail_of_their_step(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(
        line("step", step="extensions", log="") + line("extension", name="numpy 1.26") + line("failed", message="no")
    )
    events = Events(path)
    list(events.read())
    assert (events.step, events.detail, events.failed) == ("extensions", "extension numpy 1.26", "no")


def test_what_is_no_event_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text('half\n{"other": 1}\n' + line("step", step="new in EasyBuild 6", log=""))
    events = Events(path)
    assert len(list(events.read())) == 1
    assert (events.step, events.done) == ("new in EasyBuild 6", 0)
