"""Shared libraries that an entry's programs and libraries need and the node lacks, by `ldd` on the node.

`audit.ldd` in site.yaml sets how much the check looks at:

- `sample`: up to 12 files of `bin` and `lib` of each sampled entry (`--modules` names the entries), as far as time
  allows;
- `full`: every program and library of the entry;
- `none`: nothing.

`ldd` runs as the ordinary user, never as root, with nothing of a shell's environment. Libraries that come with NVIDIA's
driver (`libcuda.so.1` and its relatives) are not missing on a node without driver. A library that the entry has
elsewhere in its own tree is not missing either, because a program of the entry loads that one first. A library that
other nodes have is an error; a library that no node has is a warning.

Which libraries of the system programs get is compared by the check `inventory`.
"""

from __future__ import annotations

from envmgr.audit.fit.install_facts import missing_libraries
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.nodes.sets import fold
from envmgr.probe.model import Fleet, grouped
from envmgr.system.shelltext import script_text, words

_LINES = 40  # so many missing libraries of an entry at most


def probe(plan: AuditPlan) -> ProbeTexts:
    how = plan.site.audit.ldd
    entries = [entry for entry in plan.samples if entry in plan.roots]
    if how == "none" or not entries:
        return {}
    homes = {**plan.roots, **{entry: tree.path for entry, tree in plan.outside.items()}}
    pairs = (word for entry in entries for word in (entry, homes[entry]))
    look = words(script_text(__file__, "look.sh"), how, str(plan.share(2) - 1), str(_LINES), *pairs)
    return {"prefix": f"look_as_user libraries {plan.share(2)} {look}\n"}


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.fleet.sound
    for entry in evidence.plan.samples:
        looked = fleet.only(lambda facts, key=f"libraries.looked.{entry}": key in facts)  # type: ignore[misc]
        yield from _missing(entry, looked, evidence)


def _missing(entry: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield the libraries that an entry lacks: in one finding those that the same nodes lack."""
    missing = fleet.by_each(lambda facts: missing_libraries(entry, facts))
    for nodes, libraries in grouped((nodes, library) for library, nodes in missing.items()).items():
        others, first = fold(node for node in fleet.nodes if node not in nodes), libraries[0]
        row, file = "missing_on_some" if others else "missing", missing_libraries(entry, fleet.told[nodes[0]])[first][0]
        names = ", ".join(libraries)
        yield evidence.say(row, nodes, entry=entry, libraries=names, first=first, file=file, others=others)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
