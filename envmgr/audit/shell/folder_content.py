"""Content of modulefile folders on the nodes: the shell function that reads it, and the differences of two answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from envmgr.audit.compare.between_nodes import Values, compare, drift
from envmgr.audit.model import Evidence, Found, Row
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.wording import short
from envmgr.modules.nodesetup import open_hint
from envmgr.probe.model import Facts, Fleet, Group
from envmgr.system.shelltext import assign, script_text

_MOST, _DEEP = 10_000, 100_000  # so many files of a folder are read at most
_SECONDS, _DEEP_SECONDS = 5, 30  # for a list; twice that for contents
_ALL = "all files:"
_CLOSED = " closed"

Having = Sequence[tuple[Group, str, str]]
"""Groups of nodes that have a folder: the sum over its files, and its number in their answer."""


def folder_content(*, deep: bool) -> str:
    """Return the shell function `folder_content`, with its bounds."""
    bounds = assign(content_most=_DEEP if deep else _MOST, content_seconds=_DEEP_SECONDS if deep else _SECONDS)
    return bounds + shared("named_paths") + script_text(__file__, "sh")


def by_folder(check: str, fleet: Fleet) -> dict[str, list[tuple[Group, str, str]]]:
    """Return folder -> the groups that have it, from the answers of `folder_content` under a check's name."""
    found: dict[str, list[tuple[Group, str, str]]] = {}
    start = f"{check}.sum."
    for group in fleet.groups:
        for key, value in group.facts.items():
            if key.startswith(start):
                sha256, _, folder = value.partition(" ")
                found.setdefault(folder, []).append((group, sha256, key.removeprefix(start)))
    return found


def contents(check: str, groups: Having) -> dict[str, tuple[str, ...]]:
    """Return the content of one folder -> its nodes: a line for each reported file, and the sum over all files."""
    values: dict[str, tuple[str, ...]] = {}
    for group, sha256, number in groups:
        value = _content(sha256, group.facts, f"{check}.files.{number}")
        values[value] = (*values.get(value, ()), *group.nodes)
    return values


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


def closed(check: str, folder: str, groups: Having, evidence: Evidence) -> Iterator[Row]:
    """Yield files and folders in it that the user cannot read on some nodes.

    If the user can read them on no node, it is the site's choice.
    """
    values: dict[str, tuple[str, ...]] = {}
    for group, _, number in groups:
        value = group.facts.get(f"{check}.closed.{number}", "")
        values[value] = (*values.get(value, ()), *group.nodes)
    user = evidence.plan.user
    yield from drift(
        folder,
        values,
        evidence,
        what="closed",
        sampled=check == "hierarchy",
        say=lambda lines: (
            f"{user} cannot read {short(', '.join(lines.splitlines()))}" if lines else f"{user} can read all of it"
        ),
        told=lambda of: (
            f"{user} cannot read {short(', '.join(line for line in of.value.splitlines() if line not in of.right.splitlines()) or 'less than others')}"
        ),
        hint=f"{open_hint(evidence.site, _paths(folder, values), whom=user)}; as restricted as on the others",
    )


def _paths(folder: str, values: Values) -> list[str]:
    lines = sorted({line for value in values for line in value.splitlines()})
    return [f"{folder}/{line}" for line in lines[:8]]


def absent(check: str, folder: str, groups: Having, evidence: Evidence) -> Iterator[Row]:
    """Yield paths that modulefiles name and one node lacks, or its user cannot enter.

    A path that no node has may be made when it is needed.
    """
    there: dict[str, tuple[str, ...]] = {}
    entered: dict[str, tuple[str, ...]] = {}
    for group, _, number in groups:
        if f"{check}.named.{number}" in group.facts:  # else it was not looked at, or not to the end
            lines = group.facts.get(f"{check}.absent.{number}", "").splitlines()
            for values, part in (
                (there, [line for line in lines if not line.endswith(_CLOSED)]),
                (entered, [line.removesuffix(_CLOSED) for line in lines if line.endswith(_CLOSED)]),
            ):
                text = "\n".join(part)
                values[text] = (*values.get(text, ()), *group.nodes)
    yield from _lacking(
        check,
        folder,
        there,
        evidence,
        "paths that are not there",
        "is not there",
        lambda _: "install, or mount, on that node what the modulefile names; or take the modulefile away there",
    )
    yield from _lacking(
        check,
        folder,
        entered,
        evidence,
        "paths that are closed",
        f"{evidence.plan.user} cannot enter",
        lambda paths: f"{open_hint(evidence.site, paths, whom='users')}; as restricted as on the others",
    )


def _lacking(
    check: str, folder: str, values: Values, evidence: Evidence, what: str, fault: str, hint: Callable[[list[str]], str]
) -> Iterator[Row]:
    more = {
        of.value: of.right
        for of in compare(values, evidence).outliers
        if set(of.value.splitlines()) <= set(of.right.splitlines())
    }  # these have paths that others lack, which is no fault of theirs
    wanted: dict[str, tuple[str, ...]] = {}
    for value, nodes in values.items():
        wanted[more.get(value, value)] = (*wanted.get(more.get(value, value), ()), *nodes)
    paths = sorted({line.rpartition(" ")[2] for value in wanted for line in value.splitlines()})
    yield from drift(
        folder,
        wanted,
        evidence,
        what=what,
        sampled=check == "hierarchy",
        hint=hint(paths[:8]),
        say=lambda lines: short("; ".join(lines.splitlines())) or "all paths are there",
        expect=lambda _right, _value: "what modulefiles name is there, and can be read",
        told=lambda of: short(
            "; ".join(
                f"{' names '.join(line.rsplit(' ', 1))}, which {fault}"
                for line in of.value.splitlines()
                if line not in of.right.splitlines()
            )
        ),
    )


def not_read(check: str, fleet: Fleet, *, deep: bool) -> Iterator[Row]:
    """Yield folders that were not looked at, and folders of whose files only the names were read."""
    seconds = _DEEP_SECONDS if deep else _SECONDS
    for folders, nodes in fleet.by_value(f"{check}.unread").items():
        yield Found(
            "warning",
            ", ".join(folders.splitlines()),
            f"not looked at: no end in {seconds} s",
            "an answer",
            "does the file server of that folder answer? a load of any module waits for it, too",
            nodes,
        )
    for folders, nodes in fleet.by_value(f"{check}.not_named").items():
        yield Found(
            "note",
            ", ".join(folders.splitlines()),
            f"paths that modulefiles name were not looked at: no end in {2 * seconds} s",
            "an answer",
            "does a file server of software answer? `--deep` takes more time",
            nodes,
        )
    for folders, nodes in fleet.by_value(f"{check}.names_only").items():
        yield Found(
            "note",
            ", ".join(folders.splitlines()),
            f"contents not looked at: no end in {2 * seconds} s",
            "modulefiles that can be read",
            "a slow file server, or very many files? `--deep` takes more time for them",
            nodes,
        )


def _content(sha256: str, facts: Facts, key: str) -> str:
    rows = (line.partition("  ") for line in facts.get(key, "").splitlines())
    return "\n".join([*sorted(f"{path.removeprefix('./')} {of[:16]}" for of, _, path in rows), f"{_ALL} {sha256[:16]}"])


def _files(text: str) -> Mapping[str, str]:
    """Return path below the folder -> the beginning of its sha256."""
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith(_ALL))
    return {path: sha256 for path, _, sha256 in rows}


__all__ = ["Having", "absent", "by_folder", "changed", "closed", "contents", "folder_content", "names", "not_read"]
