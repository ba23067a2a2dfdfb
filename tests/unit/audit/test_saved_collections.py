"""The hook for saved collections: judged by what Lmod says of it in each context."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.audit.checks import get_check
from envmgr.audit.judge import rows_of
from envmgr.catalog.site import load_site
from envmgr.modules.nodesetup import hook_digest, hook_names, node_files
from envmgr.probe.model import CONTEXTS
from tests.helpers.evidence import evidence as hand_made
from tests.helpers.evidence import told

CHECK = get_check("saved-collections")
HOOK = "/etc/envmgr/node/lmod"
AGAIN = "`envmgr node-setup --apply --nodes c2`"
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
        f"warning c2: {where}: envmgr's hook is not installed | {LOADS} | {AGAIN}",
        f"warning c3: {where}: Lmod does not load envmgr's hook: LMOD_PACKAGE_PATH is /site/lmod | {LOADS} | {late}",
    ]


UNKNOWN = "Lmod has no MT.getMTfromFile"
LEFT = f"note c2: {{}}: the hook leaves them to this Lmod: {UNKNOWN} | an Lmod that the hook knows | after a publish, users save them again; a newer envmgr may know this Lmod"
BROKEN = f"warning c2: {{}}: a file of envmgr's hook is missing or damaged | the files in {HOOK} | {AGAIN}"
STALE = f"warning c2: {{}}: envmgr's hook is of another envmgr than this one | its files in {HOOK} | {AGAIN}"


@pytest.mark.parametrize(
    ("hook", "digest", "line"),
    [
        (UNKNOWN, hook_digest(), LEFT),
        (UNKNOWN, "0" * 64, STALE),  # what an older hook says of a newer Lmod
        ("broken", "0" * 64, BROKEN),
        ("known", "0" * 64, STALE),
    ],
)
def test_hook_that_is_not_ours_or_does_not_know_its_lmod(hook: str, digest: str, line: str) -> None:
    well, said = facts(hook="known", hook_sum=hook_digest()), facts(hook=hook, hook_sum=digest)
    assert findings(c1=well, c2=said, c3=facts(hook="known"), c4={}) == [
        line.format("bash-login, bash-ssh (root, alice)")
    ]


def test_digest_of_the_hook_is_that_of_its_files_as_a_node_adds_them_up(tmp_path: Path) -> None:
    site = load_site(None, {})
    for file in node_files(site).files:
        if file.path.rpartition("/")[0] == HOOK:
            (tmp_path / Path(file.path).name).write_text(file.text)
    said = subprocess.run(
        f"cat {' '.join(hook_names())} | sha256sum",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.split()[0] == hook_digest()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(hook_names())


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
