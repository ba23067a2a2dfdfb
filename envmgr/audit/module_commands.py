"""Whose `module` command each shell has, where nothing of ours is published: node against node, and context against context."""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.comparing import drift
from envmgr.audit.model import Evidence
from envmgr.audit.modulepath import NO_MODULE, module_command
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import Facts, Fleet
from envmgr.probe.shell import context_key


def module_commands(evidence: Evidence) -> Iterator[Finding]:
    """Nodes that have another than their like; and kinds of shell that have none, or another, where login bash has one."""
    usual: dict[tuple[str, str], str] = {}  # account, node -> what login bash has
    probed = [
        (context, account, context_key(context, account), _probed(fleet, context_key(context, account)))
        for context, account, fleet in evidence.contexts()
    ]
    for context, account, key, fleet in probed:
        if context.name == "bash-login":
            usual |= {(account, n): module_command(g.facts, key) for g in fleet.groups for n in g.nodes}
    if usual and set(usual.values()) == {NO_MODULE}:
        lacking = {node for _, node in usual}
        yield Finding(
            "contexts",
            "error",
            "login shells",
            "there is no `module` command, of Lmod or of Environment Modules",
            "one of them",
            "install one; or is it not for all users? `type module` in a login shell",
            fold(lacking),
        )
        return
    for context, account, key, fleet in probed:
        where = evidence.shell(context, account)
        values = fleet.by(lambda facts, key=key: module_command(facts, key))  # type: ignore[misc]
        yield from drift(
            "contexts",
            where,
            values,
            evidence,
            what="module",
            severity="error",
            say=lambda value: value,
            hint="is it installed there, and is its file in /etc/profile.d read? `type module` in that shell",
        )
        for value, nodes in values.items():
            other: dict[str, list[str]] = {}
            for node in nodes:
                if (right := usual.get((account, node), value)) not in (value, NO_MODULE):
                    other.setdefault(right, []).append(node)
            for right, of in other.items():
                if context.shell == "wrap" or len(values) > 1:  # which reads no start-up file; or told above
                    continue
                yield Finding(
                    "contexts",
                    "note" if value == NO_MODULE else "warning",
                    where,
                    value,
                    f"{right}, as in bash-login",
                    "which start-up file defines `module`? not all shells read it: see `envmgr audit --explain contexts`",
                    fold(of),
                )


def _probed(fleet: Fleet, key: str) -> Fleet:
    def has(facts: Facts) -> bool:
        return f"{key}module" in facts

    return fleet.only(has)
