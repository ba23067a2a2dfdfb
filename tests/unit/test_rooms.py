"""What the generic rooms may not know: a backend by its name."""

from __future__ import annotations

import re

from envmgr.backends import backend_names
from tests.helpers.places import ROOT

ROOMS = ("store", "builds", "publish", "catalog")
WORDS = ("rattler", "mamba", "easyconfig", "easyblock")
# What old site files and manifests have, which is still read.
OLD = {
    "catalog/site_file.py": [
        '"channels": ("conda", "channels"),',
        '"conda": ("conda", "program"),',
        '"easyconfigs": ("easybuild", "easyconfigs"),',
        "conda: Any = None",
        "easyconfigs: Any = None",
    ],
    "store/manifest.py": [
        '"""Old manifests have one word for the one kind of extra file there was: `module`, EasyBuild\'s own of the install.',
        'if "module" not in data and "easybuild-framework" not in data["provenance"].get("tools", {}):',
        "module = f\"easybuild/modules/{path.parent.name}/{path.name.removesuffix('.manifest.json')}.lua\"",
    ],
}


def test_generic_rooms_name_no_backend() -> None:
    words = re.compile("|".join((*backend_names(), *WORDS)), re.IGNORECASE)
    package = ROOT / "envmgr"
    found = {
        str(path.relative_to(package)): lines
        for room in ROOMS
        for path in sorted((package / room).rglob("*.py"))
        if (lines := [line.strip() for line in path.read_text().splitlines() if words.search(line)])
    }
    assert found == OLD
