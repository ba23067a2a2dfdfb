"""The hook for saved collections: judged by what Lmod says of it in each context."""

from __future__ import annotations

import pytest

from envmgr.audit.checks import get_check
from envmgr.audit.judge import rows_of
from envmgr.probe.model import CONTEXTS
from tests.helpers.evidence import evidence as hand_made
from tests.helpers.evidence import told

CHECK = get_check("saved-collections")
HOOK = "/etc/envmgr/node/lmod"
LOADS = f"Lmod loads {HOOK}"
LOGIN = next(context for context in CONTEXTS if context.name == "bash-login")
ASKED = tuple(
    (context, account, context.way)
    for context in CONTEXTS
    if context.name in ("bash-login", "bash-ssh")
    for account in ("root", "user")
)


def facts(**said: str) -> dict[str, str]:
    """The same in each context of both accounts."""
    keys = [f"ctx.{context.name}.{account}." for context, account, _ in ASKED]
    return {f"{key}{name.replace('_', '.')}": value for key in keys for name, value in said.items()}


def findings(**nodes: dict[str, str]) -> list[str]:
    return told(CHECK, hand_made(nodes, asked=ASKED))


def test_hook_that_lmod_does_not_load_is_told_with_its_cause() -> None:
    hidden = facts(hook="not loaded", hook_named="/site/lmod", hook_there="yes")
    where = "bash-login, bash-ssh (root, alice)"
    late = f"a start-up file sets it after /etc/profile.d/zz-envmgr.sh: let it keep {HOOK} at the end"
    assert findings(c1=facts(hook="known"), c2=facts(hook="not loaded", hook_named=HOOK), c3=hidden) == [
        f"warning c3: {where}: Lmod does not load envmgr's hook: LMOD_PACKAGE_PATH is /site/lmod | {LOADS} | {late}"
    ]


UNKNOWN = "Lmod has no MT.getMTfromFile"
LEFT = f"note c2: {{}}: the hook leaves them to this Lmod: {UNKNOWN} | an Lmod that the hook knows | after a publish, users save them again; a newer envmgr may know this Lmod"


def test_hook_that_does_not_know_its_lmod_is_a_note() -> None:
    assert findings(c1=facts(hook="known"), c2=facts(hook=UNKNOWN), c4={}) == [
        LEFT.format("bash-login, bash-ssh (root, alice)")
    ]


@pytest.mark.parametrize(
    ("said", "variable", "found"),
    [
        (
            facts(collection="LMOD_SYSTEM_DEFAULT_MODULES=StdEnv", collection_said="unknown"),
            "LMOD_SYSTEM_DEFAULT_MODULES",
            "LMOD_SYSTEM_DEFAULT_MODULES=StdEnv cannot be loaded: unknown",
        ),
        (
            facts(hook="not loaded", hook_named="/site/lmod", hook_there="yes"),
            "LMOD_PACKAGE_PATH",
            "Lmod does not load envmgr's hook: LMOD_PACKAGE_PATH is /site/lmod",
        ),
    ],
)
def test_variable_is_named_that_a_line_sets(said: dict[str, str], variable: str, found: str) -> None:
    given = hand_made({"c1": said, "c2": said}, asked=((LOGIN, "user", "ssh"),))
    (one,) = rows_of(CHECK, given)
    assert (one.finding.found, one.context, one.account, one.names) == (found, "bash-login", "user", (variable,))
