"""Folders of modulefiles as nodes have them, by content: the shell function, and what two answers of it differ in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envmgr.audit.folding import short
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import Facts, Fleet, Group
from envmgr.system.shelltext import assign, script_text

_MOST, _DEEP = 10_000, 100_000  # files of a folder whose content is read
_SECONDS, _DEEP_SECONDS = 5, 30  # for a list; twice that for contents
_ALL = "all files:"

Having = Sequence[tuple[Group, str, str]]
"""Groups of nodes that have a folder: the sum over its files, and its number in their answer."""


def folder_content(*, deep: bool) -> str:
    """The shell function `folder_content`, with its bounds."""
    bounds = assign(content_most=_DEEP if deep else _MOST, content_seconds=_DEEP_SECONDS if deep else _SECONDS)
    return bounds + script_text(__file__, "sh")


def by_folder(check: str, fleet: Fleet) -> dict[str, list[tuple[Group, str, str]]]:
    """folder -> those that have it, as `folder_content` told under the name of a check."""
    found: dict[str, list[tuple[Group, str, str]]] = {}
    start = f"{check}.sum."
    for group in fleet.groups:
        for key, value in group.facts.items():
            if key.startswith(start):
                sha256, _, folder = value.partition(" ")
                found.setdefault(folder, []).append((group, sha256, key.removeprefix(start)))
    return found


def contents(check: str, groups: Having) -> dict[str, tuple[str, ...]]:
    """What is compared of one folder, with its nodes: a line for each file that is told, and the sum over all."""
    values: dict[str, tuple[str, ...]] = {}
    for group, sha256, number in groups:
        value = _content(sha256, group.facts, f"{check}.files.{number}")
        values[value] = (*values.get(value, ()), *group.nodes)
    return values


def changed(value: str, other: str) -> str:
    """What both have, with another content. Empty where they have other names."""
    files, others = _files(value), _files(other)
    found = [path for path in files if path in others and files[path] != others[path]]
    if not found and files.keys() == others.keys():
        return f"files behind the first {len(files)}"
    return short(", ".join(found))


def names(value: str, other: str) -> str:
    """Which files one lacks, and has besides."""
    files, others = _files(value), _files(other)
    lacks, more = sorted(others.keys() - files.keys()), sorted(files.keys() - others.keys())
    return short("; ".join(f"{word} {', '.join(paths)}" for word, paths in (("lacks", lacks), ("has", more)) if paths))


def not_read(check: str, fleet: Fleet, *, deep: bool) -> Iterator[Finding]:
    """Folders that were not looked at, and those of whose files the names alone were."""
    seconds = _DEEP_SECONDS if deep else _SECONDS
    for folders, nodes in fleet.by_value(f"{check}.unread").items():
        yield Finding(
            check, "warning", ", ".join(folders.splitlines()), f"not looked at: no end in {seconds} s", "an answer",
            "does the file server of that folder answer? a load of any module waits for it, too", fold(nodes),
        )  # fmt: skip
    for folders, nodes in fleet.by_value(f"{check}.names_only").items():
        yield Finding(
            check, "note", ", ".join(folders.splitlines()), f"contents not looked at: no end in {2 * seconds} s", "modulefiles that can be read",
            "a slow file server, or very many files? `--deep` takes more time for them", fold(nodes),
        )  # fmt: skip


def _content(sha256: str, facts: Facts, key: str) -> str:
    rows = (line.partition("  ") for line in facts.get(key, "").splitlines())
    return "\n".join([*sorted(f"{path.removeprefix('./')} {of[:16]}" for of, _, path in rows), f"{_ALL} {sha256[:16]}"])


def _files(text: str) -> Mapping[str, str]:
    """path below the folder -> the beginning of its sha256."""
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith(_ALL))
    return {path: sha256 for path, _, sha256 in rows}


__all__ = ["Having", "by_folder", "changed", "contents", "folder_content", "names", "not_read"]
