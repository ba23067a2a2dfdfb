"""The dynamic linker works the same on every node: /etc/ld.so.preload, the folders of /etc/ld.so.conf.d, and its cache.

If a preloaded library is gone, each program says so on stderr, where scripts read it as data. If all nodes preload the
same library, it is a note. Folders that only one node has give programs of modules other libraries there.

Among nodes with the same folders, the check compares the libraries that /etc/ld.so.cache has from folders other than
the system's. It reports them by name. A library that programs get in the place of the system's of that name is a
warning, and an error if the loader gives it to an entry (the check `libraries` asks it). If a library lies in a folder and not in the cache, because nobody ran `ldconfig`
since, no program finds it. A folder from which the cache has nothing is reported even on a single node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from envmgr.audit.compare.between_nodes import as_on, compare, other_lines, other_parts
from envmgr.audit.fit.install_facts import standing_on
from envmgr.audit.model import Check, Drift, Evidence, Outlier, Rows, scripts
from envmgr.audit.table import Steps, fields_of, short
from envmgr.probe.model import Facts, Fleet
from envmgr.report import Severity
from envmgr.system.shelltext import appended, quote


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.looked("linker")
    for missing, nodes in fleet.by_value("linker.missing").items():
        yield evidence.say("missing", nodes, libraries=missing)
    values = fleet.by_value("linker.preload", default="")
    yield evidence.compared("preload", values)
    if len(values) == 1 and (preloaded := next(iter(values))):
        yield evidence.say("preloaded", values[preloaded], libraries=preloaded)
    yield _folders(fleet, evidence)
    yield from _cache(fleet, evidence)


def _folders(fleet: Fleet, evidence: Evidence) -> Drift:
    """Return the comparison of configured folders: an error if an entry gets libraries from one that some nodes lack."""
    values = fleet.by_value("linker.folders", default="")
    lines = {value: frozenset(value.splitlines()) for value in values}
    of_some = {line for of in lines.values() for line in of if not all(line in each for each in lines.values())}
    folders = {line.partition(" ")[0].rstrip("/") for line in of_some}
    of_groups = (_standing(group.facts, evidence).items() for group in fleet.groups)
    used = {pair: entries for of_group in of_groups for pair, entries in of_group if pair[0] in folders}

    def told(of: Outlier) -> str:
        own = {line.partition(" ")[0].rstrip("/") for line in lines[of.value]}
        return other_lines(of) + _used({pair: entries for pair, entries in used.items() if pair[0] in own})

    outliers = compare(values, evidence).outliers
    hint = _as_others(outliers[0], fleet) if len(outliers) == 1 else ""
    return evidence.compared("folders", values, severity="error" if used else None, told=told, hint=hint)


def _as_others(of: Outlier, fleet: Fleet) -> Steps:
    """Return how to take out the lines that only the outlier has, and to add those that it lacks.

    What a package wrote is for people: another version of it, or none, is on the other nodes.
    """
    here, there = (dict.fromkeys(value.splitlines()) for value in (of.value, of.right))
    own, others = _packages(of.nodes, fleet), _packages(of.others, fleet)
    written = {line.removesuffix(")").rpartition(" (")[2] for line in here} | {"/etc/ld.so.conf"}
    commands = []
    for line in {**here, **there}:
        text, _, file = line.removesuffix(")").rpartition(" (")
        package = own.get(file) or ("" if file in written else others.get(file))
        if package and (line in there) != (line in here):
            return Steps(
                look=f"{file} is as the package {package} wrote it: the same package on all nodes, then `ldconfig`"
            )
        if line not in there:
            pattern = re.sub(r"([][\\.*^$%])", r"\\\1", text)
            expression = rf"\%^[[:space:]]*{pattern}[[:space:]]*$%d"
            commands.append(f"sed -i {quote(expression)} {quote(file)}")
        elif line not in here:
            commands.append(appended(text, file))
    look = "programs take libraries from there, Lmod's Lua, too"
    return Steps(run=" && ".join([*commands, "ldconfig"]), look=look)


def _packages(nodes: Iterable[str], fleet: Fleet) -> dict[str, str]:
    """Return file -> package, of settings that are as it wrote them on some of these nodes."""
    lines = fleet.by_line("linker.packaged").items()
    return dict(line.split(" ", 1) for line, having in lines if {*having} & {*nodes})


def _standing(facts: Facts, evidence: Evidence) -> dict[tuple[str, str], list[str]]:
    return standing_on(evidence.plan.without_own_path, facts)


def _used(standing: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Return in words which entries get which of these libraries."""
    entries = sorted({entry for of in standing.values() for entry in of})
    return f"; {', '.join(entries)} {'gets' if len(entries) == 1 else 'get'} {_said(standing)}" if entries else ""


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
    standing = {each: entries for each, entries in _standing(facts, evidence).items() if each in also}
    rows = (fields_of(line, 3) for line in facts.get("linker.shadows", "").splitlines())
    shadows = {(folder, name): package for folder, name, package in rows}
    first = {each for each in also - left if each in standing or each in shadows}
    if lost:
        yield evidence.say("lost", nodes, libraries=_said(lost), right=right, against=of.others)
    for row, pairs in (("left", left), ("first", first)):
        used = _used({each: standing[each] for each in pairs if each in standing})
        if pairs:
            severity: Severity | None = "error" if used else None
            hint = Steps() if row == "left" else _away(pairs, shadows)
            yield evidence.say(
                row, nodes, None, severity, hint=hint, libraries=_said(pairs), used=used, right=right, against=of.others
            )
    if words := other_parts([_said(rest)] if (rest := also - left - first) else [], [_said(lacks)] if lacks else []):
        yield evidence.say("other_libraries", nodes, words=words, right=right, against=of.others)


def _away(pairs: Iterable[tuple[str, str]], packages: Mapping[tuple[str, str], str]) -> Steps:
    """Return how to move libraries, with all their names, to where the linker does not look; not those of a package."""
    if not all(packages.get(pair) == "" for pair in pairs):
        of_package = ", ".join(sorted({*filter(None, packages.values())}))
        what = f"the package {of_package} has them" if of_package else "`dpkg -S` or `rpm -qf` tells whose they are"
        return Steps(look=f"on the node: {what}: is it intended there? else take it away, then `ldconfig`")
    of: dict[str, list[str]] = {}
    for folder, name in sorted(pairs):
        of.setdefault(folder, []).append(f"{quote(f'{folder}/{name}')}*")
    moves = [
        f"mkdir -p {quote(f'{folder}/away')} && mv {' '.join(names)} {quote(f'{folder}/away')}"
        for folder, names in of.items()
    ]
    return Steps(run=" && ".join([*moves, "ldconfig"]))


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
