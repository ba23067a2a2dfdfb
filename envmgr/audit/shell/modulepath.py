"""`module`, and the generations that MODULEPATH has."""

from __future__ import annotations

import re

from envmgr.audit.model import AskedShell, Evidence, Rows
from envmgr.probe.model import Facts
from envmgr.report import Severity


def elements(path: str) -> list[str]:
    """Return the parts of MODULEPATH as Lmod reads it: no empty parts, no repetitions, no trailing slashes."""
    parts = (re.sub(r"/+", "/", part).rstrip("/") or "/" for part in path.split(":") if part)
    return list(dict.fromkeys(parts))


def generations_in_path(facts: Facts, shell: AskedShell, evidence: Evidence) -> list[str]:
    pattern = re.compile(re.escape(f"{evidence.site.prefix}/") + r"(?:generations/([0-9]{4,})|(current))/modules")
    matches = (pattern.fullmatch(part) for part in elements(facts.get(f"{shell.key}modulepath", "")))
    return [m[1] or m[2] for m in matches if m]


_NO_MODULE = "no `module` command"


def _module_command(facts: Facts, shell: AskedShell) -> str:
    """Return the program to which a shell's `module` belongs."""
    said = facts.get(f"{shell.key}module", "no")
    return {"yes": "Lmod", "no": _NO_MODULE}.get(said, facts.get(f"{shell.key}tool") or "an unknown `module`")


def module_commands(evidence: Evidence) -> Rows:
    """Yield nodes whose `module` differs from that of like nodes, and kinds of shell that differ from login bash.

    A kind of shell without `module`, where login bash has one, also differs.
    """
    usual: dict[tuple[str, str], str] = {}  # account, node -> what login bash has
    probed = [shell.having("module") for shell in evidence.each_shell()]
    for shell in probed:
        if shell.context.name == "bash-login":
            usual |= {(shell.account, n): _module_command(g.facts, shell) for g in shell.fleet.groups for n in g.nodes}
    if usual and set(usual.values()) == {_NO_MODULE}:
        yield evidence.say("no_module_at_all", {node for _, node in usual})
        return
    for shell in probed:
        values = shell.fleet.by(lambda facts, shell=shell: _module_command(facts, shell))  # type: ignore[misc]
        yield evidence.compared("module", values, shell)
        if shell.context.shell == "wrap" or len(values) > 1:  # wrap reads no start-up file; else reported above
            continue
        for found, nodes in values.items():
            severity: Severity = "note" if found == _NO_MODULE else "warning"
            other: dict[str, list[str]] = {}
            for node in nodes:
                other.setdefault(usual.get((shell.account, node), found), []).append(node)
            for right, of in other.items():
                if right not in (found, _NO_MODULE):
                    yield evidence.say("module_of_other_shells", of, shell, severity, found=found, right=right)
