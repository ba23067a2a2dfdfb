"""NVIDIA's drivers by CUDA version. Data: what is not in a table is not known, and never guessed.

Source: FLOORS: NVIDIA, "CUDA Compatibility", minimum drivers for minor-version compatibility. SHIPPED: the driver that a toolkit's
installer brings, by the name of that installer (`cuda_12.1.0_530.30.02_linux.run`), read on 2026-11-22; release notes name lower
minima within the same branch, so branches are compared (the first number). Of 11.0 to 11.2, 12.7 and 13.4 no name was at hand.
"""

from __future__ import annotations

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

# What forward compatibility (`cuda-compat`) is for, by the names of GPUs. Source: NVIDIA, "CUDA Compatibility", forward compatibility:
# data centre GPUs; GeForce ends with error 804. Others (TITAN, RTX for workstations) are known as neither.
DATA_CENTRE = (
    "Tesla",
    "A2",
    "A10",
    "A16",
    "A30",
    "A40",
    "A100",
    "A800",
    "H100",
    "H200",
    "H800",
    "H20",
    "GH200",
    "L4",
    "L20",
    "L40",
    "L40S",
    "B100",
    "B200",
    "B300",
    "GB200",
    "GB300",
    "T4",
    "V100",
    "P100",
    "P40",
    "P4",
    "K80",
)
CONSUMER = ("GeForce",)
