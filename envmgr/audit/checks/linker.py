"""The dynamic linker does the same for every program on every node: /etc/ld.so.preload, and the folders of /etc/ld.so.conf.d.

A preloaded library that is gone makes each program say so on stderr, where scripts read it for data. Folders that one node alone has
give programs of modules other libraries there. Where all nodes preload the same, it is a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.comparing import drift
from envmgr.audit.folding import other_parts, short
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import ProbeStage
from envmgr.system.shelltext import script_text

_PRELOAD, _FOLDERS = "/etc/ld.so.preload", "/etc/ld.so.conf.d"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"node": script_text(__file__, "node.sh")}


def judge(evidence: Evidence) -> Iterator[Finding]:
    fleet = evidence.looked("linker")
    for missing, nodes in fleet.by_value("linker.missing").items():
        libraries = ", ".join(missing.splitlines())
        yield Finding(
            "linker", "warning", _PRELOAD, f"names {short(libraries)}, which is not there: every program says so on stderr",
            "libraries that are there", "on the node: take the line out of the file, or install the library", fold(nodes),
        )  # fmt: skip
    values = fleet.by_value("linker.preload", default="")
    yield from drift(
        "linker", _PRELOAD, values, evidence, hint=f"the same {_PRELOAD} on every node, or none: every program loads what it names",
        say=lambda lines: f"preloads {short(', '.join(lines.splitlines()))}" if lines else "nothing preloaded",
    )  # fmt: skip
    if len(values) == 1 and (preloaded := next(iter(values))):
        yield Finding(
            "linker", "note", _PRELOAD, f"every program loads {short(', '.join(preloaded.splitlines()))}", "nothing preloaded",
            "is it meant? programs of modules load it, too", fold(values[preloaded]),
        )  # fmt: skip
    yield from drift(
        "linker", _FOLDERS, fleet.by_value("linker.folders", default=""), evidence,
        hint=f"the same lines in {_FOLDERS} on every node, then `ldconfig`: programs take libraries from there, Lmod's Lua, too",
        say=lambda lines: short(", ".join(lines.splitlines())) or "nothing",
        told=lambda of: short(other_parts(_without(of.value, of.right), _without(of.right, of.value), ", ")),
    )  # fmt: skip


def _without(lines: str, others: str) -> list[str]:
    return [line for line in lines.splitlines() if line not in others.splitlines()]


__all__ = ["judge", "probe"]
