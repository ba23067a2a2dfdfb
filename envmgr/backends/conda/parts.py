"""The parts of an install of conda packages, by the texts of its lock."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from envmgr.backends.conda.lock import name_of
from envmgr.backends.conda.lockfile import LOCK_NAME, SIDECAR_NAME, lock_of
from envmgr.errors import InputError
from envmgr.store.parts import Part
from envmgr.wheels.lockfile import WHEELS_LOCK
from envmgr.wheels.parts import wheel_parts


def parts_of(texts: Mapping[str, str]) -> Iterator[Part]:
    """Yield the packages, and the wheels that are added to them. Raise ValueError for texts that are no such lock."""
    try:
        sidecar = json.loads(texts.get(SIDECAR_NAME, "null"))
        lock = lock_of(texts[LOCK_NAME], sidecar, texts.get(WHEELS_LOCK, ""), Path())
    except InputError as error:
        raise ValueError(error.message) from None
    for package in lock.packages:
        needs = (name_of(each) for each in package.depends)
        yield Part(
            ecosystem="conda",
            name=package.name,
            version=package.version,
            build=package.build,
            key=package.name,
            needs=tuple(dict.fromkeys(each for each in needs if each and not each.startswith("__"))),
            sha256=package.sha256,
            licence=package.license or "",
            purl="conda",
            qualifiers={
                "build": package.build,
                "channel": package.channel.rpartition("/")[2],
                "subdir": package.subdir,
                "type": "conda" if package.url.endswith(".conda") else "tar.bz2",
            },
        )
    if lock.added is not None:
        yield from wheel_parts(lock.added.rows)
