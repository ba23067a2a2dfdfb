"""The hook for saved collections: judged by what Lmod says of it in each context."""

from __future__ import annotations

import subprocess
from pathlib import Path

from envmgr.audit.causes import Traces
from envmgr.audit.checks import get_check
from envmgr.catalog.site import load_site
from envmgr.modules.nodesetup import hook_digest, hook_names, node_files
from envmgr.probe.model import CONTEXTS
from tests.helpers.evidence import evidence as hand_made
from tests.helpers.evidence import told, wanted_lines

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


def test_hook_that_knows_its_lmod_and_shells_without_a_generation_are_no_finding() -> None:
    assert findings(c1=facts(hook="known"), c2={}) == []


def test_hook_that_lmod_does_not_load_is_told_with_its_cause() -> None:
    hidden = facts(hook="not loaded", hook_named="/site/lmod", hook_there="yes")
    where = "bash-login, bash-ssh (root, alice)"
    late = f"a start-up file sets it after /etc/profile.d/zz-envmgr.sh: let it keep {HOOK} at the end"
    assert findings(c1=facts(hook="known"), c2=facts(hook="not loaded", hook_named=HOOK), c3=hidden) == [
        f"warning c2: {where}: envmgr's hook is not installed | {LOADS} | `envmgr node-setup --apply --nodes c2`",
        f"warning c3: {where}: Lmod does not load envmgr's hook: LMOD_PACKAGE_PATH is /site/lmod | {LOADS} | {late}",
    ]


def test_lmod_that_the_hook_does_not_know_is_a_note() -> None:
    assert findings(c1=facts(hook="Lmod has no MT.getMTfromFile")) == [
        (
            "note c1: bash-login, bash-ssh (root, alice): the hook leaves them to this Lmod: Lmod has no MT.getMTfromFile | "
            "an Lmod that the hook knows | after a publish, users save them again; a newer envmgr may know this Lmod"
        )
    ]


def test_hook_of_which_a_file_is_missing_or_damaged_is_told() -> None:
    assert findings(c1=facts(hook="known"), c2=facts(hook="broken")) == [
        (
            "warning c2: bash-login, bash-ssh (root, alice): a file of envmgr's hook is missing or damaged | "
            f"the files in {HOOK} | `envmgr node-setup --apply --nodes c2`"
        )
    ]


def test_hook_of_another_envmgr_is_told_where_it_could_be_read() -> None:
    same, other = (facts(hook="known", hook_sum=digest) for digest in (hook_digest(), "0" * 64))
    assert findings(c1=same, c2=other, c3=facts(hook="known")) == [
        (
            "warning c2: bash-login, bash-ssh (root, alice): envmgr's hook is of another envmgr than this one | "
            f"its files in {HOOK} | `envmgr node-setup --apply --nodes c2`"
        )
    ]
    unknown = "Lmod has no MT.getMTfromFile"  # what an older hook says of a newer Lmod
    (told,) = findings(c1=facts(hook=unknown, hook_sum="0" * 64))
    assert "envmgr's hook is of another envmgr than this one" in told
    (told,) = findings(c1=facts(hook=unknown, hook_sum=hook_digest()))
    assert "a newer envmgr may know this Lmod" in told
    (told,) = findings(c1=facts(hook="broken", hook_sum="0" * 64))
    assert "a file of envmgr's hook is missing or damaged" in told


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


def test_default_modules_of_the_site_that_do_not_load_are_told_with_their_line() -> None:
    said = facts(collection="LMOD_SYSTEM_DEFAULT_MODULES=StdEnv", collection_said="unknown")
    line = "/etc/profile.d/site.sh:2"
    traces = Traces({("c1", "bash-login", "user", "LMOD_SYSTEM_DEFAULT_MODULES"): line})
    given = hand_made({"c1": said, "c2": said}, asked=((LOGIN, "user", "ssh"),))
    assert told(CHECK, given, traces) == [
        (
            "warning c[1-2]: bash-login (alice): LMOD_SYSTEM_DEFAULT_MODULES=StdEnv cannot be loaded: unknown | a default collection that restores | "
            f"{line} sets it: take that line away, or name modules that are there"
        )
    ]
    assert [question.names for question in wanted_lines(CHECK, given)] == [("LMOD_SYSTEM_DEFAULT_MODULES",)]


def test_line_that_hides_the_hook_is_named() -> None:
    hidden = facts(hook="not loaded", hook_named="/site/lmod", hook_there="yes")
    traces = Traces({("c1", "bash-login", "user", "LMOD_PACKAGE_PATH"): "/etc/profile.d/zzz.sh:4"})
    (line,) = told(CHECK, hand_made({"c1": hidden}, asked=((LOGIN, "user", "ssh"),)), traces)
    assert line.endswith(
        f"/etc/profile.d/zzz.sh:4 sets it after /etc/profile.d/zz-envmgr.sh: take that line away, or let it keep {HOOK} at the end"
    )
