"""Which variables the text of a shell script names: a guess, good enough to choose what is worth trying out."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = r"[A-Za-z_]\w*"
_ASSIGNED = re.compile(rf"(?<![\w$}}{{-])({_NAME})\+?=|\$\{{({_NAME}):?=|\bfor\s+({_NAME})\b", re.ASCII)
_DECLARED = re.compile(r"\b(?:unset|export|declare|typeset|local|read|printf\s+-v)\b([^;&|#\n]*)")
_EXPORTED = re.compile(r"\b(?:export|declare\s+-\w*x|typeset\s+-\w*x)\b([^;&|#\n]*)")
_READ = re.compile(rf"\$\{{?[#!]?({_NAME})", re.ASCII)
_INDIRECT = re.compile(r"\beval\b|\b(?:export|unset|read|printf\s+-v)\s+(?:-\w+\s+)?[\"']?\$")
_CAPITALS = re.compile(r"\b[A-Z_][A-Z0-9_]{2,}\b")
_CLOCK = re.compile(r"\bdate\b|\bEPOCH|\bSECONDS\b|%\(")


def assigned_names(texts: Iterable[str]) -> frozenset[str]:
    """Names that may be given a value or be unset; too many does little harm, one too few may hide an `unset`."""
    names: set[str] = set()
    for text in texts:
        names |= _plainly_assigned(text)
        for words in _DECLARED.findall(text):
            names |= _names(words)
        if _INDIRECT.search(text):
            names |= set(_CAPITALS.findall(text))
    return frozenset(names)


def mentioned_names(texts: Iterable[str]) -> frozenset[str]:
    """Names whose value may be read."""
    return frozenset(name for text in texts for name in _READ.findall(text))


def work_names(texts: Iterable[str]) -> frozenset[str]:
    """Names that are assigned but never exported: when unset in the end, scripts only clear away what is their own."""
    everything = "\n".join(texts)
    exported = {name for words in _EXPORTED.findall(everything) for name in _names(words)}
    return frozenset(_plainly_assigned(everything) - exported)


def tells_time(texts: Iterable[str]) -> bool:
    return any(_CLOCK.search(text) for text in texts)


def _plainly_assigned(text: str) -> set[str]:
    return {name for match in _ASSIGNED.findall(text) for name in match if name}


def _names(words: str) -> set[str]:
    """The names in `A B="x" -f C`: the values behind `=` are not told apart from names."""
    return set(re.findall(rf"(?<![\w$}}{{/.-]){_NAME}(?![\w./-])", words, re.ASCII))
