"""Folders of modules, and of the software that they name, lie on the same network file systems on every node.

In the ordinary user's login shell, the check looks at each folder of MODULEPATH outside the prefix. It also looks at
the first two parts of each path that its modulefiles name (`/apps/gcc`, `/opt/intel`). If any node has them on a
network mount, all like nodes must have that mount. Its type, source and options must be the same, with nothing else
mounted over it. Over a folder on a local disk, no node may have a bind mount or a file system without a disk that the
other nodes do not have. A folder of MODULEPATH that all like nodes name and no node has is a warning, but for those that
Lmod's and the distribution's own files put there, and for a user's own. No folder, on a local disk or a network mount,
may be mounted noexec on only one node. The checks
`modulefiles` and `site-modules` look at the content of folders on local disks.
"""

from __future__ import annotations

from collections.abc import Iterable

from envmgr.audit.baseline import Compared
from envmgr.audit.causes import part_of
from envmgr.audit.compare.between_nodes import as_on, compare, is_new, values_of_like_nodes
from envmgr.audit.model import Check, Evidence, Outlier, Rows, scripts
from envmgr.audit.table import short
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts
from envmgr.probe.shell import looked_key
from envmgr.system.shelltext import quote

_GONE, _OVER = "not mounted", "over "


def judge(evidence: Evidence) -> Rows:
    told = evidence.shells.only(lambda facts: "folders.at" in facts or "folders.mounts" in facts)
    for point in _points(evidence):
        values = told.by(lambda facts, point=point: _lines(facts, "folders.mounts").get(point, _GONE))  # type: ignore[misc]
        mounted = next((value for value in values if value != _GONE and not value.startswith(_OVER)), "")
        source = [*mounted.removeprefix(_OVER).split(" "), ""][1]
        row = "not_mounted" if _GONE in values else "other_mount"
        if any(value.startswith(_OVER) for value in values):
            row += "_and_covered"
        elif _GONE not in values and is_new(Compared("folders", point, ""), evidence):
            row = "new_mount"
        yield evidence.compared(row, values, point=point, source=source, say=_in_words)
    yield from _covered(evidence)
    yield from _nowhere(evidence)
    noexec = evidence.shells.only(lambda facts: "folders.at" in facts).by_value("folders.noexec", default="")
    points = sorted({line.partition(" ")[0] for value in noexec for line in value.splitlines()})
    commands = ", ".join(f"`mount -o remount,exec {quote(point)}`" for point in points[:4])
    yield evidence.compared("noexec", noexec, commands=commands, say=_barred, told=_noexec)


def _covered(evidence: Evidence) -> Rows:
    """Yield what is mounted over a local folder on nodes whose like nodes have nothing there."""
    told = evidence.shells.only(lambda facts: "folders.at" in facts)
    network = _points(evidence)
    for point in sorted({point for group in told.groups for point in _lines(group.facts, "folders.over")} - {*network}):
        values = told.by(lambda facts, point=point: _lines(facts, "folders.over").get(point, ""))  # type: ignore[misc]
        for of in compare(values, evidence).outliers:
            if of.value and not of.right:
                yield evidence.say(
                    "covered", of.nodes, point=point, what=of.value, as_on=as_on(of.others), against=of.others
                )


def _nowhere(evidence: Evidence) -> Rows:
    """Yield folders of MODULEPATH that no node has, and that start-up files of all like nodes name."""
    fleet = evidence.fleet.sound.only(lambda facts: looked_key("folders", "login") in facts)
    here = evidence.here.sound if evidence.here else None
    for folder in sorted(fleet.by_line("folders.gone")):
        values = fleet.by(lambda facts, folder=folder: _state(folder, facts))  # type: ignore[misc]
        if "there" in values:
            continue
        alike = [of for of in values_of_like_nodes(values, evidence) if list(of) == ["gone"]]
        has = here.only(lambda facts, folder=folder: _state(folder, facts) == "there").nodes if here else ()  # type: ignore[misc]
        if nodes := tuple(node for of in alike for node in of["gone"]):
            if here is not None and not has:  # its start-up files name it, too
                nodes += here.only(lambda facts, folder=folder: _state(folder, facts) == "gone").nodes  # type: ignore[misc]
            where = f"{fold(has)} only" if has else "no node"
            names = part_of("MODULEPATH", folder)
            yield evidence.say("nowhere", nodes, evidence.user_login, folder=folder, where=where, names=names)


def _state(folder: str, facts: Facts) -> str:
    if folder in facts.get("folders.gone", "").splitlines():
        return "gone"
    named = (line.partition(" ")[2] for line in facts.get("folders.at", "").splitlines())
    return "there" if folder in named else "not named"


def _in_words(value: str) -> str:
    if value.startswith(_OVER):
        return short(f"{value.removeprefix(_OVER)}, mounted over a network mount")
    return short(value) or _GONE  # a baseline may lack it


def _barred(lines: str) -> str:
    return f"mounted noexec: {_folders(lines.splitlines())}" if lines else "no noexec for modules and what they name"


def _noexec(of: Outlier) -> str:
    also = [line for line in of.value.splitlines() if line not in of.right.splitlines()]
    less = [line for line in of.right.splitlines() if line not in of.value.splitlines()]
    words = [f"mounted noexec: {_folders(also)}"] if also else []
    return short("; ".join(words + ([f"not mounted noexec: {_folders(less)}"] if less else [])))


def _folders(lines: Iterable[str]) -> str:
    return short(", ".join(line.partition(" ")[2] for line in lines))


def _points(evidence: Evidence) -> list[str]:
    """Return the mount points of network file systems on which some node has modules, or what they name."""
    used = {point for group in evidence.shells.groups for point in _lines(group.facts, "folders.at")}
    return sorted(used & {point for group in evidence.shells.groups for point in _lines(group.facts, "folders.mounts")})


def _lines(facts: Facts, key: str) -> dict[str, str]:
    parts = (line.partition(" ") for line in facts.get(key, "").splitlines())
    return {first: second for first, _, second in parts}


CHECK = Check(judge=judge, probe=scripts(__file__, "login"))
