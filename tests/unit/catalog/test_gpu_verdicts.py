"""The rules against the oracle of tests/data/gpu-verdicts.txt, which was written by hand before them; and their properties.

In Python, and in plain Lua as the gate of a modulefile has them.
"""

from __future__ import annotations

import itertools
import random

import pytest

from envmgr.catalog.fitness import Verdict, verdict_on
from envmgr.catalog.gpus import Gpu, GpuFacts, GpuNeeds, parse_code
from tests.helpers.gpu_lua import lua_verdicts
from tests.helpers.gpu_oracle import Row, read_oracle

ROWS = read_oracle()

# 300 nodes and some entries, made by no table of envmgr's.
DRIVERS = tuple(
    "450.80.02 470.256.02 515.105.01 525.60.13 535.183.06 550.54.14 565.57.01 570.86.10 580.159.04 590.48.01 610.43.02".split()
)
GPUS = (
    ("5.2", "NVIDIA GeForce GTX 980"),
    ("6.1", "NVIDIA GeForce GTX 1080"),
    ("7.0", "Tesla V100-SXM2-32GB"),
    ("7.5", "NVIDIA GeForce GTX 1650"),
    ("7.5", "Tesla T4"),
    ("8.0", "NVIDIA A100-SXM4-80GB"),
    ("8.6", "NVIDIA RTX A6000"),
    ("8.9", "NVIDIA L40S"),
    ("9.0", "NVIDIA H100 80GB HBM3"),
    ("10.0", "NVIDIA B200"),
    ("12.0", "NVIDIA GeForce RTX 5090"),
)
CODES = ("5.0", "6.0", "7.0", "7.5", "8.0", "8.6", "8.6+PTX", "9.0", "9.0a", "9.0+PTX", "10.0", "10.0f", "12.0")
ORDER = (Verdict.TOO_OLD, Verdict.NO_CODE, Verdict.NO_JIT, Verdict.FULL)  # of two drivers: from worse to better


def nodes() -> list[GpuFacts]:
    chance = random.Random(13)
    found = []
    for _ in range(300):
        driver = chance.choice(DRIVERS)
        count = chance.choice((0, 1, 1, 2, 4))
        own = [
            Gpu(vendor="nvidia", arch=arch, name=name, driver=driver) for arch, name in chance.choices(GPUS, k=count)
        ]
        library = chance.choice((driver, driver, driver, driver, "535.54.03", "", None))
        found.append(GpuFacts(gpus=tuple(own), library=library))
    return found


def entries() -> list[GpuNeeds]:
    chance = random.Random(17)
    versions = ("11.4", "11.8", "12.1", "12.4", "12.7", "12.8", "13.0", "13.2", "13.4", "14.0", "")
    found = [
        GpuNeeds(cuda=cuda, codes=chance.choice((None, tuple(chance.sample(CODES, chance.randint(1, 5))))))
        for cuda in versions
        for _ in range(4)
    ]
    return [*found, GpuNeeds(cuda="12.4", codes=("8.0",), compat="12.4"), GpuNeeds(cuda=None, driver="525.60.13")]


NODES, ENTRIES = nodes(), entries()


def test_there_are_rows_of_every_verdict() -> None:
    assert len(ROWS) >= 150
    assert {row.verdict for row in ROWS} == set(Verdict)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.line}-{row.rule}")
def test_rules_say_what_the_oracle_says(row: Row) -> None:
    found = verdict_on(row.needs, row.facts)
    assert (found.verdict.value, found.refused) == (row.verdict, row.refused), found.reason


def test_plain_lua_says_what_the_oracle_says() -> None:
    found = lua_verdicts([(row.needs, row.facts) for row in ROWS])
    wrong = [
        (row.line, row.rule, said) for row, said in zip(ROWS, found, strict=True) if said != (row.verdict, row.refused)
    ]
    assert wrong == []


def test_plain_lua_says_of_300_nodes_and_all_entries_what_python_says() -> None:
    pairs = list(itertools.product(ENTRIES, NODES))
    found = lua_verdicts(pairs)
    by_python = [verdict_on(needs, facts) for needs, facts in pairs]
    assert {each.verdict for each in by_python} == set(Verdict)
    assert [(each.verdict.value, each.refused) for each in by_python] == found


