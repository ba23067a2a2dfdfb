"""Whatever a node answers, each check judges it: one node that is broken, or hostile, must not end the audit of all others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.audit.ask import inventory
from envmgr.audit.baseline import baseline_text
from envmgr.audit.causes import Traces
from envmgr.audit.checks import all_checks
from envmgr.audit.fit.matrix import matrix
from envmgr.audit.judge import how_asked, loose_of, rows_of
from envmgr.nodes.sets import expand
from tests.helpers.any_answer import PATIENT, VALUE, answers, evidence_of
from tests.helpers.evidence import judgement

CHECKS = all_checks()


@pytest.mark.parametrize("name", CHECKS)
def test_no_answer_ends_a_check(name: str) -> None:
    check = CHECKS[name]

    @PATIENT
    @given(answers(check))
    def judged(facts: list[dict[str, str]]) -> None:
        made = evidence_of(facts)
        found = judgement(made, {name: check})
        baseline_text(found.notebook, how_asked(made, {name: check}))
        rows = rows_of(check, made)
        assert len(loose_of(check, rows, Traces({}))) <= len(rows)

    judged()


@PATIENT
@given(answers(*CHECKS.values()))
def test_no_answer_ends_the_table_of_entries_and_nodes(facts: list[dict[str, str]]) -> None:
    assert sum(len(expand(row.nodes)) for row in matrix(evidence_of(facts))) == len(facts)


@given(st.lists(VALUE | st.just("fftw/3|/sw/modulefiles|by hand|/sw/fftw")))
def test_no_answer_ends_the_list_of_modules(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert len(inventory.read_inventory({"inventory.modules": text})) <= len(text.splitlines())
