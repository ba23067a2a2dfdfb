"""The folders and records of a conda install."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envmgr.system.files import pretty_json

if TYPE_CHECKING:  # the worker starts without it
    from envmgr.store.prefix import Prefix

PYTHON = "python"  # the package that brings `bin/python`, also for PyPy in conda-forge

# 1: the packages, compiled, read-only. 2: a Python has the mark of `system/pythons.py`; installs without a Python did
# not change.
MARKED = 2


def package_cache(prefix: Prefix) -> Path:
    """Return the folder of downloaded packages: `<sha256>/<file name>`."""
    return prefix.cache / "conda"


# Fields of a record that come from the package's own info/index.json, and so from its bytes. A lock without its sidecar
# lacks some of them, and the channel may correct them later. Neither may change an install.
_FROM_PACKAGE: tuple[str, ...] = (
    "arch",
    "build_number",
    "constrains",
    "depends",
    "features",
    "license",
    "license_family",
    "noarch",
    "platform",
    "python_site_packages_path",
    "timestamp",
    "track_features",
)
# What says where on this machine it was installed from.
_OF_THIS_MACHINE = {"extracted_package_dir": "", "package_tarball_full_path": ""}


def normalise_meta(staging: Path, records: Iterable[Mapping[str, Any]], archives: Mapping[str, Path]) -> None:
    """Rewrite every record that rattler made. The unpacked packages must still exist. `archives` maps name -> package
    file.

    Source: comparison of two installs of one lock, which differ only in cache paths, and of locks with and without
    sidecar.
    """
    (staging / "CACHEDIR.TAG").unlink(missing_ok=True)  # backups would skip the folder
    locked = {r["url"].rpartition("/")[2]: r for r in records}
    for path in sorted((staging / "conda-meta").glob("*.json")):
        record: dict[str, Any] = json.loads(path.read_bytes())
        index = json.loads((Path(record["extracted_package_dir"]) / "info" / "index.json").read_bytes())
        wanted = locked[record["fn"]]
        kept = {key: value for key, value in record.items() if key not in _FROM_PACKAGE and key != "size"}
        kept |= {key: index[key] for key in _FROM_PACKAGE if index.get(key) is not None}
        kept |= {"url": wanted["url"], "channel": wanted["url"].rsplit("/", 2)[0], **_OF_THIS_MACHINE}
        kept["size"] = archives[wanted["name"]].stat().st_size
        kept["link"] = {"source": "", "type": 1}  # 1: a separate file, which a link to the unpacked package becomes
        path.write_text(pretty_json(kept), encoding="utf-8")
    (staging / "conda-meta" / "history").write_text("", encoding="utf-8")  # conda takes the folder for an environment


def promised_files(root: Path) -> dict[str, str]:
    """Return path -> sha256 as the packages promise it, for every file that is linked and not generated here."""
    promised = {}
    for path in sorted((root / "conda-meta").glob("*.json")):
        for item in (json.loads(path.read_bytes()).get("paths_data") or {}).get("paths", []):
            digest = item.get("sha256_in_prefix") or item.get("sha256")
            # Compiled files of the packages are compiled again, with hashes in place of times.
            if digest and item.get("path_type") == "hardlink" and not item["_path"].endswith(".pyc"):
                promised[item["_path"]] = digest
    return promised
