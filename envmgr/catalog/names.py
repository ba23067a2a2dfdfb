"""The names and versions of entries: what is allowed, how they are split, sorted and compared, which one was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

from envmgr.errors import InputError

# A name becomes a folder, a Lua string, a shell word and (upper-cased) a variable: a small alphabet is safe in all of
# them.
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_RESERVED = {"default", "modulerc", "version"}
_MAX = 64  # characters per part: names go into paths that must stay short


class Entry(NamedTuple):
    """One `name/version` of the catalog, as a user types it after `module load`."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"


def fault_in_part(part: str) -> str:
    """Return why `part` cannot be a name or version; empty if it can."""
    if not _PART.fullmatch(part):
        return "letters, digits and . _ + - are allowed, and the first must be a letter or digit"
    # Lmod takes `.lua` from the end of a modulefile's name, so that such a version would change.
    if ".." in part or part.endswith((".lua", ".")):
        return "`..`, a final dot and `.lua` are not allowed"
    if part.lower() in _RESERVED:
        return f"`{part}` has a meaning of its own in Lmod"
    if len(part) > _MAX:
        return f"longer than {_MAX} characters"
    return ""


def parse_entry(text: str) -> Entry:
    """Split `name/version`; InputError when it is not of that form."""
    name, slash, version = text.partition("/")
    if not slash:
        raise InputError(
            "entry-syntax", f"`{text}` is not an entry", hint="entries are written name/version: pytorch/2.1-cuda11.8"
        )
    for what, part in (("name", name), ("version", version)):
        if fault := fault_in_part(part):
            raise InputError("entry-syntax", f"`{text}` is not an entry: bad {what} `{part}`", context=fault)
    return Entry(name, version)


def catalog_of(folder: Path) -> Path:
    """Return the catalog of an entry's folder. Files of the entry may be links to anything in this catalog."""
    return folder.parent.parent


def nearest(wanted: str, known: Iterable[str], *, count: int = 3) -> list[str]:
    """Return up to `count` known names that are most like `wanted`: names that begin with it, other versions of its
    name, other names.
    """
    names = list(known)
    name = wanted.partition("/")[0]
    same = [k for k in names if k.partition("/")[0].lower() == name.lower()]
    close = sorted(k for k in same if k.lower().startswith(wanted.lower()))
    close += difflib.get_close_matches(wanted, [k for k in same if k not in close], n=count, cutoff=0.0)
    # Of entries only the names are compared, and more strictly: that two of them have one version says nothing.
    cutoff = 0.7 if "/" in wanted else 0.6
    others = dict.fromkeys(k.partition("/")[0] for k in names if k not in same)
    for like in difflib.get_close_matches(name, others, n=count, cutoff=cutoff):
        of_name = [k for k in names if k.partition("/")[0] == like]
        close += difflib.get_close_matches(wanted, of_name, n=count, cutoff=0.0)
    return close[:count]


MODULE_NAME = "user"
"""The first part of the name of every module of a user environment: no entry has it."""


def clash_of(entry: Entry, known: Iterable[Entry]) -> str:
    """Return why no entry can have that name beside those that are known; empty if one can."""
    if entry.name == MODULE_NAME:
        return f"`{MODULE_NAME}/` is for the environments of users"
    for each in known:
        if each.name != entry.name and variable_name(each.name) == variable_name(entry.name):
            return f"{each.name} and {entry.name} set the same variables"
        if each != entry and str(each).lower() == str(entry).lower():
            return f"{each} differs only by case"
    return ""


def variable_name(name: str) -> str:
    """Return the stem of the variables that a module sets for its own entry: `open-mpi` gives `OPEN_MPI`."""
    stem = re.sub(r"[^A-Za-z0-9]", "_", name).upper()
    # No variable of a shell begins with a digit.
    return f"_{stem}" if stem[0].isdigit() else stem


# Python raises ValueError for a number with thousands of digits, which a lock or a node may report.
_MOST_DIGITS = 18


def older(a: str, b: str) -> bool:
    """Return whether version `a` is older than `b`: by number, component by component; a missing component counts
    as 0.
    """
    pairs = zip_longest(numbers(a), numbers(b), fillvalue=0)
    return next((x < y for x, y in pairs if x != y), False)


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version. One with more digits than any version has counts as the largest possible."""
    return tuple(int(part[:_MOST_DIGITS]) for part in version.split(".") if part.isdecimal())


def sort_key(version: str) -> tuple[int, Version | str]:
    """Return a key that sorts versions as people expect (2.9 before 2.10).

    Versions that do not follow PEP 440 come first, by text.
    """
    try:
        # `2.1-cuda11.8` is no version of PEP 440, and `2.1+cuda11.8` is one.
        return (1, Version(re.sub(r"-", "+", version, count=1)))
    except InvalidVersion:
        return (0, version)
