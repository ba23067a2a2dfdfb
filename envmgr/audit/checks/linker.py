"""The dynamic linker works the same on every node: /etc/ld.so.preload, the folders of /etc/ld.so.conf.d, and its cache.

If a preloaded library is gone, each program says so on stderr, where scripts read it as data. If all nodes preload the
same library, it is a note. Folders that only one node has give programs of modules other libraries there.

Among nodes with the same folders, the check compares the libraries that /etc/ld.so.cache has from folders other than
the system's. It reports them by name. If a library lies in a folder and not in the cache, because nobody ran `ldconfig`
since, no program finds it. A folder from which the cache has nothing is reported even on a single node.
"""

from __future__ import annotations

from collections.abc import Iterable

from envmgr.audit.compare.between_nodes import as_on, compare, other_lines, other_parts
from envmgr.audit.model import Check, Evidence, Outlier, Rows, scripts
from envmgr.audit.table import short
from envmgr.probe.model import Facts, Fleet


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.looked("linker")
    for missing, nodes in fleet.by_value("linker.missing").items():
        yield evidence.say("missing", nodes, libraries=missing)
    values = fleet.by_value("linker.preload", default="")
    yield evidence.compared("preload", values)
    if len(values) == 1 and (preloaded := next(iter(values))):
        yield evidence.say("preloaded", values[preloaded], libraries=preloaded)
    yield evidence.compared("folders", fleet.by_value("linker.folders", default=""), told=other_lines)
    yield from _cache(fleet, evidence)


def _cache(fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield cache entries that `ldconfig` would change and, as a note, other libraries that lie in the folders."""
    asked = fleet.only(lambda facts: "linker.cache" in facts)
    told: set[str] = set()
    for folders in asked.by_value("linker.folders", default=""):
        same = asked.only(lambda facts, folders=folders: facts.get("linker.folders", "") == folders)  # type: ignore[misc]
        for of in compare(same.by_value("linker.cached", default=""), evidence).outliers:
            for group in same.groups:
                if nodes := tuple(node for node in group.nodes if node in of.nodes):
                    told |= {*nodes} if _lost(of, group.facts) else set()
                    yield from _unlike(of, group.facts, nodes, evidence)
    for group in asked.groups:
        nodes = tuple(node for node in group.nodes if node not in told)
        newer, known = group.facts.get("linker.newer"), {folder for folder, _ in _names(group.facts, "cached")}
        lost = sorted(each for each in _names(group.facts, "uncached") if each[0] not in known)
        if nodes and newer and lost:
            row = "no_cache" if newer == "missing" else "old_cache"
            yield evidence.say(row, nodes, libraries=_said(lost), newer=newer)


def _unlike(of: Outlier, facts: Facts, nodes: tuple[str, ...], evidence: Evidence) -> Rows:
    lost, right = _lost(of, facts), as_on(of.others)
    also, lacks = _pairs(of.value) - _pairs(of.right), _pairs(of.right) - _pairs(of.value) - lost
    configured = {line.partition(" ")[0].rstrip("/") for line in facts.get("linker.folders", "").splitlines()}
    left = {each for each in also if each[0] not in configured}
    if lost:
        yield evidence.say("lost", nodes, libraries=_said(lost), right=right)
    if left:
        yield evidence.say("left", nodes, libraries=_said(left), right=right)
    if words := other_parts([_said(also - left)] if also - left else [], [_said(lacks)] if lacks else []):
        yield evidence.say("other_libraries", nodes, words=words, right=right)


def _lost(of: Outlier, facts: Facts) -> set[tuple[str, str]]:
    """Return each (folder, name) that the other nodes' cache has and this node has only in the folder.

    The file there has that name, or the name of a version of it.
    """
    there = _names(facts, "uncached")
    lacks = _pairs(of.right) - _pairs(of.value)
    return {
        (folder, name)
        for folder, name in lacks
        for at, file in there
        if at == folder and f"{file}.".startswith(f"{name}.")
    }


def _names(facts: Facts, key: str) -> set[tuple[str, str]]:
    return _pairs(facts.get(f"linker.{key}", ""))


def _pairs(lines: str) -> set[tuple[str, str]]:
    """Return (folder, name) for each name in lines `FOLDER NAME NAME…`."""
    rows = (line.split() for line in lines.splitlines())
    return {(row[0], name) for row in rows for name in row[1:]}


def _said(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the pairs in words: `libx.so.1, liby.so.2 of /opt/lib`."""
    of: dict[str, list[str]] = {}
    for folder, name in sorted(pairs):
        of.setdefault(folder, []).append(name)
    return "; ".join(f"{short(', '.join(names))} of {folder}" for folder, names in of.items())


CHECK = Check(judge=judge, probe=scripts(__file__, "node"))
