"""Wheels of `pip:` that are added to the packages of `specs:`. Conda's packages are a constraint and are never
replaced.

Before an install, a package's distributions are known only by its name. The build uses those that it finds
(wheels_worker.py). This module loads slowly, and is imported only for recipes and locks that have wheels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envmgr.backends.conda.lock import PYTHON, CondaLock, LockedPackage, name_of
from envmgr.backends.conda.models import CondaInput
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.system.run import Runner
from envmgr.wheels.requirements import read_requirement
from envmgr.wheels.target import cuda_of_wheels, newer_than_cuda

_OURS = "conda"  # local part of the versions that uv gets for conda's distributions: it marks them in uv's reasons
# Packages whose distribution has another name. Source: conda-forge's recipes and their packages' dist-info names.
_NAMES = {
    "brotli-python": "brotli",
    "cupy-core": "cupy",
    "dask-core": "dask",
    "matplotlib-base": "matplotlib",
    "msgpack-python": "msgpack",
    "nbconvert-core": "nbconvert",
    "py-opencv": "opencv-python",
    "py-xgboost": "xgboost",
    "pyarrow-core": "pyarrow",
    "pytables": "tables",
    "python-build": "build",
    "python-graphviz": "graphviz",
    "pytorch": "torch",
    "tensorflow-base": "tensorflow",
}
# Packages that bring no distribution of their own.
_WITHOUT = frozenset({"python", "python_abi", "pytorch-cpu", "pytorch-gpu", "pytorch-cuda", "pytorch-mutex", "opencv"})


def add_wheels(
    lock: CondaLock,
    wanted: CondaInput,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    places: Mapping[str, str],
    keep: CondaLock | None = None,
    upgrade: Collection[str] = (),
) -> tuple[CondaLock, list[str]]:
    """Return the lock with the wheels that the recipe asks for, and notes for the user. Of the wheels that `keep` has,
    no other version is taken; with `upgrade`, these move, and the others stay where they fit.

    Raises:
        EnvmgrError: `pip-without-python`, and those of `wheels.resolve.resolve_beside`.
    """
    from envmgr.wheels.metadata import Metadata
    from envmgr.wheels.resolve import resolve_beside

    python = require_python(lock.packages)
    brought = promised_distributions(lock.packages)
    question = wanted.question()
    if keep is not None and keep.added is not None:
        question = question.again(keep.added, upgrade)
    present = [Metadata(name=name, version=_marked(version)) for name, (_, version) in brought.items()]
    try:
        resolved = resolve_beside(present, question, python, site, runner, reporter, places)
    except EnvmgrError as error:
        if f"+{_OURS}" in "\n".join(error.context):
            error.hint = (
                f"`+{_OURS}` marks what conda's packages bring, which wheels never replace: change a "
                "spec, or loosen a row of `pip`"
            )
        raise
    found, used = resolved.lock, resolved.needed
    notes = [_note({name: brought[name] for name in sorted(used)})] if used else []
    notes += [
        f"{name} is conda's, and what its extra `{extra}` needs is not added: name that in `pip`"
        for name, extra in sorted(_extras(question.requirements))
        if name in used
    ]
    if newer := newer_than_cuda(found.versions):
        notes.append(
            f"{', '.join(newer)}: newer than its CUDA {cuda_of_wheels(found.versions)}; a row of `pip` pins it"
        )
    return replace(lock, added=found.model_copy(update={"recipe": lock.recipe_digest})), notes


def require_python(packages: Iterable[LockedPackage]) -> str:
    """Return the version of the Python for which wheels are unpacked. Raises EnvmgrError `pip-without-python`."""
    found = next((p for p in packages if p.name == PYTHON), None)
    # Only the build string names the implementation. A `t` at its end is a free-threaded Python.
    if found is None or re.search(r"pypy|graalpy|_cp\d+t$", found.build):
        raise EnvmgrError(
            "pip-without-python",
            "wheels need a CPython among conda's packages",
            context="the specs bring no python" if found is None else f"python {found.version} {found.build}",
            hint="name it in the recipe's `specs`, as `python 3.11.*`; free-threaded Python and PyPy are not "
            "supported with `pip`",
        )
    return found.version


def promised_distributions(packages: Iterable[LockedPackage]) -> dict[str, tuple[str, str]]:
    """Map normalised distribution name -> name and version of the conda package that brings it, judged by package
    names.

    A package that does not depend on Python brings none. A package whose version pip cannot read is left out.
    """
    found: dict[str, tuple[str, str]] = {}
    for package in packages:
        needs = {name_of(row) for row in package.depends}
        if package.name in _WITHOUT or not needs & {"python", "python_abi"}:
            continue
        try:
            Version(package.version)
        except InvalidVersion:
            continue
        own = package.name not in _NAMES
        name = canonicalize_name(_NAMES.get(package.name, package.name))
        if own and name in found:  # `matplotlib` consists of `matplotlib-base` and more
            continue
        found[name] = (package.name, package.version)
    return found


def _marked(version: str) -> str:
    read = Version(version)
    # A version has one `+`: further parts of its local version follow a dot.
    return f"{read}.{_OURS}" if read.local else f"{read}+{_OURS}"


def _extras(rows: Iterable[str]) -> set[tuple[str, str]]:
    """Return (name, extra) of each extra that the recipe asks for."""
    return {(canonicalize_name(asked.name), extra) for asked in map(read_requirement, rows) for extra in asked.extras}


def _note(used: Mapping[str, tuple[str, str]]) -> str:
    told = ", ".join(
        f"{package} {version}" if canonicalize_name(package) == name else f"{name} by {package} {version}"
        for name, (package, version) in used.items()
    )
    return f"wheels need what these packages of conda should bring: {told}; the build fails if they do not"
