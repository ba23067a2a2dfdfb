"""The lock is the file that people review: its sidecar may know more of a package, and may say nothing else than the lock does."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envmgr.backends.conda.lock import AddedWheels, LockedPackage
from envmgr.catalog.locks import foreign_lock
from envmgr.errors import InputError

_SITE_PACKAGES = re.compile(r"lib/python3\.\d+t?/site-packages")


def require_agreement(document: Any, own: Mapping[str, Any], sidecar: Path, lock: str) -> None:
    """`document` is the lock as it was read, `own` what the sidecar would write into it. InputError `lock-invalid` for the first difference."""
    found, wanted = _packages(document), _packages(own)
    if len(found) != len(wanted):
        raise _differs(f"{sidecar} has {len(wanted)} packages, {lock} has {len(found)}", ())
    for there, here in zip(found, wanted, strict=True):
        name = here.get("name")
        if not isinstance(there, dict) or there.get("name") != name:
            said = there.get("name") if isinstance(there, dict) else there
            raise _differs(f"{sidecar} names {name} where {lock} has {said}", (f"{name} {here.get('url')}",))
        for key in dict.fromkeys((*_flat(here), *_flat(there))):
            if (value := _flat(here).get(key)) != _flat(there).get(key):
                raise _differs(f"{sidecar} names another {key} of {name} than {lock}", (str(value),))
    for key in dict.fromkeys((*own, *document)):
        if key != "package" and own.get(key) != document.get(key):
            raise _differs(f"{sidecar} and {lock} have another `{key}`", (str(own.get(key)), str(document.get(key))))


def require_possible(packages: Sequence[LockedPackage], platform: str, sidecar: Path) -> None:
    """What the lock cannot say, and the installer goes by. InputError `lock-invalid`."""
    for each in packages:
        if each.subdir not in (platform, "noarch"):
            raise _differs(f"{sidecar}: {each.name} is for {each.subdir}, the lock for {platform}", ())
        if each.noarch is not None and (each.subdir != "noarch" or each.noarch not in ("generic", "python")):
            raise _differs(f"{sidecar}: {each.name} cannot be noarch: {each.noarch}", (each.url,))
        place = each.python_site_packages_path
        if place is not None and (each.name != "python" or not _SITE_PACKAGES.fullmatch(place)):
            raise _differs(f"{sidecar}: {each.name} cannot have packages in {place}", (each.url,))


def require_same_wheels(here: AddedWheels | None, there: AddedWheels | None, sidecar: Path, lock: str) -> None:
    """Their files and indexes, which the lock has as one URL, and their Python. InputError `lock-invalid`."""
    if here is None or there is None:
        return  # of a lock without them, and told already where only one has them
    if here.python != there.python:
        raise _differs(f"{sidecar} has wheels for Python {here.python}, {lock} for {there.python}", ())
    for ours, theirs in zip(here.wheels, there.wheels, strict=True):
        for key in ("file", "index"):
            if getattr(ours, key) != getattr(theirs, key):
                raise _differs(f"{sidecar} names another {key} of {ours.name} than {lock}", (getattr(ours, key),))


def require_own_channels(packages: Sequence[LockedPackage], allowed: Collection[str], lock: Path) -> None:
    """Each from a place in `allowed`, URLs without a slash at their ends. InputError `lock-foreign`."""
    for each in packages:
        if each.channel not in allowed:
            raise foreign_lock(lock, each.name, each.url, allowed)


def _packages(document: Any) -> list[Any]:
    """Sorted as they are written: conda's by name, then wheels."""
    rows = document.get("package") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        return []
    return rows


def _flat(item: Mapping[str, Any]) -> dict[str, Any]:
    """Its fields; those of `hash` by their own names."""
    flat = {key: value for key, value in item.items() if key != "hash"}
    hashes = item.get("hash")
    return {**flat, **(hashes if isinstance(hashes, dict) else {"hash": hashes})}


def _differs(message: str, context: Iterable[str]) -> InputError:
    return InputError("lock-invalid", message, context=tuple(context), hint="one of the two was changed: lock again")
