"""The modules that a job script loads, read from its text: nothing of it is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Literal

Step = tuple[Literal["load", "unload", "purge", "unread"], str]
"""A step of a script, with the name of a module. Of a line that cannot be read, it is the line."""

_ENDS = ";&|()"
_REDIRECTION = re.compile(r"(?<=\s)(?:\d*|&)[<>]+(?:&\d|\s*[^\s;&|]+)")
_FIRST = frozenset("if then elif else while until do time { ! command builtin eval".split())  # before a command
_LOAD, _UNLOAD = frozenset(("load", "add", "try-load", "load-any")), frozenset(("unload", "del", "rm"))
_SWAP, _PURGE = frozenset(("swap", "sw", "switch")), frozenset(("purge", "reset", "restore", "r"))
_COLLECTION = frozenset(("restore", "r"))
_SHOWS = frozenset(
    "avail av list spider show help keyword key whatis overview is-loaded is-avail use unuse save s".split()
)
_EXPANDED = re.compile(r"[$`*?\\\[]")


def script_loads(script: str) -> Iterator[Step]:
    """Yield what the lines with `module` and `ml` do, in their order."""
    for line in script.replace("\\\n", " ").splitlines():
        if not re.search(r"\b(module|ml)\b", line):
            continue
        lexer = shlex.shlex(_REDIRECTION.sub(" ", line), posix=True, punctuation_chars=_ENDS)
        lexer.whitespace_split = True
        try:
            words = [*lexer]
        except ValueError:  # a quote that ends in another line
            yield "unread", line.strip()
            continue
        for command in _commands(words):
            yield from _steps(command)


def _commands(words: list[str]) -> Iterator[list[str]]:
    """Yield the commands `module` and `ml` of a line, without what may stand before one."""
    command: list[str] = []
    for word in (*words, ";"):
        if not set(word) <= set(_ENDS):
            if command or (word not in _FIRST and not re.match(r"\w+=", word)):
                command.append(word)
            continue
        if command and command[0] in ("module", "ml"):
            yield command
        command = []


def _steps(command: list[str]) -> Iterator[Step]:
    rest = command[1:]
    if command[0] == "module":
        rest = [word for word in rest if not word.startswith("-")]
    verb = next((word for word in rest if not word.startswith("-")), "")
    names = [word for word in rest if not word.startswith("-") and word != verb]
    if verb in _PURGE:
        yield "purge", ""
        if verb in _COLLECTION:  # what is in it is the user's
            yield "unread", " ".join(command)
    elif verb in _SWAP:
        yield from (("unload", name) for name in names[:-1])
        names = names[-1:]
    elif command[0] == "ml" and verb not in _LOAD | _UNLOAD | _SHOWS:
        yield from (("unload", word[1:]) for word in rest if word.startswith("-") and not word.startswith("--"))
        names = [word for word in rest if not word.startswith("-")]
    elif verb not in _LOAD | _UNLOAD:
        names = []
    for name in names:
        if _EXPANDED.search(name):
            yield "unread", " ".join(command)
        elif verb in _UNLOAD:
            yield "unload", name
        elif verb not in _PURGE:
            yield "load", name
