"""Text for people: safe on a terminal, and with the same words for counts, sizes, times and lists that are cut.

Unseen characters are control, format and bidirectional ones, separators that look like a space or end a line, and
surrogates. One set serves every door, which refuses them, and every terminal, which shows them as escapes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

LINES = "\n\t"
"""The unseen characters that a text of several lines may hold."""

MOST_LINES = 20  # lines that are shown of one thing
_LONGEST = 300  # characters

_SECRETS = (
    re.compile(r"(://)[^\s/@'\"<>]+(?=@)"),  # a user's name and password
    re.compile(r"(https?://[^\s'\"<>]*?/t/)[^/\s'\"<>,]+"),  # conda's tokens
    re.compile(r"([?&](?:[a-z_-]*(?:token|password|secret|signature|credential)|key|sig)=)[^&\s'\"<>]+", re.IGNORECASE),
)


def first_unseen(text: str, keep: str = "") -> str:
    """Return the first character that acts unseen and is not in `keep`; empty if there is none."""
    return "" if text.isprintable() else next((c for c in text if not c.isprintable() and c not in keep), "")


def number_of(character: str) -> str:
    r"""Return the escape that Python reads: `\x1b`, `\u202e`, `\U000e0001`."""
    return ascii(character)[1:-1]


def escaped(text: str, keep: str = "") -> str:
    """Return the text with characters that act unseen as escapes, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else number_of(c) for c in text)


def masked(text: str) -> str:
    """Return the text without the names, passwords and tokens that URLs hold: for every output, log and record."""
    if "://" not in text:
        return text
    for secret in _SECRETS:
        text = secret.sub(r"\1***", text)
    return text


def for_terminal(text: str) -> str:
    """Return `text` masked and escaped, with its line breaks and tabs: for terminals, and for logs that people read on
    one.
    """
    return escaped(masked(text), LINES)


def one_line(value: object, longest: int = _LONGEST) -> str:
    """Return a stranger's text as one line of at most `longest` characters, escaped."""
    text = str(value)
    if len(text) > longest:
        text = f"{text[:longest]}… ({len(text)} characters)"
    return escaped(text)


def shortened(lines: Sequence[str], most: int = MOST_LINES) -> list[str]:
    """Return the first `most` lines, and `and N more` if there are others."""
    more = len(lines) - most
    return [*lines[:most], f"and {more} more"] if more > 0 else [*lines]


def and_more(items: Sequence[str], most: int) -> str:
    """Return `a, b and 3 more`: the first `most` items in one line."""
    more = len(items) - most
    shown = ", ".join(items[:most])
    return f"{shown} and {more} more" if more > 0 else shown


def did_you_mean(close: Sequence[str], otherwise: str | Callable[[], str]) -> str:
    """Return the hint for an unknown name: `did you mean a, b?`, or `otherwise` where nothing is close."""
    if close:
        return f"did you mean {', '.join(close)}?"
    return otherwise if isinstance(otherwise, str) else otherwise()


def size_text(count: int) -> str:
    """Return a count of bytes as `999 B`, `12.3 kB`, `12.3 MB`, `2.05 GB`: decimal, in the largest unit that leaves 1
    or more.
    """
    value = float(min(count, 10**18))  # a size in a file that others wrote may be any number
    for unit in ("B", "kB", "MB"):
        if value < (1000 if unit == "B" else 999.95):  # 999.95 would be shown as 1000.0
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"


def binary_size(count: int) -> str:
    """Return a count of bytes as `999 B`, `64 KiB`, `8 MiB` or `1.5 GiB`: in the largest unit that leaves 1 or more."""
    shift, unit = next((each for each in ((30, "GiB"), (20, "MiB"), (10, "KiB")) if count >> each[0]), (0, "B"))
    return f"{count / (1 << shift):.1f}".removesuffix(".0") + f" {unit}"


def duration(seconds: float) -> str:
    """Return a time as `45 s`, `12 min` or `2 h 05 min`."""
    minutes = int(seconds / 60)
    if minutes < 60:
        return f"{minutes} min" if minutes else f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def counted(number: int, plural: str) -> str:
    """Return `1 entry` or `2 entries`; `plural` is an English plural in -s or -ies, or empty."""
    singular = plural.removesuffix("ies") + "y" if plural.endswith("ies") else plural.removesuffix("s")
    return f"{number} {singular if number == 1 else plural}".strip()


def inodes_text(inodes: int, size: int) -> str:
    """Return `1234 inodes, 12.3 MB`."""
    return f"{counted(inodes, 'inodes')}, {size_text(size)}"


def utc_now() -> str:
    """Return this moment as records and logs hold it: `2026-11-25T10:58:09Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
