"""What the dynamic linker says before each program, of a library that is gone, is no answer of that program: each check's text tells the same."""

from __future__ import annotations

import subprocess

import pytest

from envmgr.audit.checks import all_checks
from envmgr.audit.model import Check
from envmgr.probe import shell as probe
from envmgr.probe.model import Facts
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import assign, script_text
from tests.helpers.context_shell import context_facts
from tests.helpers.evidence import as_check, audit_plan, site

GONE = "/nowhere/libgone.so"
PLAN = audit_plan(site())
CHECKS = [pytest.param(check, id=name) for name, check in sorted(all_checks().items())]


def node_facts(check: Check, **env: str) -> Facts:
    library = script_text(probe.__file__ or "", "library.sh")
    given = assign(user="nobody", build_user="", prefix="/nowhere/sw")
    script = f"mark=\nwho=/etc/passwd\nroom=$tmp\n{given}{library}{as_check(check).probe(PLAN)['node']}"
    text = 'tmp=$(mktemp -d) && cat >"$tmp/text" && unset LD_PRELOAD && exec 3>&1 && env "$@" tmp="$tmp" sh "$tmp/text" >&3; rm -r "$tmp"'
    command = ["/bin/sh", "-c", text, "sh", "A=", *(f"{name}={value}" for name, value in env.items())]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
    return read_lines(line for line in done.stdout.splitlines() if not line.startswith("@~"))


@pytest.mark.parametrize("check", [each for each in CHECKS if "context" in each.values[0].probe(PLAN)])  # type: ignore[attr-defined]
@pytest.mark.parametrize("login", ["", "shopt() { :; }"], ids=["shell", "login"])
def test_shell_tells_the_same_of_all_but_the_variable(check: Check, login: str) -> None:
    usual, preloaded = (
        context_facts(check, "bash", f"prefix=/nowhere/sw; {login}", **more) for more in ({}, {"LD_PRELOAD": GONE})
    )
    differ = {
        line
        for key in usual.keys() | preloaded.keys()
        for line in {*usual.get(key, "").split("\n")} ^ {*preloaded.get(key, "").split("\n")}
    }
    assert [line for line in differ if not line.startswith("LD_PRELOAD")] == []


@pytest.mark.parametrize("check", [each for each in CHECKS if "node" in each.values[0].probe(PLAN)])  # type: ignore[attr-defined]
def test_node_tells_the_same(check: Check) -> None:
    assert node_facts(check, LD_PRELOAD=GONE) == node_facts(check)


def test_other_words_of_the_loader_are_left_out_as_well() -> None:
    said = "ls: /x/libz.so.1: no version information available (required by ls)\nERROR: ld.so: object '/x' ignored.\nls: /y: No such file"
    library = script_text(probe.__file__ or "", "library.sh")
    done = subprocess.run(["/bin/sh", "-c", f"{library}plain"], input=said, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["ls: /y: No such file"]
