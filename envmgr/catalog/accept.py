"""The rules of locks and builds that a recipe can accept, each by a key with a reason: `accept: {cuda-majors: why}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "hidden-commands"
NOT_IMPORTED = "not-imported"
RULES: Mapping[str, str] = {
    "cuda-majors": "packages for different majors of CUDA",
    "cuda-virtual": "packages of CUDA that the recipe does not ask for by `__cuda`, or by an older one",
    "cuda-driver": "CUDA without a driver requirement, or with one that is too old",
    "blas-variants": "`libblas`, `libcblas`, `liblapack` of different variants",
    "glibc-floor": "wheels for a newer glibc than the recipe requires",
    NOT_IMPORTED: "modules that tests import; they leave out those that the reason begins with",
    HIDDEN: "programs with the name of a command of the system or of shells; a build looks, and takes those "
    "that the reason begins with",
}
"""The rules that a recipe may accept, each with a reason: `accept: {cuda-majors: why}`."""
SEEN_IN_BUILDS = frozenset({HIDDEN, NOT_IMPORTED})
"""Those whose faults no lock shows."""


def named_in(reason: str) -> frozenset[str]:
    """Return the names that a reason begins with, up to a colon and a space: `ssh, scp: a newer OpenSSH`. A reason
    without a colon names none.
    """
    names, colon, _ = reason.partition(": ")
    return frozenset(re.split(r"[\s,;]+", names.strip())) - {""} if colon else frozenset()
