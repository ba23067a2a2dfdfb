"""The systems that an install is built for (invariant 4): never read from the build host's CPU."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Literal

from envmgr.system.models import FrozenModel

CpuLevel = Literal["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]

# A node of a level runs what was built for that level or a lower one. Source: x86-64 psABI, "Micro-Architecture
# Levels".
CPU_ORDER = {"x86-64": 1, "x86-64-v2": 2, "x86-64-v3": 3, "x86-64-v4": 4}


class Target(FrozenModel):
    """Architecture, the site's CPU level, OS id and major version, glibc."""

    arch: str
    cpu_level: CpuLevel
    os_id: str
    os_major: str
    glibc: str


def read_target(cpu_level: CpuLevel, os_release: Path = Path("/etc/os-release")) -> Target:
    """Return the target of this site, by this host's OS. Source: os-release(5), `confstr(_CS_GNU_LIBC_VERSION)`."""
    fields: dict[str, str] = {}
    if os_release.exists():
        for line in os_release.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition("=")
            fields[key.strip()] = value.strip().strip("\"'")
    libc = platform.libc_ver()[1] or "unknown"
    return Target(
        arch=platform.machine(),
        cpu_level=cpu_level,
        os_id=fields.get("ID", "linux"),
        os_major=fields.get("VERSION_ID", "0").partition(".")[0],
        glibc=libc,
    )
