"""What is kept of loads: the answers of nodes, hostile ones among them, and what a reading adds."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.errors import EnvmgrError
from envmgr.store.prefix import Prefix
from envmgr.store.usage import (
    DayLoads,
    EntryLoads,
    LogAnswer,
    NodeLog,
    Usage,
    known_since,
    loads_since,
    merged,
    read_logs_answer,
    read_usage,
    recorded_loads,
    save_usage,
    usage_file,
)

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
MONTH = date(2026, 10, 29)  # a month before
TEXT = """\
name c1
mark c1
host c1 mark mark
load 3 c1 2026-11-28 zlib/1.3 hello/1.0 job 1001
load 2 c1 2026-11-28 zlib/1.3 - - -
load 1 c2 2026-11-28 zlib/1.3 - - -
damaged 4
others 5
lost 0
"""


def answer(begun: bool = True, ended: bool = True, *rows: tuple[str, int]) -> LogAnswer:
    marks = f"host c1 {'mark' if begun else 'start'} {'mark' if ended else 'end'}\n"
    loads = "".join(f"load {count} c1 {day} a/1 - - -\n" for day, count in rows)
    return read_logs_answer(f"name c1\nmark c1\n{marks}{loads}damaged 0\nothers 0\nlost 0\n")


def node(days: int = 10, read: int = 1) -> NodeLog:
    return NodeLog(name="c1", mark="m1", since=NOW - timedelta(days=days), read=NOW - timedelta(days=read))


def days(usage: Usage) -> dict[str, int]:
    return {day: loads.own for day, loads in usage.entries["a/1"].days.items()}


def merge(before: Usage, found: LogAnswer, *, gapless: bool = True) -> tuple[Usage, dict[str, str]]:
    return merged(before, {"n1": found}, ["a/1"], mark="m2", now=NOW, gapless=gapless)


def test_answer_is_read_whole() -> None:
    found = read_logs_answer(TEXT)
    assert (found.name, found.fault, found.hosts) == ("c1", "", {"c1": (True, True)})
    assert found.counts == {"damaged": 4, "others": 5, "lost": 0}
    assert found.loads == {
        "c1": [
            ("2026-11-28", "zlib/1.3", DayLoads(by={"hello/1.0": 3}, jobs=3, uids=(1001,))),
            ("2026-11-28", "zlib/1.3", DayLoads(own=2)),
        ],
        "c2": [("2026-11-28", "zlib/1.3", DayLoads(own=1))],
    }


@given(st.text())
def test_no_answer_breaks_the_reader(text: str) -> None:
    found = read_logs_answer(text)
    assert found.counts["damaged"] <= len(text.splitlines())


@given(st.sampled_from(["load", "host", "name", "damaged", "lost"]), st.lists(st.text(max_size=8), max_size=8))
def test_no_row_breaks_the_reader(kind: str, words: list[str]) -> None:
    read_logs_answer(f"{kind} {' '.join(words)}")


def test_reading_adds_what_came_since_the_earlier_mark() -> None:
    entries = {"a/1": EntryLoads(since=date(2026, 11, 1), days={"2026-11-27": DayLoads(own=1)})}
    usage, faults = merge(
        Usage(nodes={"n1": node()}, entries=entries), answer(True, True, ("2026-11-27", 2), ("2026-11-28", 1))
    )
    assert (days(usage), faults) == ({"2026-11-27": 3, "2026-11-28": 1}, {})
    assert usage.nodes == {"n1": NodeLog(name="c1", mark="m2", since=node().since, read=NOW)}
    assert usage.entries["a/1"].since == date(2026, 11, 1)


def test_first_reading_counts_all_and_knows_only_from_now_on() -> None:
    usage, _ = merge(Usage(), answer(False, True, ("2026-10-01", 2)))
    assert days(usage) == {"2026-10-01": 2}
    assert (known_since(usage, ["n1"]), known_since(usage, ["n1", "n2"]), known_since(usage, [])) == (NOW, None, None)


def test_log_without_the_earlier_mark_counts_only_later_days_and_is_known_from_now_on() -> None:
    usage, _ = merge(
        Usage(nodes={"n1": node()}), answer(False, True, ("2026-11-26", 5), ("2026-11-27", 5), ("2026-11-28", 1))
    )
    assert (days(usage), usage.nodes["n1"].since) == ({"2026-11-28": 1}, NOW)


@pytest.mark.parametrize("why", ["unhooked", "lost"])
def test_gap_ends_what_is_known(why: str) -> None:
    found = answer(True, True, ("2026-11-28", 1))
    found.counts["lost"] = int(why == "lost")
    usage, _ = merge(Usage(nodes={"n1": node()}), found, gapless=why != "unhooked")
    assert (days(usage), usage.nodes["n1"].since) == ({"2026-11-28": 1}, NOW)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (answer(True, False, ("2026-11-28", 1)), "its mark did not arrive in the log"),
        (read_logs_answer("name c1\nunmarked there is no socket /dev/log\nhost c1 start end\n"), "its syslog takes no message: there is no socket /dev/log"),
        (read_logs_answer("name c1\nmark c1\nclosed /var/log/syslog\nhost c1 mark mark\n"), "it cannot read /var/log/syslog"),
        (read_logs_answer("name c1\nmark c1\nnolog\nhost c1 start end\n"), "it has no such log"),
        (read_logs_answer(""), "its mark did not arrive in the log"),
    ],
)  # fmt: skip
def test_node_that_was_not_read_changes_nothing_and_is_said(found: LogAnswer, reason: str) -> None:
    before = Usage(nodes={"n1": node()})
    usage, faults = merge(before, found)
    assert (usage.nodes, faults) == (before.nodes, {"n1": reason})
    assert days(usage) == {}


def test_old_days_become_months() -> None:
    old = {"2025-09-03": DayLoads(own=1, by={"b/1": 2}, uids=(7,)), "2025-09-04": DayLoads(own=2, jobs=1, uids=(5,))}
    entries = {"a/1": EntryLoads(since=date(2025, 1, 1), days={**old, "2026-11-27": DayLoads(own=4)})}
    usage, _ = merge(Usage(nodes={"n1": node()}, entries=entries), answer())
    found = usage.entries["a/1"].days
    assert found == {"2025-09": DayLoads(own=3, by={"b/1": 2}, jobs=1, uids=(5, 7)), "2026-11-27": DayLoads(own=4)}
    assert merge(usage, answer())[0].entries == usage.entries
    assert loads_since(usage.entries["a/1"], date(2026, 1, 1)).count == 4


def test_what_is_kept_is_written_and_read(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    assert read_usage(prefix) == Usage()
    assert recorded_loads(read_usage(prefix), "a/1", MONTH) is None
    usage, _ = merge(Usage(), answer(False, True, ("2026-11-27", 2), ("2026-10-01", 1)))
    save_usage(prefix, usage, private=False)
    assert read_usage(prefix) == usage
    assert [recorded_loads(read_usage(prefix), name, MONTH) for name in ("a/1", "b/1")] == [2, None]
    assert usage_file(prefix).stat().st_mode & 0o777 == 0o644
    save_usage(prefix, usage, private=True)
    assert usage_file(prefix).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["", "{", "[]", json.dumps({"schema": 1, "nodes": {"c1": {}}}), json.dumps({"schema": 1, "extra": 1})]
)
def test_what_is_damaged_is_said_with_the_way_out(tmp_path: Path, text: str) -> None:
    path = usage_file(Prefix(tmp_path))
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(EnvmgrError) as caught:
        read_usage(Prefix(tmp_path))
    assert caught.value.reference == "usage-damaged"
