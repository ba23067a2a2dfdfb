"""What wheels are resolved for: tags and markers of a Python on a platform, which need not be those of this host."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # slow to import: a lock is read without them
    from packaging.markers import Environment, Marker
    from packaging.tags import Tag

_OLD_NAMES = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}


def target_tags(python: str, platform: str) -> list[Tag]:
    """The tags of wheels that run there, best first. `python` is a version, `platform` in uv's words.

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


def target_environment(python: str, platform: str) -> Environment:
    """The values of markers there. `python` is a version, `platform` in uv's words; the kernel is nobody's, as uv has it."""
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


def holds(marker: Marker | None, python: str, platform: str) -> bool:
    """Whether a row of Requires-Dist counts there, with no extra asked for."""
    return marker is None or marker.evaluate(
        cast("dict[str, str]", {**target_environment(python, platform), "extra": ""})
    )
