"""Hints on a cluster where envmgr published nothing: they name what the cluster has, not what envmgr would have put there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given

from envmgr.audit.causes import Traces
from envmgr.audit.checks import all_checks
from envmgr.audit.judge import loose_of, rows_of
from envmgr.audit.model import Check, standing_alone
from tests.helpers.any_answer import PATIENT, answers, evidence_of

CHECKS = standing_alone(all_checks())
OURS = re.compile(r"envmgr (?!audit|adopt)|node-setup|generation|publish")

# What checks say of a published generation only; no row of another name may speak of one.
PUBLISHED = {
    "cache": {"missing", "other_content", "unreadable", "not_published"},
    "contexts": {"lists_extensions", "told_not_found", "not_exported", "not_healed"},
    "fitness": {"other_code"},
    "lmod": {"not_as_published"},
    "rc-files": {"not_read"},
    "resolution": {"shadowed", "another_file", "not_found", "other_content"},
}


def hints(check: Check) -> Iterator[tuple[str, str]]:
    table = check.table
    for name, row in {**table.node, **table.prefix, **table.context, **table.login, **table.rows}.items():
        yield name, f"{row.hint} {row.unplaced}"
    yield from table.words.items()


@pytest.mark.parametrize("name", CHECKS)
def test_tables_name_nothing_of_envmgrs_but_where_something_is_published(name: str) -> None:
    assert {row for row, hint in hints(CHECKS[name]) if OURS.search(hint)} == PUBLISHED.get(name, set())


@pytest.mark.parametrize("name", CHECKS)
def test_no_answer_gets_a_hint_of_envmgrs(name: str) -> None:
    check = CHECKS[name]

    @PATIENT
    @given(answers(check))
    def judged(facts: list[dict[str, str]]) -> None:
        made = evidence_of(facts)
        plan = replace(made.plan, number=None, alone=True, samples=(), installs=())
        alone = replace(made, plan=plan, published=None, alone=True)
        found = [one.finding for one in loose_of(check, rows_of(check, alone), Traces({}))]
        assert [each.hint for each in found if OURS.search(each.hint)] == []

    judged()
