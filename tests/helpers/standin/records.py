"""A channel of records alone: for what is locked and never installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_channel(folder: Path, packages: Sequence[Mapping[str, Any]]) -> Path:
    """`is` of each package: its name, version and build; `depends` and `constrains` as repodata has them."""
    records = {}
    for each in packages:
        name, version, build = str(each["is"]).split()
        records[f"{name}-{version}-{build}.conda"] = {
            "name": name,
            "version": version,
            "build": build,
            "build_number": 0,
            "subdir": "linux-64",
            "depends": list(each.get("depends", ())),
            "constrains": list(each.get("constrains", ())),
            "md5": "0" * 32,
            "sha256": "ab" * 32,
            "size": 1,
        }
    for subdir, found in (("linux-64", records), ("noarch", {})):
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        text = json.dumps({"info": {"subdir": subdir}, "packages": {}, "packages.conda": found})
        (folder / subdir / "repodata.json").write_text(text)
    return folder
