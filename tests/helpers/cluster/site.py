"""The site that the cluster's login node has in /etc/envmgr, and recipes for it, as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.helpers.cluster.config import PREFIX
from tests.helpers.places import CACHE as _CACHE
from tests.helpers.standin.channel import cached_channel

SITE = Path("/etc/envmgr/site.yaml")


def settings(compute: Sequence[str]) -> dict[str, Any]:
    """The stand-in channel is part of the checkout, which nodes see under its own path."""
    channel = cached_channel(_CACHE).folder
    return {
        "schema": 1,
        "name": "testbed",
        "prefix": str(PREFIX),
        "build_user": "rsw",
        "groups": {"compute": {"nodes": f"c[1-{len(compute)}]" if len(compute) > 1 else compute[0]}},
        "transport": {"via": "ssh", "connect_timeout": 10, "node_timeout": 240, "deadline": 600},
        "audit": {"user": "alice"},
        "mount": {"locks": "local"},  # of the client that plays NFS, known: no note in every audit
        "slurm": {"heal_export": False},  # decided: else every audit of jobs notes those with --export=NONE
        "catalogs": ["recipes"],
        "channels": {"standin": {"url": "http://channel.invalid/standin", "mirrors": [str(channel)]}},
        "policies": {"min_free": 0, "stall_timeout": 60.0, "download_retries": 1},
    }


def recipe(entry: str, specs: list[str], fields: dict[str, Any]) -> tuple[Path, dict[Path, str]]:
    """The folder of a conda recipe, and the texts of its files."""
    name, version = entry.split("/")
    folder = SITE.parent / "recipes" / name / version
    software = {
        "description": f"{name} for tests",
        "homepage": "https://example.org",
        "licence": "MIT",
        "category": "test",
    }
    content = {"schema": 1, "backend": "conda", "input": {"channels": ["standin"], "specs": specs}, **fields}
    return folder, {
        folder.parent / "software.yaml": json.dumps(software),
        folder / "recipe.yaml": json.dumps(content, indent=1),
    }
