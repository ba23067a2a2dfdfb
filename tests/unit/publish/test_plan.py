from __future__ import annotations

import itertools

import pytest

from envmgr.catalog.names import Entry
from envmgr.publish.plan import BuildPlan, PlannedEntry, PlanStep, make_plan, state_of
from envmgr.publish.records import GenerationRecord, PublishedEntry

OLD, NEW = "a" * 64, "b" * 64
ENTRY = Entry("pytorch", "2.1-cuda11.8")


def planned(
    entry: Entry = ENTRY, *, digest: str = OLD, installed: bool = True, fingerprint: str | None = "f"
) -> PlannedEntry:
    path = f"store/x/{digest[:8]}"
    return PlannedEntry(entry, digest, path, () if installed else (path,), fingerprint, {"zlib": "1.3 0"}, 10, None)


def record(*entries: Entry, render: str = "r", number: int = 7) -> GenerationRecord:
    published = {str(e): PublishedEntry(digest=OLD, path="store/x/aaaaaaa", lock="l", fingerprint="f") for e in entries}
    return GenerationRecord(
        number=number,
        parent=None,
        created="2026-01-01T00:00:00+00:00",
        user="u",
        host="h",
        reason="test",
        tools={},
        render=render,
        entries=published,
        files={},
        manifests={},
    )


# What is published, what is wanted, and what then happens to the module.
PUBLISH = {
    "nothing-published": (None, {}, "new"),
    "empty-generation": ([], {}, "new"),
    "another-entry-published": ([Entry("pytorch", "9")], {}, "new"),
    "another-digest": ([ENTRY], {"digest": NEW}, "changed"),
    "another-digest-and-text": ([ENTRY], {"digest": NEW, "fingerprint": "g"}, "changed"),
    "another-text": ([ENTRY], {"fingerprint": "g"}, "module"),
    "facts-not-known": ([ENTRY], {"fingerprint": None}, "unchanged"),
    "as-published": ([ENTRY], {}, "unchanged"),
}


@pytest.mark.parametrize(("case", "installed"), list(itertools.product(PUBLISH, (True, False))))
def test_make_plan_for_every_combination_of_store_and_generation(case: str, installed: bool) -> None:
    published, change, publish = PUBLISH[case]
    wanted = planned(installed=installed, **change)  # type: ignore[arg-type]
    plan = make_plan([wanted], None if published is None else record(*published), "r")
    step = PlanStep(wanted, "reuse" if installed else "build", publish)  # type: ignore[arg-type]
    assert plan == BuildPlan((step,), rerender=False, current=None if published is None else 7)
    assert plan.to_build == (() if installed else (step,))
    assert plan.to_publish == (() if publish == "unchanged" else (step,))
    assert plan.publishes == (publish != "unchanged")
    assert plan.nothing_to_do == (installed and publish == "unchanged")


@pytest.mark.parametrize(
    ("current", "rerender"),
    [(None, False), (record(), False), (record(ENTRY), True), (record(ENTRY, render="now"), False)],
    ids=["nothing-published", "empty-generation", "rendered-before", "rendered-now"],
)
def test_make_plan_renders_again_when_templates_or_policies_changed(
    current: GenerationRecord | None, rerender: bool
) -> None:
    plan = make_plan([], current, "now")
    assert (plan.rerender, plan.publishes, plan.nothing_to_do) == (rerender, rerender, not rerender)
    assert plan.steps == ()


def test_make_plan_with_nothing_wanted_has_nothing_to_do() -> None:
    assert make_plan([], None, "r").nothing_to_do
    assert make_plan([], record(ENTRY), "r").nothing_to_do


def test_make_plan_keeps_the_order_and_judges_each_entry_alone() -> None:
    other, third = Entry("gcc", "13"), Entry("python", "3.12")
    wanted = [planned(other, installed=False), planned(), planned(third, digest=NEW)]
    plan = make_plan(wanted, record(ENTRY, third), "r")
    assert [(str(s.planned.entry), s.build, s.publish) for s in plan.steps] == [
        ("gcc/13", "build", "new"),
        ("pytorch/2.1-cuda11.8", "reuse", "unchanged"),
        ("python/3.12", "reuse", "changed"),
    ]
    assert [str(s.planned.entry) for s in plan.to_build] == ["gcc/13"]
    assert [str(s.planned.entry) for s in plan.to_publish] == ["gcc/13", "python/3.12"]
    assert not plan.nothing_to_do


def test_make_plan_has_work_for_a_published_entry_whose_install_is_gone() -> None:
    plan = make_plan([planned(installed=False)], record(ENTRY), "r")
    assert (plan.nothing_to_do, plan.publishes) == (False, False)
    assert [s.build for s in plan.steps] == ["build"]


# published, outdated, built, locked
STATES = {
    (False, False, False, False): "declared",
    (False, False, False, True): "locked",
    (False, False, True, False): "built",
    (False, False, True, True): "built",
    (False, True, False, False): "declared",
    (False, True, False, True): "locked",
    (False, True, True, False): "built",
    (False, True, True, True): "built",
    (True, False, False, False): "published",
    (True, False, False, True): "published",
    (True, False, True, False): "published",
    (True, False, True, True): "published",
    (True, True, False, False): "outdated",
    (True, True, False, True): "outdated",
    (True, True, True, False): "outdated",
    (True, True, True, True): "outdated",
}


def test_state_of_is_told_for_every_combination() -> None:
    assert {facts: state_of(*facts) for facts in itertools.product((False, True), repeat=4)} == STATES
