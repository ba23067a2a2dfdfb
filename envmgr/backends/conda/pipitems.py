"""The wheels of a conda-lock.yml: its items with `manager: pip`. Source: conda-lock 4, `lockfile/v1/models.py`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envmgr.backends.conda.input import wheel_platform
from envmgr.backends.conda.layout import PYTHON
from envmgr.backends.conda.lock import AddedWheels, LockedPackage
from envmgr.errors import InputError
from envmgr.wheels.locked import LockedWheel
from envmgr.wheels.requirements import read_requirement
from envmgr.wheels.settings import index_of
from envmgr.wheels.target import glibc_of, marker_holds


def item_of(wheel: LockedWheel, platform: str, added: AddedWheels) -> dict[str, Any]:
    return {
        "name": wheel.name,
        "version": wheel.version,
        "manager": "pip",
        "platform": platform,
        "dependencies": _dependencies(wheel.requires or (), added),
        "url": wheel.url,
        "hash": {"sha256": wheel.sha256},
        "category": "main",
        "optional": False,
    }


def _dependencies(rows: Iterable[str], added: AddedWheels) -> dict[str, str]:
    """Name -> versions, `*` for any; without those that are for extras and for other platforms."""
    found: dict[str, str] = {}
    for row in rows:
        try:
            asked = read_requirement(row)
        except ValueError:  # of an old wheel
            continue
        if marker_holds(asked.marker, added.python, added.platform):
            found[canonicalize_name(asked.name)] = str(asked.specifier) or "*"
    return dict(sorted(found.items()))


def read_items(
    items: Sequence[tuple[str, Mapping[str, Any]]], path: Path, text: str, packages: Iterable[LockedPackage]
) -> AddedWheels:
    """What (place in the file, item) tell; they may be of another tool's lock, whose URLs are the files' own places.

    Raises:
        InputError: `lock-invalid`, `lock-unhashed`.
    """
    wheels = [_wheel_of(item, where, path, text) for where, item in items]
    names = [wheel.name for wheel in wheels]
    if twice := sorted(n for n, times in Counter(names).items() if times > 1):
        raise InputError("lock-invalid", f"{path}: {twice[0]} is locked twice", context=", ".join(twice))
    python = next((p.version for p in packages if p.name == PYTHON), None)
    if python is None:
        raise InputError("lock-invalid", f"{path}: wheels for no Python", context="no conda package `python`")
    return AddedWheels(
        python=python,
        platform=_platform(str(items[0][1].get("platform")), wheels, path),
        uv="",
        wheels=tuple(sorted(wheels, key=lambda wheel: wheel.name)),
    )


def _platform(platform: str, wheels: Iterable[LockedWheel], path: Path) -> str:
    """One on which all of them run: it only decides what an index is asked for."""
    needed = glibc_of(wheels)
    try:
        least = wheel_platform(platform, {})
        return max(least, wheel_platform(platform, {"__glibc": needed}), key=_glibc) if needed else least
    except ValueError as error:
        raise InputError("lock-invalid", f"{path}: {error}") from None


def _glibc(platform: str) -> int:
    return int(platform.rpartition("_")[2])


def _wheel_of(item: Mapping[str, Any], where: str, path: Path, text: str) -> LockedWheel:
    name, version, url, hashes = (item.get(key) for key in ("name", "version", "url", "hash"))
    if not (isinstance(name, str) and isinstance(version, str) and isinstance(url, str) and isinstance(hashes, dict)):
        raise InputError("lock-invalid", f"{where}: `name`, `version` and `url` must be texts, `hash` a mapping")
    index = index_of(url)
    file = unquote((url if index else urlsplit(url).path).rpartition("/")[2])
    try:
        found = parse_wheel_filename(file)
        same = found[0] == canonicalize_name(name) and found[1] == Version(version)
    except (InvalidWheelFilename, InvalidVersion):
        same = False
    if not same or not (index or re.match(r"(https?|file)://", url)):
        raise InputError(
            "lock-invalid",
            f"{where}: the URL names no wheel of {name} {version}",
            context=url,
            hint="sources, and what lies in a version control system, are not installed",
        )
    sha256 = str(hashes.get("sha256") or "")
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        line = next((n for n, row in enumerate(text.split("\n"), 1) if row.strip() == f"url: {url}"), 1)
        raise InputError(
            "lock-unhashed",
            f"{path}:{line}: {name} {version} has no sha256",
            context=url,
            hint="lock again from an index that has sha256 sums",
        )
    return LockedWheel(name=canonicalize_name(name), version=version, file=file, sha256=sha256, index=index, url=url)
