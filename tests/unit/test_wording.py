"""One set of characters that act unseen, for doors and displays."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from envmgr.probe.shell import read_lines
from envmgr.wording import LINES, escaped, first_unseen, for_terminal, one_line

ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_every_control_format_and_bidi_character_is_in_the_set() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        if unicodedata.category(character) in ACTING:
            assert first_unseen(f"a{character}b") == character, hex(number)


@pytest.mark.parametrize("text", ["plain", "Größe, 30 €", "日本語", "a\nb\tc"])
def test_what_people_write_is_not(text: str) -> None:
    assert (first_unseen(text, LINES), escaped(text, LINES)) == ("", text)


@pytest.mark.parametrize(
    ("character", "number"),
    [
        ("\x1b", r"\x1b"),
        ("\x9b", r"\x9b"),
        ("\u202e", r"\u202e"),
        ("\u061c", r"\u061c"),
        ("\u2028", r"\u2028"),
        ("\xad", r"\xad"),
        ("\u200b", r"\u200b"),
        ("\U000e0041", r"\U000e0041"),
        ("\udcff", r"\udcff"),
        ("\r", r"\r"),
    ],
)
def test_every_display_writes_the_same_number(character: str, number: str) -> None:
    text, told = f"a{character}b", f"a{number}b"
    assert (for_terminal(text), one_line(text), read_lines([f"@key={text}"])) == (told, told, {"key": told})
