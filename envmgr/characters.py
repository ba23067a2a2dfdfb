"""Characters that act unseen: control, format and bidirectional ones, separators that look like a space or end a line, and what stands
for no character.

One set for every door and every terminal: a door refuses them, a display writes them by their numbers.
"""

from __future__ import annotations

LINES = "\n\t"
"""What a text of several lines may hold of them."""


def first_unseen(text: str, keep: str = "") -> str:
    """The first such character that is not in `keep`; empty where there is none."""
    return "" if text.isprintable() else next((c for c in text if not c.isprintable() and c not in keep), "")


def number_of(character: str) -> str:
    r"""As an escape that Python reads: `\x1b`, `\u202e`, `\U000e0001`."""
    return ascii(character)[1:-1]


def shown(text: str, keep: str = "") -> str:
    """The text with such characters by their numbers, but for those in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else number_of(c) for c in text)
