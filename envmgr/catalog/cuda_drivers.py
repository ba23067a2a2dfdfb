"""NVIDIA's drivers by CUDA version: tables, and what a recipe must require. A version without a row is unknown, never
guessed.

Source:
    FLOORS: NVIDIA, "CUDA Compatibility", minimum drivers for minor-version compatibility: a toolkit of major version M
        runs on any driver that is at least M's first supported one.
    SHIPPED: the driver that a toolkit's installer brings, by the installer's name (`cuda_12.1.0_530.30.02_linux.run`),
        read on 2026-11-22. Release notes name lower minima within one branch, so only branches (the first number) are
        compared. 11.0 to 11.2, 12.7 and 13.4 are missing: no name was at hand.
"""

from __future__ import annotations

from envmgr.catalog.versions import numbers

# CUDA major -> the oldest driver that runs its machine code.
FLOORS = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}


# CUDA version -> the driver of its toolkit: one of its branch, or of a later one, compiles its PTX.
SHIPPED = {
    "11.3": "465.19.01",
    "11.4": "470.57.02",
    "11.5": "495.29.05",
    "11.6": "510.39.01",
    "11.7": "515.43.04",
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.86.10",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}


# What forward compatibility (`cuda-compat`) is for, by the names of GPUs. Source: NVIDIA, "CUDA Compatibility", forward
# compatibility: data centre GPUs; GeForce ends with error 804. Others (TITAN, RTX for workstations) are known as
# neither.
DATA_CENTRE = tuple(
    """
    Tesla A2 A10 A16 A30 A40 A100 A800 H100 H200 H800 H20 GH200 L4 L20 L40 L40S B100 B200 B300 GB200 GB300 T4 V100
    P100 P40 P4 K80
    """.split()
)


CONSUMER = ("GeForce",)


def toolkit_driver(cuda: str) -> str:
    """Return the driver that the toolkit brings; empty if no table has it."""
    return SHIPPED.get(cuda, "")


def minimum_driver(cuda_version: str) -> str | None:
    """Return the oldest driver for a CUDA version such as `11.8`; None if the table has no row."""
    return FLOORS.get(cuda_version.partition(".")[0])


def driver_faults(cuda: str, required: str | None) -> list[str]:
    """Return what is wrong with a recipe that requires driver `required` (None: no driver) while its lock has this
    CUDA.
    """
    needed = minimum_driver(cuda)
    if required is None:
        return [f"requires.nvidia_driver: the lock has CUDA {cuda}, which needs a driver >= {needed or '(see NVIDIA)'}"]
    if needed and numbers(required) < numbers(needed):
        return [f"requires.nvidia_driver: CUDA {cuda} needs >= {needed}, the recipe says {required}"]
    return []
