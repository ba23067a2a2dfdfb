"""What the generic rooms may not know: a backend by its name."""

from __future__ import annotations

import re

from envmgr.backends import backend_names
from tests.helpers.places import ROOT

ROOMS = ("store", "builds", "publish", "catalog")
WORDS = ("rattler", "mamba", "easyconfig", "easyblock")


def test_generic_rooms_name_no_backend() -> None:
    words = re.compile("|".join((*backend_names(), *WORDS)), re.IGNORECASE)
    package = ROOT / "envmgr"
    found = {
        str(path.relative_to(package)): lines
        for room in ROOMS
        for path in sorted((package / room).rglob("*.*"))
        if path.suffix != ".pyc"
        if (lines := [line.strip() for line in path.read_text().splitlines() if words.search(line)])
    }
    assert found == {}
