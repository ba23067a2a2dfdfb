"""The shipped recipes, as tests know them."""

from __future__ import annotations

from envmgr.backends.conda.lock import CondaLock
from envmgr.backends.conda.lockfile import read_lock
from envmgr.system.files import shipped

ROOT = shipped("recipes")
LOCKED = sorted({str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/*/*lock*")})
"""Entries with a lock: images of a registry that was out of reach have none."""
CONDA_FORGE = "https://conda.anaconda.org/conda-forge"
NOTE = "package records collected from public lock files on 2026-11-20: a partial snapshot of the channel"
# NVIDIA, "CUDA Compatibility", minimum driver for minor-version compatibility.
DRIVERS = {
    "pytorch/2.1-cuda11.8": "450.80.02",
    "pytorch/2.7-cuda12.9": "525.60.13",
    "tensorflow/2.15-cuda11.8": "450.80.02",
}
ENTRIES = sorted([*DRIVERS, "python/3.10", "python/3.12", "mpich/4.2"])


def lock_of(entry: str) -> CondaLock:
    return read_lock(ROOT / entry)[0]
