"""Content of modulefile folders on the nodes: the shell function that reads it, and the differences of two answers.

The checks that use it share the table `folder_content.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envmgr.audit.compare.between_nodes import compare, merged
from envmgr.audit.model import Evidence, Outlier, Rows, Values
from envmgr.audit.openings import AS_OTHERS, open_steps
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.table import short
from envmgr.probe.model import Facts, Fleet, Group
from envmgr.system.shelltext import assign, script_text

_MOST, _DEEP = 10_000, 100_000  # so many files of a folder are read at most
_SECONDS, _DEEP_SECONDS = 5, 30  # for a list; twice that for contents
_HINTED = 8  # paths that a hint names
_ALL = "all files:"
_CLOSED = " closed"
_FACTS = ("files", "closed", "named", "absent", "dead")  # of one folder


def folder_content(*, deep: bool) -> str:
    """Return the shell function `folder_content`, with its bounds."""
    bounds = assign(content_most=_DEEP if deep else _MOST, content_seconds=_DEEP_SECONDS if deep else _SECONDS)
    return bounds + shared("named_paths") + script_text(__file__, "sh")


def by_folder(check: str, fleet: Fleet, *more: str) -> dict[str, Fleet]:
    """Return folder -> the answers of nodes that have it, from `folder_content` under a check's name.

    Their facts are those of this folder, without the check's name and the folder's number. `more` are facts of the
    check's own about a folder.
    """
    found: dict[str, list[Group]] = {}
    for group in fleet.groups:
        for key, value in group.facts.items():
            if key.startswith(f"{check}.sum."):
                sha256, _, folder = value.partition(" ")
                number = key.rpartition(".")[2]
                keys = {name: f"{check}.{name}.{number}" for name in (*_FACTS, *more)}
                facts = {name: group.facts[key] for name, key in keys.items() if key in group.facts}
                found.setdefault(folder, []).append(Group({**facts, "sum": sha256}, group.nodes))
    return {folder: Fleet(tuple(groups), {}, {}, ()) for folder, groups in sorted(found.items())}


def contents(fleet: Fleet) -> Values:
    """Return the content of one folder -> its nodes: a line for each reported file, and the sum over all files."""
    return fleet.by(_content)


def _content(facts: Facts) -> str:
    rows = (line.partition("  ") for line in facts.get("files", "").splitlines())
    files = sorted(f"{path.removeprefix('./')} {sha256[:16]}" for sha256, _, path in rows)
    return "\n".join([*files, f"{_ALL} {facts['sum'][:16]}"])


def changed(value: str, other: str) -> str:
    """Return the files that both have with other content; empty if only their names differ."""
    files, others = _files(value), _files(other)
    found = [path for path in files if path in others and files[path] != others[path]]
    if not found and files.keys() == others.keys():
        return f"files behind the first {len(files)}"
    return short(", ".join(found))


def names(value: str, other: str) -> str:
    """Return in words the files that `value` lacks, and those that only it has."""
    files, others = _files(value), _files(other)
    lacks, more = sorted(others.keys() - files.keys()), sorted(files.keys() - others.keys())
    return short("; ".join(f"{word} {', '.join(paths)}" for word, paths in (("lacks", lacks), ("has", more)) if paths))


def _files(text: str) -> Mapping[str, str]:
    """Return path below the folder -> the beginning of its sha256."""
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith(_ALL))
    return {path: sha256 for path, _, sha256 in rows}


def unusable(folder: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield what of it the user cannot read, and paths that its modulefiles name and one node lacks or closes.

    Files that the user can read on no node are the site's choice. A path that no node has may be made when it is
    needed, but modulefiles that name nothing that is there have lost their software.
    """
    values, user = fleet.by_value("closed", default=""), evidence.plan.user
    paths = [f"{folder}/{line}" for line in _lines(values)[:_HINTED]]
    yield evidence.compared(
        "closed",
        values,
        folder=folder,
        hint=open_steps(evidence.site, paths, whom=user, look=AS_OTHERS),
        told=lambda of: f"{user} cannot read {short(', '.join(_added(of)) or 'less than others')}",
    )
    yield from _dead(folder, fleet, evidence)
    looked = fleet.only(lambda facts: "named" in facts)  # else it was not looked at, or not to the end
    gone = looked.by(lambda facts: _lines_of(facts, is_closed=False))
    yield from _lacking("absent", "is not there", gone, folder, evidence)
    not_entered = looked.by(lambda facts: _lines_of(facts, is_closed=True))
    yield from _lacking("closed_path", f"{evidence.plan.user} cannot enter", not_entered, folder, evidence)


def _dead(folder: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield the modulefiles whose software no node has."""
    nodes = fleet.nodes
    dead = sorted(line for line, of in fleet.by_line("dead").items() if len(of) == len(nodes))
    if dead:
        count = (
            "a modulefile names what no node has"
            if len(dead) == 1
            else f"{len(dead)} modulefiles name what no node has"
        )
        said = "; ".join(line.replace(" /", " names /", 1) for line in dead)
        yield evidence.say("dead", nodes, folder=folder, count=count, said=said)


def _lines_of(facts: Facts, *, is_closed: bool) -> str:
    lines = facts.get("absent", "").splitlines()
    return "\n".join(line.removesuffix(_CLOSED) for line in lines if line.endswith(_CLOSED) == is_closed)


def _lacking(row: str, fault: str, values: Values, folder: str, evidence: Evidence) -> Rows:
    values = _without_more(values, evidence)
    paths = sorted({line.rpartition(" ")[2] for line in _lines(values)})
    opened = open_steps(evidence.site, paths[:_HINTED], whom="users", look=AS_OTHERS) if row == "closed_path" else ""
    yield evidence.compared(
        row,
        values,
        folder=folder,
        hint=opened,
        told=lambda of: short(
            "; ".join(f"{' names '.join(line.rsplit(' ', 1))}, which {fault}" for line in _added(of))
        ),
    )


def _without_more(values: Values, evidence: Evidence) -> Values:
    """Return the values in which a node that has paths which others lack is like them: that is no fault of its."""
    more = {of.value: of.right for of in compare(values, evidence).outliers if not _added(of)}
    return merged(values, lambda value, _: more.get(value, value))


def _added(of: Outlier) -> list[str]:
    """Return the lines that only the outlier has."""
    right = of.right.splitlines()
    return [line for line in of.value.splitlines() if line not in right]


def _lines(values: Iterable[str]) -> list[str]:
    return sorted({line for value in values for line in value.splitlines()})


def not_read(evidence: Evidence) -> Rows:
    """Yield folders that were not looked at, and folders of whose files only the names were read."""
    seconds = _DEEP_SECONDS if evidence.plan.deep else _SECONDS
    for row in ("unread", "not_named", "names_only"):
        for lines, nodes in evidence.shells.by_value(f"{evidence.table.part}.{row}").items():
            folders = ", ".join(lines.splitlines())
            yield evidence.say(row, nodes, folders=folders, seconds=seconds, twice=2 * seconds)
