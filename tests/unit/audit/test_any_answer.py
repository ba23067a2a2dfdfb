"""Whatever a node answers, each check judges it: one node that is broken, or hostile, must not end the audit of all others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from envmgr.audit.checks import all_checks
from envmgr.audit.judge import judge, rows_of
from envmgr.audit.model import Check, Evidence, standing_alone
from envmgr.audit.table import ENGINE
from envmgr.catalog.recipe_parts import Requires
from envmgr.nodes.sets import expand
from envmgr.probe.model import CONTEXTS, ShellAccount
from envmgr.steps import other_modules
from tests.helpers.evidence import OURS, evidence, keys, table_of

CHECKS = all_checks()
LOGIN = next(context for context in CONTEXTS if context.name == "bash-login")
ASKED = tuple((LOGIN, account, "ssh") for account in get_args(ShellAccount))
ODD = ["", " ", "\n", "yes", "no", "0", "-1", "1e999", "nan", "9" * 30, "²", "a b", "x=y", "a|b|c", "/a:/b", "{value}"]
VALUE = st.sampled_from([*ODD, "{0.__class__}", "%s", "no end", "hung", "a\nb c\n"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)


def keys_of(*checks: Check) -> list[str]:
    """A key of each fact that these checks declare or read, and of every probe's."""
    own: set[str] = keys(ENGINE)
    for check in checks:
        of = check.table
        own |= {*of.node, *of.prefix, *of.login, *of.reads}
        own |= {f"ctx.bash-login.{account}.{key}" for _, account, _ in ASKED for key in of.context}
    return sorted(key.replace("*", "x/1") for key in own)


def answers(*checks: Check) -> st.SearchStrategy[list[dict[str, str]]]:
    """What three nodes answer."""
    return st.lists(st.dictionaries(st.sampled_from(keys_of(*checks)), VALUE, max_size=12), min_size=3, max_size=3)


def evidence_of(facts: Iterable[dict[str, str]]) -> Evidence:
    nodes = {f"c{number}": of for number, of in enumerate(facts, 1)}
    return evidence(nodes, asked=ASKED, entries={"x/1": Requires()}, samples=("x/1",))


PATIENT = settings(deadline=None, database=None, max_examples=60, suppress_health_check=[*HealthCheck])


@pytest.mark.parametrize("name", CHECKS)
def test_no_answer_ends_a_check(name: str) -> None:
    check = CHECKS[name]

    @PATIENT
    @given(answers(check))
    def judged(facts: list[dict[str, str]]) -> None:
        made = evidence_of(facts)
        judge(made, {name: check})

    judged()


@pytest.mark.parametrize("name", standing_alone(CHECKS))
def test_no_answer_gets_a_hint_of_envmgrs_where_nothing_is_published(name: str) -> None:
    check = CHECKS[name]

    @PATIENT
    @given(answers(check))
    def judged(facts: list[dict[str, str]]) -> None:
        assume(not any(OURS.search(value) for of in facts for value in of.values()))  # a hint may quote it
        made = evidence_of(facts)
        plan = replace(made.plan, number=None, alone=True, samples=(), installs=())
        alone = replace(made, plan=plan, published=None, alone=True)
        found = [one.finding for one in rows_of(check, alone)]
        assert [each.hint for each in found if OURS.search(each.hint)] == []

    judged()


@PATIENT
@given(answers(*CHECKS.values()))
def test_no_answer_ends_the_table_of_entries_and_nodes(facts: list[dict[str, str]]) -> None:
    assert sum(len(expand(row.nodes)) for row in table_of(evidence_of(facts), *CHECKS.values())) == len(facts)


@given(st.lists(VALUE | st.just("fftw/3|/sw/modulefiles|by hand|/sw/fftw")))
def test_no_answer_ends_the_list_of_modules(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert len(other_modules.read_other_modules({"other_modules.modules": text})) <= len(text.splitlines())
