"""What the generic rooms may not know: a backend by its name."""

from __future__ import annotations

import re

from envmgr.backends import backend_names
from tests.helpers.places import ROOT

ROOMS = ("store", "builds", "publish", "catalog")
WORDS = ("conda", "easybuild", "rattler", "mamba", "easyconfig", "easyblock")


def test_generic_rooms_name_no_backend() -> None:
    # A backend may be called by an ordinary word: its module is looked for, and its name in quotes.
    names = "|".join(backend_names())
    told = rf"""backends\.({names})\b|backends import .*\b({names})\b|["']({names})["']"""
    words = re.compile("|".join((*WORDS, told)), re.IGNORECASE)
    package = ROOT / "envmgr"
    found = {
        str(path.relative_to(package)): lines
        for room in ROOMS
        for path in sorted((package / room).rglob("*.*"))
        if path.suffix != ".pyc"
        if (lines := [line.strip() for line in path.read_text().splitlines() if words.search(line)])
    }
    assert found == {}
