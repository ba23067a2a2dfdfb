"""`module`, and the parts of MODULEPATH other than the generation: compared between nodes, and between shells of a
node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from envmgr.audit.baseline import Compared
from envmgr.audit.causes import Traced, TraceQuestion, Traces, line_of, part_of, parts_of
from envmgr.audit.compare.between_nodes import in_other_shells, other_parts
from envmgr.audit.hints import Hint, LinePlace, look
from envmgr.audit.model import AskedShell, Evidence, Rows, Values
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


def _has_modules(facts: Facts, shell: AskedShell, evidence: Evidence) -> bool:
    """Return True if a shell has modules to compare: envmgr's or, where nothing is published, a `module` command."""
    if evidence.alone:
        return _module_command(facts, shell) != _NO_MODULE
    return bool(generations_in_path(facts, shell, evidence))


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


def _rest(facts: Facts, shell: AskedShell, evidence: Evidence) -> list[str]:
    parts = elements(facts.get(f"{shell.key}modulepath", ""))
    return [part for part in parts if not part.startswith(f"{evidence.site.prefix}/")]


def beside_generation(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield the differences between nodes in the other parts of MODULEPATH.

    Nodes without the generation are left out: that has one cause, which is reported by itself.
    """
    ours = shell.only(lambda facts: _has_modules(facts, shell, evidence))
    if evidence.alone and not ours.fleet.groups:  # no shell of this kind has `module`; those started from it may
        ours = shell.having("modulepath")
    values = ours.fleet.by(lambda facts: ":".join(_rest(facts, shell, evidence)))
    besides = "" if evidence.alone else " apart from the generation"
    yield evidence.compared(
        "beside_generation",
        values,
        shell,
        hint=lambda between, known: _origin(shell, between, values, evidence, known=known),
        expect=lambda right, _: f"{right or 'nothing'}{besides}",
        told=lambda of: f"MODULEPATH {_difference(elements(of.value), elements(of.right))}",
        besides=besides,
    )


def _origin(
    shell: AskedShell, between: Sequence[Sequence[str]], values: Values, evidence: Evidence, *, known: bool
) -> Traced:
    """Return the hint that names the lines which add the parts that only some nodes have."""
    context, account = shell.context, shell.account
    parts = _not_everywhere(values, Compared("contexts", shell.where, "MODULEPATH"), evidence)
    asked = ("MODULEPATH", *parts_of("MODULEPATH", parts))

    def line(nodes: Sequence[str], traces: Traces) -> LinePlace | None:
        value = next((value for value, having in values.items() if nodes and nodes[0] in having), "")
        brings = (part_of("MODULEPATH", part) for part in elements(value) if part in parts)
        places = (traces.foreign(nodes, context, account, name) for name in brings)
        found = next((place for place in places if place), None) or traces.culprit(
            nodes, context, account, "MODULEPATH"
        )
        if (
            found is None and evidence.alone
        ):  # if only parts are missing, another line sets it there, or the session does
            return traces.foreign(nodes, context, account, "MODULEPATH")
        return found

    def hint(traces: Traces) -> Hint:
        lines = [(line(of, traces), of) for of in between]
        file, source = traces.list_file([node for of in between for node in of], context, account)
        if source and all(place is None or place.file == file for place, _ in lines):  # no other had a part in it
            return look(f"Lmod's own file makes it of {source}: compare that, and whether its folders are there")
        unplaced = "compare /etc/profile.d, /etc/lmod/modulespath and /etc/environment"
        return line_of(lines, unplaced, "MODULEPATH", traces.profiles, known=known, is_list=True)

    return Traced(tuple(TraceQuestion(of[0], context, account, asked) for of in between if of), hint)


def _not_everywhere(values: Mapping[str, tuple[str, ...]], compared: Compared, evidence: Evidence) -> list[str]:
    """Return the parts of MODULEPATH that some nodes, or a baseline, have and others lack."""
    known = (evidence.baseline.right(compared) or {}) if evidence.baseline is not None else {}
    lists = {*values, *known.values()}
    having = Counter(part for value in lists for part in elements(value))
    return [part for part, count in having.items() if count < len(lists)]


def path_in_other_shells(evidence: Evidence) -> Rows:
    """Yield the differences in the other parts of MODULEPATH between each shell and that account's login bash."""

    def parts(facts: Facts, shell: AskedShell) -> list[str] | None:
        return _rest(facts, shell, evidence) if _has_modules(facts, shell, evidence) else None

    return in_other_shells(evidence, "MODULEPATH", parts)


def _difference(found: list[str], right: list[str]) -> str:
    also = [path for path in found if path not in right]
    lacks = [path for path in right if path not in found]
    return other_parts(also, lacks) or f"has another order: {':'.join(found)}"
