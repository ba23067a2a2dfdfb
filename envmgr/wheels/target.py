"""The system that wheels are resolved for, which need not be this host: its tags, markers and glibc.

Everywhere `python` is a version (3.11 or 3.11.7) and `platform` a platform in uv's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from envmgr.wheels.locked import LockedWheel

if TYPE_CHECKING:  # slow to import: a lock is read without them
    from packaging.markers import Environment, Marker
    from packaging.tags import Tag

# Source: PEP 600, and PEP 513, 571, 599 for the names before it.
_OLD_NAMES = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}


def target_tags(python: str, platform: str) -> list[Tag]:
    """Return the tags of wheels that run there, best first.

    Source: packaging.python.org, "Platform compatibility tags"; PEP 600.
    """
    from packaging.tags import compatible_tags, cpython_tags

    major, minor = (int(part) for part in python.split(".")[:2])
    arch, _, glibc = platform.partition("-manylinux_2_")
    names: list[str] = []
    for newest in range(int(glibc), 4, -1):
        names.append(f"manylinux_2_{newest}_{arch}")
        if (2, newest) in _OLD_NAMES and (arch == "x86_64" or newest == 17):
            names.append(f"{_OLD_NAMES[2, newest]}_{arch}")
    names.append(f"linux_{arch}")
    interpreter = f"cp{major}{minor}"
    return [*cpython_tags((major, minor), platforms=names), *compatible_tags((major, minor), interpreter, names)]


def glibc_of(wheels: Iterable[LockedWheel]) -> str | None:
    """Return the oldest glibc that all wheels run on: the highest of the lowest tags of each. None if they need no
    glibc.
    """
    from packaging.utils import parse_wheel_filename

    old = {name: glibc for glibc, name in _OLD_NAMES.items()}
    needed: list[tuple[int, int]] = []
    for wheel in wheels:
        found: list[tuple[int, int]] = []
        for tag in parse_wheel_filename(wheel.file)[3]:
            if match := re.match(r"manylinux_(\d+)_(\d+)_", tag.platform):
                found.append((int(match[1]), int(match[2])))
            elif (name := tag.platform.partition("_")[0]) in old:
                found.append(old[name])
        if found:
            needed.append(min(found))
    return ".".join(map(str, max(needed))) if needed else None


def target_environment(python: str, platform: str) -> Environment:
    """Return the values of markers there. The kernel is unknown: uv leaves its values empty, too."""
    from packaging.markers import default_environment

    environment = default_environment()
    environment |= {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "implementation_version": python,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": platform.partition("-")[0],
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_release": "",
        "platform_version": "",
    }
    return environment


def marker_holds(marker: Marker | None, python: str, platform: str) -> bool:
    """Return True if a row of Requires-Dist counts there when no extra is asked for."""
    values = {**target_environment(python, platform), "extra": ""}
    return marker is None or marker.evaluate(cast("dict[str, str]", values))
