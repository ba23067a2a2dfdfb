"""Answers of nodes that no audit expects: any value for any fact that checks declare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from envmgr.audit.model import Check, Evidence
from envmgr.audit.table import ENGINE
from envmgr.catalog.recipe import Requires
from envmgr.probe.model import CONTEXTS, ShellAccount
from tests.helpers.evidence import evidence

LOGIN = next(context for context in CONTEXTS if context.name == "bash-login")
ASKED = tuple((LOGIN, account, "ssh") for account in get_args(ShellAccount))
ODD = ["", " ", "\n", "yes", "no", "0", "-1", "1e999", "nan", "9" * 30, "²", "a b", "x=y", "a|b|c", "/a:/b", "{value}"]
VALUE = st.sampled_from([*ODD, "{0.__class__}", "%s", "no end", "hung", "a\nb c\n"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)


def keys_of(*checks: Check) -> list[str]:
    """A key of each fact that these checks declare or read, and of every probe's."""
    own: set[str] = set(ENGINE.keys)
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
