"""What Open OnDemand shows of a folder of module lists, by what its documentation and its dashboard's own tests say of the files:

`OOD_MODULE_FILE_DIR` has `<cluster id>.json` for each cluster. It is an object of names of modules; each has an object of modulefiles, of which
`Version` is shown, `parentAA` says what to load before (since 4.1), and one that is `hidden` is left out. A file that
cannot be read, or is anything else, is a cluster without modules, and a line in the log.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple


class Shown(NamedTuple):
    name: str
    version: str
    before: tuple[tuple[str, ...], ...] = ()


def modules(folder: Path, cluster: str) -> list[Shown] | None:
    """The modules of a cluster, sorted; None where the dashboard shows none because of the file."""
    try:
        listed = json.loads((folder / f"{cluster}.json").read_text("utf-8"))
        found = [
            Shown(name, str(each["Version"]), tuple(map(tuple, each.get("parentAA") or ())))
            for name, files in dict(listed).items()
            for each in files.values()
            if not each.get("hidden")
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return sorted(found)
