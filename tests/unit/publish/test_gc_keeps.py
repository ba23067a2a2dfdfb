"""What `gc` keeps because it may be in use: the judgement alone, over answers that are made up."""

from __future__ import annotations

from typing import Any

import pytest

from envmgr.publish.gc_keeps import NEVER, InUse, generations_in_use, in_few, installs_in_use, left_times

DAYS = [f"2026-01-{day:02d}T00:00:00Z" for day in range(1, 10)]
SECONDS = [1767225600.0 + 86400 * day for day in range(9)]


def row(day: int, before: int | None, after: int) -> dict[str, Any]:
    return {"time": DAYS[day], "from": before, "to": after}


@pytest.mark.parametrize(
    ("rows", "current", "left"),
    [
        pytest.param([row(1, None, 1), row(3, 1, 2)], 2, {1: SECONDS[3], 2: NEVER}, id="the next one"),
        pytest.param(
            [row(1, None, 1), row(3, 1, 2), row(4, 2, 1), row(6, 1, 2)], 2, {1: SECONDS[6], 2: NEVER}, id="left twice"
        ),
        pytest.param(
            [row(1, None, 1), row(5, 2, 3)], 3, {1: SECONDS[5], 2: SECONDS[5], 3: NEVER}, id="a flip is missing"
        ),
        pytest.param([row(1, None, 1)], 2, {1: NEVER, 2: NEVER}, id="the last flip is missing"),
        pytest.param(
            [row(1, None, 1), {"time": "soon", "from": 1, "to": 2}], 2, {1: NEVER, 2: NEVER}, id="a time is damaged"
        ),
        pytest.param(
            [row(1, None, 1), {"time": DAYS[2], "from": "x", "to": 2}],
            2,
            {1: SECONDS[2], 2: NEVER},
            id="from is damaged",
        ),
        pytest.param([], 2, {1: NEVER, 2: NEVER}, id="nothing is told"),
    ],
)
def test_time_at_which_a_generation_was_left_is_never_too_early(
    rows: list[dict[str, Any]], current: int, left: dict[int, float]
) -> None:
    assert left_times(rows, {1: SECONDS[1], 2: SECONDS[2]}, current) == left


def test_generation_of_which_no_flip_tells_was_left_by_the_first_one_after_it() -> None:
    rows = [row(1, None, 1), row(6, 1, 5)]
    left = left_times(rows, {1: SECONDS[1], 3: SECONDS[3], 5: SECONDS[6], 9: SECONDS[8]}, 5)
    assert left == {1: SECONDS[6], 3: SECONDS[6], 5: NEVER, 9: NEVER}


LEFT = {1: SECONDS[2], 2: SECONDS[4], 3: SECONDS[6]}


def test_generation_that_a_process_names_is_kept_and_told() -> None:
    found = InUse({"generations/0002": ["bash (7) of alice on c1"], "generations/0009": ["x"]})
    assert generations_in_use([1, 2, 3], LEFT, found) == {2: "bash (7) of alice on c1"}


def test_who_began_at_a_time_keeps_what_was_current_then_or_later() -> None:
    found = InUse({}, [(SECONDS[4], "job 7"), (SECONDS[5], "job 8")])
    may = "which may use what was current then"
    assert generations_in_use([1, 2, 3], LEFT, found) == {2: f"job 7, {may}", 3: f"job 7, {may}; job 8, {may}"}


def test_what_cannot_be_asked_keeps_all() -> None:
    found = InUse({}, (), ["c[2-3]: unreachable: no route"])
    assert generations_in_use([1, 2], LEFT, found) == dict.fromkeys([1, 2], "c[2-3]: unreachable: no route")
    assert installs_in_use(["store/a/1-00000000"], lambda _: (), found) == {
        "store/a/1-00000000": "c[2-3]: unreachable: no route"
    }


def test_what_an_install_in_use_stands_on_is_kept_with_it() -> None:
    needs = {"top": ["mid"], "mid": ["low", "elsewhere"], "other": ["top"]}
    found = InUse({"top": ["python (7) of alice on c1"]})
    kept = installs_in_use(["top", "mid", "low", "other"], lambda path: needs.get(path, ()), found)
    assert list(kept) == ["top", "mid", "low"]
    assert kept["mid"] == "top stands on it, which is in use: python (7) of alice on c1"


def test_reasons_are_few() -> None:
    assert in_few([f"job {n}" for n in range(9)]) == "job 0; job 1; job 2; and 6 more"


def test_rows_that_make_no_sense_take_nothing_away() -> None:
    rows = [{"from": [1], "to": 2, "time": "2026-01-01T00:00:00Z"}]
    assert left_times(rows, {1: 0.0, 2: 0.0}, 2)[2] == NEVER
