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

The check also asks which files the loader gives to an entry from outside of the store, such as libc and libstdc++, and
compares them between nodes with the same operating system. Another version is an error, and another build of the same
version is a note. What comes from folders of /etc/ld.so.conf.d is a finding of the check `linker`, and a node with
another operating system one of `fitness`.
"""

from __future__ import annotations

from functools import partial

from envmgr.audit.compare.between_nodes import as_on, by_name, compare
from envmgr.audit.fit.install_facts import folder_of, missing_libraries, outside_libraries
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, Fleet
from envmgr.system.shelltext import assign, script_text, words

_LINES = 40  # so many missing libraries of an entry at most


def probe(plan: AuditPlan) -> ProbeTexts:
    how = plan.site.audit.ldd
    entries = [entry for entry in plan.samples if entry in plan.roots]
    if how == "none" or not entries:
        return {}
    homes = {**plan.roots, **{entry: tree.path for entry, tree in plan.outside.items()}}
    pairs = (word for entry in entries for word in (entry, homes[entry]))
    given = assign(libraries_seconds=_seconds(plan), libraries_look=script_text(__file__, "look.sh"))
    arguments = f"set -- {words(how, str(_seconds(plan) - 1), str(_LINES), *pairs)}\n"
    return {"prefix": given + arguments + script_text(__file__, "prefix.sh")}


def _seconds(plan: AuditPlan) -> int:
    """Return half of the seconds that all reads of the prefix may take: other checks run after this one."""
    return max(2, plan.seconds // 2)


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.fleet.sound
    of_all = evidence.site.audit.ldd == "full"  # a sample is what fits into the time
    for nodes in fleet.by_value("libraries.end").values() if of_all else ():
        yield evidence.say("no_end", nodes, seconds=_seconds(evidence.plan))
    for entry in evidence.plan.samples:
        looked = fleet.only(lambda facts, key=f"libraries.looked.{entry}": key in facts)  # type: ignore[misc]
        yield from _missing(entry, looked, evidence)
    yield from _outside(fleet, evidence)


def _missing(entry: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield the libraries that an entry lacks: in one finding those that the same nodes lack."""
    together: dict[tuple[str, ...], list[str]] = {}
    for library, lacking in fleet.by_each(lambda facts: missing_libraries(entry, facts)).items():
        together.setdefault(lacking, []).append(library)
    for nodes, libraries in together.items():
        first, others = libraries[0], [node for node in fleet.nodes if node not in nodes]
        files = next(
            found[first] for group in fleet.groups if first in (found := missing_libraries(entry, group.facts))
        )
        yield evidence.say(
            "missing_on_some" if others else "missing",
            nodes,
            entry=entry,
            libraries=", ".join(libraries),
            first=first,
            file=files.split(" ", 1)[0],
            others=fold(others),
            against=others,
        )


def _outside(fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield libraries of the system that are others on one node: all those of the same nodes together."""
    together: dict[tuple[str, tuple[str, ...], tuple[str, ...]], dict[tuple[str, ...], list[str]]] = {}
    for system in fleet.by_value("fitness.os", default=""):
        of_system = fleet.only(lambda facts, system=system: facts.get("fitness.os", "") == system)  # type: ignore[misc]
        for entry in evidence.plan.without_own_path:
            for library, values in by_name(of_system, partial(_outside_of, entry)).items():
                for of in compare({value: nodes for value, nodes in values.items() if value}, evidence).outliers:
                    (path, version, _), (usual, right, _) = of.value.split("|"), of.right.split("|")
                    if folder_of(path) == folder_of(usual) or path.startswith(
                        ("/lib", "/usr/lib")
                    ):  # else see `linker`
                        row = "other_build" if version == right else "other_version"
                        found = together.setdefault((row, of.nodes, of.others), {})
                        found.setdefault((library, path, version, right), []).append(entry)
    for (row, nodes, others), found in together.items():
        (library, path, version, right), *more = sorted(found)
        yield evidence.say(
            row,
            nodes,
            entries=", ".join(sorted({entry for of in found.values() for entry in of})),
            library=library,
            path=path,
            version=version,
            right=right,
            more=f"; also another {', '.join(name for name, *_ in more)}" if more else "",
            others=as_on(others),
            against=others,
        )


def _outside_of(entry: str, facts: Facts) -> dict[str, str]:
    return {library: "|".join(of) for library, of in outside_libraries(entry, facts).items()}


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