def test_arch_that_is_no_capability_was_not_told() -> None:
    odd = [
        GpuFacts(gpus=(Gpu(vendor="nvidia", arch=arch, driver="580.1"),), library="580.1")
        for arch in ("8.10", "x", "sm_90")
    ]
    needs = GpuNeeds(cuda="12.1", codes=("8.0",))
    assert [verdict_on(needs, facts).verdict for facts in odd] == [Verdict.UNKNOWN] * 3
    assert lua_verdicts([(needs, facts) for facts in odd]) == [("unknown", False)] * 3


def with_driver(facts: GpuFacts, driver: str | None) -> GpuFacts:
    own = tuple(gpu.model_copy(update={"driver": driver}) for gpu in facts.gpus or ())
    return facts.model_copy(update={"gpus": own, "library": driver})


def test_a_newer_driver_never_worsens_a_verdict() -> None:
    """Forward compatibility apart: a driver newer than its package is not what the package is for."""
    for needs, facts in itertools.product([each for each in ENTRIES if not each.compat], NODES):
        found = [verdict_on(needs, with_driver(facts, driver)).verdict for driver in DRIVERS]
        known = [ORDER.index(verdict) for verdict in found if verdict in ORDER]
        assert known == sorted(known), (needs, facts, found)
        unknown = [verdict == Verdict.UNKNOWN for verdict in found]
        first = unknown.index(True) if True in unknown else len(found)
        assert all(verdict in (Verdict.TOO_OLD, Verdict.NO_GPU) for verdict in found[:first]) or not any(unknown)


def test_more_code_never_worsens_a_verdict() -> None:
    rank = {Verdict.NO_CODE: 0, Verdict.UNKNOWN: 1, Verdict.FORWARD: 1, Verdict.NO_JIT: 2, Verdict.FULL: 3}
    for needs, facts in itertools.product([each for each in ENTRIES if each.codes is not None], NODES):
        before = verdict_on(needs, facts)
        for code in CODES:
            after = verdict_on(needs.model_copy(update={"codes": (*(needs.codes or ()), code)}), facts)
            if before.verdict in rank:
                assert rank[after.verdict] >= rank[before.verdict], (needs, facts, code)
            else:
                assert after == before


def test_a_fact_taken_away_is_never_full() -> None:
    """It is not known, or the same; or another verdict that is refused, and that needs no more than the facts that are left."""
    for needs, facts in itertools.product(ENTRIES, NODES):
        before = verdict_on(needs, facts)
        own = facts.gpus or ()
        poorer = {
            "gpus": facts.model_copy(update={"gpus": None}),
            "library": facts.model_copy(update={"library": None}),
            "arch": facts.model_copy(update={"gpus": tuple(gpu.model_copy(update={"arch": ""}) for gpu in own)}),
            "driver": facts.model_copy(update={"gpus": tuple(gpu.model_copy(update={"driver": None}) for gpu in own)}),
        }
        for gone, left in poorer.items():
            after = verdict_on(needs, left)
            allowed = after.verdict in (Verdict.UNKNOWN, before.verdict) or (before.refused and after.refused)
            needless = needs.cuda is None and gone == "arch"  # nobody asks for it
            assert allowed or needless, (needs, facts, gone, before, after)
    for needs, facts in itertools.product(ENTRIES, NODES):
        poor = needs.model_copy(update={"codes": None})
        if needs.cuda is not None and verdict_on(needs, facts).verdict == Verdict.FULL:
            assert verdict_on(poor, facts).verdict == Verdict.UNKNOWN


def test_codes_are_read_and_written_alike() -> None:
    for text in (*CODES, "12.1f", "9.0a+PTX"):
        assert str(parse_code(text)) == text
    for text in ("sm_90", "9", "9.0b", "9.0+ptx", "9.0 ", ""):
        with pytest.raises(ValueError, match="is not a compute capability"):
            parse_code(text)
