"""Functions that several checks need: findings joined over places, the parts of MODULEPATH, short texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from envmgr.report import Finding
from envmgr.wording import and_more

_MOST = 8  # entries that one finding names


def joined(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield one finding for those that differ only in their place: `bash-login, bash-ssh (root, alice)`."""
    places: dict[Finding, list[str]] = {}
    for finding in findings:
        places.setdefault(replace(finding, where=""), []).append(finding.where)
    for finding, where in places.items():
        yield replace(finding, where=_places(where))


def _places(where: Iterable[str]) -> str:
    """Join the places; those of the form `NAME (ACCOUNT)` with the same accounts are put together."""
    accounts: dict[str, list[str]] = {}
    for place in dict.fromkeys(where):
        name, _, account = place.partition(" (")
        accounts.setdefault(name, []).extend([account.rstrip(")")] if account else [])
    names: dict[str, list[str]] = {}
    for name, of_name in accounts.items():
        names.setdefault(", ".join(of_name), []).append(name)
    return "; ".join(f"{', '.join(of)} ({who})" if who else and_more(of, _MOST) for who, of in names.items())


def elements(path: str) -> list[str]:
    """Return the parts of MODULEPATH as Lmod reads it: no empty parts, no repetitions, no trailing slashes."""
    parts = (re.sub(r"/+", "/", part).rstrip("/") or "/" for part in path.split(":") if part)
    return list(dict.fromkeys(parts))


def other_parts(also: Iterable[str], lacks: Iterable[str], by: str = ":") -> str:
    """Return how a list differs: `also has A:B and lacks C`; empty if it has the same parts."""
    words = [("also has", by.join(also)), ("lacks", by.join(lacks))]
    return " and ".join(f"{verb} {parts}" for verb, parts in words if parts)


def fields_of(line: str, count: int) -> list[str]:
    """Return exactly `count` fields of a line: the last one has the rest, and a node that reports fewer has empty ones."""
    fields = line.split(" ", count - 1)
    return [*fields, *[""] * (count - len(fields))]


def short(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
