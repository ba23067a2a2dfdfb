"""NVIDIA's driver requirements, by the minor-version compatibility rule.

Source: NVIDIA, "CUDA Compatibility", table of minimum drivers for minor-version compatibility: a toolkit of major version
M runs on any driver that is at least M's first supported one.
"""

from __future__ import annotations

from envmgr.catalog.gpu.tables import FLOORS


def minimum_driver(cuda_version: str) -> str | None:
    """The oldest driver for a CUDA version such as `11.8`; None where the table has no row."""
    return FLOORS.get(cuda_version.partition(".")[0])


def driver_faults(cuda: str, required: str | None) -> list[str]:
    """What is wrong with a recipe whose lock has this CUDA, and that requires driver `required` (None: says nothing of it)."""
    needed = minimum_driver(cuda)
    if required is None:
        return [f"requires.nvidia_driver: the lock has CUDA {cuda}, which needs a driver >= {needed or '(see NVIDIA)'}"]
    if needed and _numbers(required) < _numbers(needed):
        return [f"requires.nvidia_driver: CUDA {cuda} needs >= {needed}, the recipe says {required}"]
    return []


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
