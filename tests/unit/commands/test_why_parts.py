"""What `why` says of flips and times, scripts, and drivers that audits saw."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from envmgr.catalog.fitness import NodeFacts
from envmgr.catalog.gpus import Gpu
from envmgr.commands.why_changes import WhyChange, hardware_changes, script_changes
from envmgr.commands.why_then import Loaded, current_between, from_slurm, moment, when_current
from envmgr.errors import InputError
from envmgr.nodes.past_jobs import PastJob
from envmgr.store.node_facts import FleetFacts, merge_facts

T0 = 1_767_225_600.0  # 2026-01-01T00:00:00Z
FLIPS = [
    {"time": "2026-01-01T00:00:00Z", "to": 1},
    {"time": "2026-01-02T00:00:00Z", "to": 2},
    {"time": "2026-01-03T00:00:00Z", "to": 1},
]
DAY = 86400.0


@pytest.mark.parametrize(
    ("first", "last", "numbers"),
    [
        (T0 - 61, T0 - 61, ()),
        (T0 + 100, T0 + 200, (1,)),
        (T0 + DAY - 30, T0 + DAY - 30, (1, 2)),  # clocks apart
        (T0 + DAY + 30, T0 + DAY + 30, (1, 2)),
        (T0 + DAY + 61, T0 + DAY + 61, (2,)),
        (T0 + 100, T0 + DAY + 3600, (1, 2)),  # it waited in the queue
        (T0 + 9 * DAY, T0 + 9 * DAY, (1,)),  # after a rollback
    ],
)
def test_generation_of_a_time_is_said_to_be_either_near_a_flip(
    first: float, last: float, numbers: tuple[int, ...]
) -> None:
    assert current_between(FLIPS, first, last) == numbers


def test_times_of_a_generation_are_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert when_current(FLIPS, 2) == "it was current from 2026-01-02 00:00:00 UTC to 2026-01-03 00:00:00 UTC"
    assert when_current(FLIPS, 1).endswith(" and from 2026-01-03 00:00:00 UTC to now")
    assert when_current(FLIPS, 7) == ""


def test_moment_is_a_date_or_a_time() -> None:
    assert moment("2026-01-01T00:00:00Z") == T0
    for text in ("yesterday", "2026-13-01", "", "9" * 400, "2999-01-01"):
        with pytest.raises(InputError, match="is no past day and no generation"):
            moment(text)


def job(script: str = "", **environment: str) -> PastJob:
    return PastJob("1", "alice", T0, T0, "c1", "", "", script, environment)


def test_loads_of_the_script_come_after_those_of_the_submitting_shell() -> None:
    shell = {
        "LOADEDMODULES": "gcc/12:kit/1.0:my-tool/2",
        "ENVMGR_KIT_DIGEST": "a" * 64,
        "ENVMGR_MY_TOOL_DIGEST": "b" * 64,
    }
    script = (
        "#!/bin/bash\n# module load no\nmodule load kit/2.0 || exit\n  ml pydata user/mine\nmodule load my-tool/2\n"
    )
    found = [
        Loaded("kit/2.0", 3, "", "script"),
        Loaded("my-tool/2", 3, "b" * 64, "environment"),
        Loaded("pydata", 3, "", "script"),
        Loaded("user/mine", 3, "", "script"),
    ]
    assert from_slurm(job(script, **shell), 3, "script") == (found, [])
    purged = from_slurm(job(f"module purge\n{script}module unload pydata\nml $x\n", **shell), 3, "script")
    assert purged == ([Loaded(name, 3, "", "script") for name in ("kit/2.0", "user/mine", "my-tool/2")], ["ml $x"])


@pytest.mark.parametrize(
    ("pin", "number"), [("/sw/generations/0012", 12), ("", None), ("/sw/other", None), ("/sw/generations/x", None)]
)
def test_pin_of_the_submitting_shell(pin: str, number: int | None) -> None:
    assert job(ENVMGR_PIN=pin).pin == number


def test_script_s_options_are_compared_by_name_and_other_lines_counted() -> None:
    old = "#!/bin/bash\n#SBATCH --time=5 -N 2\n#SBATCH --mem=1G\n\npython a.py\n"
    assert [*script_changes(old, old.replace("--time=5 -N 2", "-N 2 --time=5"), "/s")] == []
    new = "#!/bin/bash\n#SBATCH --time=10\n#SBATCH -N 2 --exclusive\n\npython b.py\n#SBATCH --mem=9G\n"
    assert [*script_changes(old, new, "/s")] == [
        WhyChange("options", "--exclusive", "", "", note="in /s"),
        WhyChange("options", "--mem", "1G", "", note="in /s"),
        WhyChange("options", "--time", "5", "10", note="in /s"),
        WhyChange("script", "/s", "", "", note="+1 -1 lines: -python a.py"),
    ]


def node(driver: str, gpu: str = "") -> NodeFacts:
    return NodeFacts(driver=driver, gpus=(Gpu(vendor="nvidia", name=gpu),) if gpu else ())


def audits(*seen: tuple[float, NodeFacts]) -> FleetFacts:
    facts = None
    for at, each in seen:
        facts = merge_facts(facts, {each: ["c1"], node("other"): ["c2"]}, {}, at)
    assert facts is not None
    return facts


def changes(facts: FleetFacts, at: float, logged: Mapping[str, str] | None = None) -> list[tuple[str, str, str] | str]:
    found = hardware_changes(facts, ["c1"], at, logged or {})
    return [each if isinstance(each, str) else (each.kind, each.old, each.new) for each in found]


OLD, NEW = node("535", "GTX"), node("550", "RTX")
BOTH = [("driver", "535", "550"), ("gpus", "GTX", "RTX")]
NOT_THEN = ["driver of c1: what it was then is not recorded", "GPUs of c1: what they were then is not recorded"]


def test_driver_is_compared_only_where_audits_saw_it_before_and_after() -> None:
    facts = audits((1000, OLD), (2000, OLD), (3000, NEW))
    assert changes(facts, 1500) == BOTH
    assert changes(facts, 100) == NOT_THEN  # before the first audit
    assert changes(facts, 4000) == ["driver and GPUs of c1: no audit has seen it since"]
    between = [each for each in hardware_changes(facts, ["c1"], 2500, {}) if isinstance(each, WhyChange)]
    assert all("the job ran between the two audits, so it may have had either" in each.note for each in between)
    assert changes(audits((1000, OLD), (2000, OLD)), 1500) == []
    assert changes(audits((1000, OLD), (2000, NEW), (3000, OLD)), 1000) == []  # and it is as it was


def test_driver_in_the_log_counts_before_the_first_audit() -> None:
    facts = audits((3000, NEW))
    assert changes(facts, 100, {"c1": "535"}) == [("driver", "535", "550"), NOT_THEN[1]]
    assert changes(facts, 100, {"c1": "550"}) == [NOT_THEN[1]]


def test_facts_of_an_envmgr_that_kept_no_first_time_say_nothing_of_then() -> None:
    facts = audits((3000, OLD))
    old = FleetFacts.model_validate({"schema": 1, "seen": [facts.seen[0].model_dump(exclude={"since"})]})
    assert changes(old, 100) == NOT_THEN
    assert changes(merge_facts(old, {NEW: ["c1"]}, {}, 4000), 2000) == NOT_THEN
    assert changes(merge_facts(old, {NEW: ["c1"]}, {}, 4000), 3500) == BOTH


def test_former_facts_are_forgotten_after_400_days() -> None:
    facts = audits((1000, OLD), (2000, NEW), (2000 + 401 * DAY, NEW))
    assert facts.former == ()
    assert [row.time for row in facts.rows_of("c1")] == [2000 + 401 * DAY]
