"""A throw-away site on the stand-in channel, for the benchmarks that install."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

SPECS = [
    f"python {sys.version_info.major}.{sys.version_info.minor}.*",
    "numpy",
    "pyyaml",
    "packaging",
    "six",
    "tabulate",
]
ENTRY = "bench/1"


def make_site(root: Path, channel: str) -> dict[str, str]:
    """Write a site with one recipe under `root`; returns the environment for envmgr in it."""
    recipe = root / "recipes" / ENTRY
    recipe.mkdir(parents=True)
    site = {
        "schema": 1,
        "prefix": str(root / "prefix"),
        "catalogs": ["recipes"],
        "policies": {"min_free": 0},
        "backends": {"conda": {"channels": {"standin": {"url": channel}}}},
    }
    (root / "site.yaml").write_text(json.dumps(site))
    (recipe.parent / "software.yaml").write_text(json.dumps({"description": "for benchmarks"}))
    (recipe / "recipe.yaml").write_text(
        json.dumps({"schema": 1, "backend": "conda", "input": {"channels": ["standin"], "specs": SPECS}})
    )
    return {**os.environ, "ENVMGR_SITE": str(root / "site.yaml")}


def envmgr(*argv: str) -> list[str]:
    return [sys.executable, "-m", "envmgr", *argv]
