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
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.fit.install_facts import missing_libraries
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.wording import short
from envmgr.nodes.sets import fold
from envmgr.probe.model import ProbeStage
from envmgr.system.shelltext import assign, script_text, words

_LINES = 40  # so many missing libraries of an entry at most


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    how = plan.site.audit.ldd
    entries = [entry for entry in plan.samples if entry in plan.roots]
    if how == "none" or not entries:
        return {}
    pairs = (word for entry in entries for word in (entry, plan.roots[entry]))
    given = assign(libraries_seconds=_seconds(plan), libraries_look=script_text(__file__, "look.sh"))
    arguments = f"set -- {words(how, str(_seconds(plan) - 1), str(_LINES), *pairs)}\n"
    return {"prefix": given + arguments + script_text(__file__, "prefix.sh")}


def _seconds(plan: AuditPlan) -> int:
    """Return half of the seconds that all reads of the prefix may take: other checks run after this one."""
    return max(2, plan.seconds // 2)


def judge(evidence: Evidence) -> Iterator[Row]:
    fleet = evidence.fleet.sound
    of_all = evidence.site.audit.ldd == "full"  # a sample is what fits into the time
    for nodes in fleet.by_value("libraries.end").values() if of_all else ():
        yield Found(
            "note",
            "ldd",
            f"not done in {_seconds(evidence.plan)} s",
            "every chosen file looked at",
            "a longer --node-timeout, fewer --modules, or `audit.ldd: sample`",
            nodes,
        )
    for entry in evidence.plan.samples:
        looked = fleet.only(lambda facts, key=f"libraries.looked.{entry}": key in facts)  # type: ignore[misc]
        lacking: dict[str, list[str]] = {}
        needed_by: dict[str, str] = {}
        for group in looked.groups:
            for library, files in missing_libraries(entry, group.facts).items():
                lacking.setdefault(library, []).extend(group.nodes)
                needed_by.setdefault(library, files.split(" ", 1)[0])
        together: dict[tuple[str, ...], list[str]] = {}
        for library, without in lacking.items():
            together.setdefault(tuple(without), []).append(library)
        for lacking_nodes, libraries in together.items():
            others = [node for node in looked.nodes if node not in lacking_nodes]
            yield Found(
                "error" if others else "warning",
                entry,
                short(f"no {', '.join(libraries)}"),
                f"what {needed_by[libraries[0]]} needs{f', as on {fold(others)}' if others else ''}",
                f"`dnf provides '*/{libraries[0]}'` or `apt-file search {libraries[0]}` names the package to install",
                lacking_nodes,
            )


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
