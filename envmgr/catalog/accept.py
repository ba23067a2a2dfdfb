"""The rules that a recipe can accept, each by a key with a reason: `accept: {cuda-majors: why}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envmgr.catalog.variables import fault_in_variable

FILE_NEEDS = "file-needs"


HIDDEN = "hidden-commands"


RULES: Mapping[str, str] = {
    "cuda-majors": "packages for different majors of CUDA",
    "cuda-virtual": "packages of CUDA that the recipe does not ask for by `__cuda`, or by an older one",
    "cuda-driver": "CUDA without a driver requirement, or with one that is too old",
    "blas-variants": "`libblas`, `libcblas`, `liblapack` of different variants",
    "openmp-mutex": "an `_openmp_mutex` of another OpenMP than a package needs",
    "unmet-need": "a package that lacks what it needs, or has another build of it",
    "glibc-floor": "wheels for a newer glibc than the recipe requires",
    FILE_NEEDS: "packages whose files need others than their channel lists; a build looks, and takes those "
    "that the reason begins with",
    HIDDEN: "programs with the name of a command of the system or of shells; a build looks, and takes those "
    "that the reason begins with",
}
"""The rules that a recipe may accept, each with a reason: `accept: {cuda-majors: why}`."""


def named_in(reason: str) -> frozenset[str]:
    """Return the names that a reason begins with, up to a colon and a space: `ssh, scp: a newer OpenSSH`. A reason
    without a colon names none.
    """
    names, colon, _ = reason.partition(": ")
    return frozenset(re.split(r"[\s,;]+", names.strip())) - {""} if colon else frozenset()


ON_UNLOAD = "on_unload"


_VARIABLE = re.compile(r"variable:([A-Za-z_][A-Za-z0-9_]*|_?[A-Za-z][A-Za-z0-9]+_\*)")


_FUNCTION = re.compile(r"function:[A-Za-z_][A-Za-z0-9_]*")


def fault_in_key(key: str) -> str:
    """Return why a recipe cannot accept `key`; empty if it can."""
    if key in RULES or key == ON_UNLOAD or _FUNCTION.fullmatch(key):
        return ""
    named = _VARIABLE.fullmatch(key)
    if named is None:
        return (
            f"there is no rule `{key}`; known: {', '.join(sorted(RULES))}, {ON_UNLOAD}, variable:NAME, "
            "variable:STEM_*, function:NAME"
        )
    fault = fault_in_variable(named[1], as_list=True)
    return f"no recipe can accept {named[1]}: {fault}" if fault else ""


def key_for(accept: Mapping[str, str], rule: str) -> str:
    """Return the key of `accept` that covers `rule` (`variable:PROJ_DATA`, also by `variable:PROJ_*`); empty if there
    is none.
    """
    if rule in accept:
        return rule
    return next((key for key in accept if key.endswith("_*") and rule.startswith(key[:-1])), "")
