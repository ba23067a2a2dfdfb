"""Shells that do not start, or have no `module`: the cause that is told, and the hint that mends it."""

from __future__ import annotations

import subprocess

import pytest

from envmgr.audit.checks import contexts, get_check
from envmgr.audit.judge import rows_of
from envmgr.probe import shell as probe
from envmgr.probe.model import CONTEXTS
from envmgr.system.shelltext import script_text
from tests.helpers.context_shell import context_facts
from tests.helpers.evidence import evidence, told

PROMPT = next(c for c in CONTEXTS if c.name == "bash-interactive")
PTY = next(c for c in CONTEXTS if c.name == "srun-pty")
ASKED = ((PROMPT, "user", "ssh"),)
KEY = "ctx.bash-interactive.user."
ENDED = {f"{KEY}end": "exit status 1: script: failed to create pseudo-terminal: Permission denied"}
WELL = {
    f"{KEY}modulepath": "/sw/generations/0001/modules",
    f"{KEY}module": "yes",
    f"{KEY}lmod_rc": "/sw/generations/0001/lmodrc.lua",
}


def test_healthy_node_tells_nothing_of_terminals() -> None:
    library = script_text(probe.__file__ or "", "library.sh")
    argv = ["/bin/sh", "-c", f"mark=\nset -eu\n{library}{script_text(contexts.__file__, 'node.sh')}"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.parametrize(
    ("said", "found", "hint"),
    [
        (
            "link 0",
            "/dev/ptmx has mode 0, by the ptmxmode of /dev/pts",
            "on the node: `mount -o remount,ptmxmode=0666 /dev/pts`",
        ),
        ("device 600", "/dev/ptmx has mode 600", "on the node: `udevadm trigger --name-match=ptmx`"),
        ("unmounted", "/dev/pts is no mounted devpts", "on the node: `mount -t devpts"),
        ("full 4096", "all 4096 are in use", "on the node: `fuser -v /dev/pts/*` tells"),
    ],
)
def test_node_without_terminals_is_told_once_with_its_cause(said: str, found: str, hint: str) -> None:
    lines = told(contexts, evidence({"c1": WELL, "c2": {**ENDED, "terminal": said}, "c3": WELL}, asked=ASKED))
    (line,) = [line for line in lines if not line.startswith("note ")]
    assert line.startswith(f"error c2: /dev/ptmx: users can open no pseudo-terminal: {found} | ")
    assert f" | {hint}" in line


def test_shell_at_a_terminal_that_does_not_start_for_another_reason_is_told_by_itself() -> None:
    (line,) = [x for x in told(contexts, evidence({"c2": ENDED}, asked=ASKED)) if not x.startswith("note ")]
    assert line.startswith("error c2: bash-interactive (alice): cannot be probed: exit status 1: script: failed")


def test_bash_in_posix_mode_is_told_and_node_setup_is_not_the_hint() -> None:
    facts = {f"ctx.srun-pty.user.{k}": v for k, v in {"modulepath": "", "module": "no", "posix": "yes"}.items()}
    given = evidence({"c1": facts}, asked=((PTY, "user", "ssh"),))
    end = (
        "bash is in posix mode there, and reads no file that defines `module`: which start-up file sets POSIXLY_CORRECT, "
        "or says `set -o posix`?"
    )
    assert [line for line in told(contexts, given) if line.startswith("error ")] == [
        f"error c1: srun-pty (alice): no `module` command | Lmod's `module` | {end}",
        f"error c1: srun-pty (alice): MODULEPATH has no modules of /sw: it is empty | generation 1 | {end}",
    ]
    names = {one.names for one in rows_of(get_check("contexts"), given) if one.names}
    assert names == {("POSIXLY_CORRECT",)}


def test_posix_mode_is_told_of_bash_and_not_of_sh() -> None:
    assert context_facts(contexts, "bash", POSIXLY_CORRECT="1")["posix"] == "yes"
    assert "posix" not in context_facts(contexts, "bash")
    assert "posix" not in context_facts(contexts, "dash", POSIXLY_CORRECT="1")
