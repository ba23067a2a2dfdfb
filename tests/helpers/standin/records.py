"""A channel of records alone: for what is locked and never installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_channel(folder: Path, packages: Sequence[Mapping[str, Any]]) -> Path:
    """`is` of each package: its name, version and build; `depends`, `constrains` as repodata has them.

    With `extra_depends` and `flags` it is a record of the form `v3`. Source: CEP 43, 44, 45.
    """
    records, newer = dict[str, Any](), dict[str, Any]()
    for each in packages:
        name, version, build = str(each["is"]).split()
        more = {key: each[key] for key in ("extra_depends", "flags") if key in each}
        place, key = (newer, f"{name}-{version}-{build}") if more else (records, f"{name}-{version}-{build}.conda")
        place[key] = {
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
            **more,
        }
    for subdir, found, later in (("linux-64", records, newer), ("noarch", {}, {})):
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        info = {"subdir": subdir, "repodata_revisions": {"v3": {"n_packages": len(later)}}}
        data = {"info": info, "packages": {}, "packages.conda": found, "v3": {"conda": later}}
        (folder / subdir / "repodata.json").write_text(
            json.dumps(data if later else {**data, "info": {"subdir": subdir}})
        )
    return folder
