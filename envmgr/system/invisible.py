"""Invisible characters: the text that a person reviews and the text that a program reads must be the same.

U+2028, U+0085, a form feed or a carriage return end a line for some programs and for no reviewer; bidi characters show
a line in another order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from envmgr.errors import InputError
from envmgr.system.shelltext import quote

LINES = "\n"
TABS = "\n\t"
_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp"})  # controls, formats (bidi among them), and Unicode's own ends of lines

_SEEN = re.compile(r"[\n\x20-\x7e]*")

Place = tuple[int | str, ...]


def is_plain(text: str) -> bool:
    """Return whether the text is visible ASCII in lines, without an escape: what YAML or JSON reads in it is, too."""
    return "\\" not in text and _SEEN.fullmatch(text) is not None


def hidden_in(line: str, also: str = "") -> int | None:
    """Return the index of its first invisible character that is not in `also`."""
    if line.isprintable():
        return None
    return next((i for i, each in enumerate(line) if unicodedata.category(each) in _HIDDEN and each not in also), None)


def name_of(character: str) -> str:
    """Return the name of a character, as `U+2028 LINE SEPARATOR`; controls have no name."""
    return f"U+{ord(character):04X} {unicodedata.name(character, 'control character')}"


def require_visible(text: str, path: object, *, also: str) -> None:
    """Raise InputError `text-invisible` with file, line and column, for an invisible character that is not in
    `also`.
    """
    if text.isprintable() or _SEEN.fullmatch(text):
        return
    # Not `splitlines`: it also breaks lines at U+2028 and at form feeds, which must be found here.
    for number, line in enumerate(text.split("\n"), 1):
        column = hidden_in(line, also)
        if column is not None:
            raise InputError(
                "text-invisible",
                f"{path}:{number}:{column + 1}: {name_of(line[column])} cannot be seen in a review",
                # As escapes: the message itself must not hide the character.
                context=ascii(line[max(0, column - 60) : column + 60])[1:-1],
                hint=_way_out(line, column, path),
            )


def hidden_values(data: Any, also: str = TABS) -> Iterator[tuple[Place, str]]:
    """Yield the place of each key and text in `data` that has such a character, and the reason: escapes of YAML and
    JSON bring them past `require_visible`. `data` is nested no deeper than Python calls.
    """
    if isinstance(data, str):
        if (index := hidden_in(data, also)) is not None:
            yield (), f"{name_of(data[index])} cannot be seen in a review"
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from (((key,), reason) for _, reason in hidden_values(key, also))
            yield from (((key, *place), reason) for place, reason in hidden_values(value, also))
    elif isinstance(data, list | tuple):
        for number, value in enumerate(data):
            yield from (((number, *place), reason) for place, reason in hidden_values(value, also))


def _way_out(line: str, column: int, path: object) -> str:
    if line[column] == "\r" and column + 1 == len(line):
        return f"it has the ends of lines of Windows: `sed -i 's/\\r$//' {quote(str(path))}` takes them out"
    if line[column] == "\ufeff" and column == 0:
        return f"it has a byte order mark: `sed -i '1s/^\\xEF\\xBB\\xBF//' {quote(str(path))}` takes it out"
    if line[column] == "\t":
        return "put a space in its place"
    return "take it out; `envmgr lock` writes a lock again"
