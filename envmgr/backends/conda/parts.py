"""The parts of an install of conda packages, by the lock's sidecar, which has whole records."""

from __future__ import annotations

import json
from collections.abc import Iterator

from envmgr.backends.conda.lock import LockedPackage, name_of
from envmgr.store.parts import Part
from envmgr.wheels.locked import AddedWheels
from envmgr.wheels.parts import wheel_parts


def parts_of(sidecar: str) -> Iterator[Part]:
    """Yield the packages, and the wheels that are added to them. Raise ValueError, KeyError, TypeError for another
    text.
    """
    data = json.loads(sidecar)
    for row in data["packages"]:
        package = LockedPackage.from_json(row)
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
    if "added" in data:
        added = AddedWheels.model_validate(data["added"])
        yield from wheel_parts(added.wheels)
