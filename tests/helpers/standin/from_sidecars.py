"""A snapshot folder out of the records that shipped locks keep: what they were solved from, as far as it can be had offline.

Only chosen packages are in it, so a solve has less choice than the one that made the locks; it must come to the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SUBDIRS = ("linux-64", "noarch")


def channel_from_sidecars(sidecars: Iterable[Path], folder: Path) -> Path:
    """Write `folder/<subdir>/repodata.json` with every record of the `conda-lock.records.json` files; returns `folder`."""
    subdirs: dict[str, dict[str, Any]] = {
        s: {"info": {"subdir": s}, "packages": {}, "packages.conda": {}} for s in SUBDIRS
    }
    for sidecar in sidecars:
        for package in json.loads(sidecar.read_bytes())["packages"]:
            record = {"depends": [], **package}
            name = record.pop("url").rpartition("/")[2]
            if "track_features" in record:
                record["track_features"] = " ".join(record["track_features"])
            section = "packages.conda" if name.endswith(".conda") else "packages"
            subdirs[record["subdir"]][section][name] = record
    for subdir, content in subdirs.items():
        (folder / subdir).mkdir(parents=True)
        (folder / subdir / "repodata.json").write_text(json.dumps(content, sort_keys=True))
    return folder
