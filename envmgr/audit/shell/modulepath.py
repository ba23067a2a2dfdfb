"""Parts of MODULEPATH other than the generation: compared between nodes, and between contexts on one node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from envmgr.audit.baseline import Compared
from envmgr.audit.causes import Traced, TraceQuestion, Traces, part_of, places_in_words, set_by
from envmgr.audit.compare.between_nodes import Across, across, drift
from envmgr.audit.model import Evidence, Found, Row
from envmgr.audit.wording import elements, other_parts, short
from envmgr.probe.model import Facts, Fleet, ShellAccount, ShellContext
from envmgr.probe.shell import context_key

_PARTS = 8  # so many parts of a list are traced at most


def generations_in_path(facts: Facts, key: str, evidence: Evidence) -> list[str]:
    pattern = re.compile(re.escape(f"{evidence.site.prefix}/") + r"(?:generations/([0-9]{4,})|(current))/modules")
    matches = (pattern.fullmatch(part) for part in elements(facts.get(f"{key}modulepath", "")))
    return [m[1] or m[2] for m in matches if m]


def has_modules(facts: Facts, key: str, evidence: Evidence) -> bool:
    """Return True if a shell has modules to compare: envmgr's or, where nothing is published, a `module` command."""
    if evidence.alone:
        return module_command(facts, key) != NO_MODULE
    return bool(generations_in_path(facts, key, evidence))


NO_MODULE = "no `module` command"


def module_command(facts: Facts, key: str) -> str:
    """Return the program to which a shell's `module` belongs."""
    said = facts.get(f"{key}module", "no")
    return {"yes": "Lmod", "no": NO_MODULE}.get(said, facts.get(f"{key}tool") or "an unknown `module`")


def _names(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(part_of("MODULEPATH", part) for part in parts[:_PARTS])


def _rest(facts: Facts, key: str, evidence: Evidence) -> list[str]:
    return [p for p in elements(facts.get(f"{key}modulepath", "")) if not p.startswith(f"{evidence.site.prefix}/")]


def _beside(
    context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence
) -> dict[str, tuple[str, ...]]:
    """Return the other parts of MODULEPATH -> the nodes.

    Nodes without the generation are left out: that has one cause, which is reported by itself.
    """
    key = context_key(context, account)
    ours = fleet.only(lambda facts: has_modules(facts, key, evidence))
    if evidence.alone and not ours.groups:  # no shell of this kind has `module`; those that are started from it may
        ours = fleet.only(lambda facts: f"{key}modulepath" in facts)
    return ours.by(lambda facts: ":".join(_rest(facts, key, evidence)))


def beside_generation(
    context: ShellContext, account: ShellAccount, where: str, fleet: Fleet, evidence: Evidence
) -> Iterator[Row]:
    """Yield the differences between nodes in the other parts of MODULEPATH."""
    values = _beside(context, account, fleet, evidence)
    besides = "" if evidence.alone else " besides the generation"
    yield from drift(
        where,
        values,
        evidence,
        what="MODULEPATH",
        hint=_origins(context, account, values, where, evidence),
        say=lambda value: f"MODULEPATH has {value or 'nothing'}{besides}",
        expect=lambda right, _: f"{right or 'nothing'}{besides}",
        told=lambda of: f"MODULEPATH {_difference(elements(of.value), elements(of.right))}",
    )


def _origins(
    context: ShellContext, account: ShellAccount, values: Mapping[str, tuple[str, ...]], where: str, evidence: Evidence
) -> Traced:
    """Return the hint that names the lines which add the parts that only some nodes have."""
    parts = _not_everywhere(values, Compared("contexts", where, "MODULEPATH"), evidence)
    asked = ("MODULEPATH", *_names(parts))

    def words(traces: Traces) -> str:
        traced = [
            (
                _brings([p for p in elements(value) if p in parts], nodes, context, account, traces)
                or traces.culprit(nodes, context, account, "MODULEPATH"),
                nodes,
            )
            for value, nodes in values.items()
        ]
        if evidence.alone:  # if only parts are missing, another line sets it there, or the session does
            known = {place for place, _ in traced if place}
            silent = [nodes for place, nodes in traced if not place]
            whole = [(traces.place(nodes, context, account, "MODULEPATH"), nodes) for nodes in silent]
            traced += [(place, nodes) for place, nodes in whole if place and place not in known]
        places = places_in_words(traced)
        file, source = traces.list_file([n for nodes in values.values() for n in nodes], context, account)
        if source and all(
            place.startswith(f"{file}:") for place, _ in traced if place
        ):  # no other file had a part in it
            compare = "compare that, and whether its folders are there"
            places.append(f"Lmod's own file makes it of {source}: {compare}")
        return "; ".join(places) or "compare /etc/profile.d, /etc/lmod/modulespath and /etc/environment"

    return Traced(tuple(TraceQuestion(nodes[0], context, account, asked) for nodes in values.values()), words)


def _not_everywhere(values: Mapping[str, tuple[str, ...]], compared: Compared, evidence: Evidence) -> list[str]:
    """Return the parts of MODULEPATH that some nodes, or a baseline, have and others lack."""
    known = (evidence.baseline.right(compared) or {}) if evidence.baseline is not None else {}
    lists = {*values, *known.values()}
    having = Counter(part for value in lists for part in elements(value))
    return [part for part, count in having.items() if count < len(lists)]


def _brings(
    parts: Sequence[str], nodes: tuple[str, ...], context: ShellContext, account: ShellAccount, traces: Traces
) -> str:
    """Return the line that first brings one of `parts` into the list of these nodes; empty where no trace shows it."""
    names = (part_of("MODULEPATH", part) for part in parts)
    return next((place for name in names if (place := traces.place(nodes, context, account, name))), "")


def _between_contexts(evidence: Evidence) -> list[Across]:
    """Return the differences between contexts that both have modules."""

    def parts(facts: Facts, key: str) -> list[str] | None:
        return _rest(facts, key, evidence) if has_modules(facts, key, evidence) else None

    return list(across(evidence, parts))


def in_other_contexts(evidence: Evidence) -> Iterator[Row]:
    """Yield the differences in the other parts of MODULEPATH between each context and that account's login bash."""
    for found in _between_contexts(evidence):
        parts, context = (found.lacks, found.usual) if found.lacks else (found.also, found.context)
        mend = "; a line in Lmod's modulespath is for every shell and job"
        hint = set_by(
            found.nodes,
            context,
            found.account,
            _names(parts),
            f" adds it in {context.name}{mend}",
            f"which start-up file of {context.name} adds it?{mend}",
        )
        words = other_parts(found.also, found.lacks)
        where = evidence.shell(found.context, found.account)
        yield Found("warning", where, f"MODULEPATH {short(words)}", f"as in {found.usual.name}", hint, found.nodes)


def _difference(found: list[str], right: list[str]) -> str:
    also = [path for path in found if path not in right]
    lacks = [path for path in right if path not in found]
    return other_parts(also, lacks) or f"has another order: {':'.join(found)}"
