"""Wheels of `pip:` that are added to the packages of `specs:`. Conda's packages are a constraint and are never
replaced.

Before an install, a package's distributions are known only by its name. The build uses those that it finds
(wheels_worker.py). This module loads slowly, and is imported only for recipes and locks that have wheels.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envmgr.backends.conda.lock import PYTHON, CondaLock, LockedPackage, is_sha256, unhashed
from envmgr.backends.conda.models import CondaInput, wheel_platform
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Reporter
from envmgr.system.run import Runner
from envmgr.wheels.locked import AddedWheels, LockedWheel, wheel_set
from envmgr.wheels.requirements import Question, read_requirement
from envmgr.wheels.settings import index_of
from envmgr.wheels.target import cuda_of_wheels, glibc_of_wheels, marker_holds, newer_than_cuda


def item_of(wheel: LockedWheel, platform: str, added: AddedWheels) -> dict[str, Any]:
    return {
        "name": wheel.name,
        "version": wheel.version,
        "manager": "pip",
        "platform": platform,
        "dependencies": _dependencies(wheel.requires or (), added),
        "url": wheel.url,
        "hash": {"sha256": wheel.sha256},
        "category": "main",
        "optional": False,
    }


def _dependencies(rows: Iterable[str], added: AddedWheels) -> dict[str, str]:
    """Return name -> versions, `*` for any; without rows for extras and for other platforms."""
    found: dict[str, str] = {}
    for asked in _readable(rows):
        if marker_holds(asked.marker, added.python, added.platform):
            found[canonicalize_name(asked.name)] = str(asked.specifier) or "*"
    return dict(sorted(found.items()))


def _readable(rows: Iterable[str]) -> Iterator[Requirement]:
    """Yield the requirements, without rows of old wheels that cannot be read."""
    for row in rows:
        with suppress(ValueError):
            yield read_requirement(row)


def read_items(
    items: Sequence[tuple[str, Mapping[str, Any]]], path: Path, text: str, packages: Iterable[LockedPackage]
) -> AddedWheels:
    """Return the wheels of the items, each given as (place in the file, item).

    They may come from another tool's lock, whose URLs are the places of the files themselves.

    Raises:
        InputError: `lock-invalid`, `lock-unhashed`.
    """
    wheels = [wheel_of(item, where, path, text) for where, item in items]
    names = [wheel.name for wheel in wheels]
    if twice := sorted(n for n, times in Counter(names).items() if times > 1):
        raise InputError("lock-invalid", f"{path}: {twice[0]} is locked twice", context=", ".join(twice))
    python = next((p.version for p in packages if p.name == PYTHON), None)
    if python is None:
        raise InputError("lock-invalid", f"{path}: wheels for no Python", context="no conda package `python`")
    return AddedWheels(
        python=python,
        platform=_platform(str(items[0][1].get("platform")), wheels, path),
        uv="",
        wheels=tuple(sorted(wheels, key=lambda wheel: wheel.name)),
    )


def _platform(platform: str, wheels: Iterable[LockedWheel], path: Path) -> str:
    """Return a platform on which all of the wheels run. It only decides what an index is asked for."""
    needed = glibc_of_wheels(wheels)
    try:
        least = wheel_platform(platform, {})
        return max(least, wheel_platform(platform, {"__glibc": needed}), key=_glibc) if needed else least
    except ValueError as error:
        raise InputError("lock-invalid", f"{path}: {error}") from None


def _glibc(platform: str) -> int:
    return int(platform.rpartition("_")[2])


def wheel_of(item: Mapping[str, Any], where: str, path: Path, text: str) -> LockedWheel:
    name, version, url, hashes = (item.get(key) for key in ("name", "version", "url", "hash"))
    if not (isinstance(name, str) and isinstance(version, str) and isinstance(url, str) and isinstance(hashes, dict)):
        raise InputError("lock-invalid", f"{where}: `name`, `version` and `url` must be texts, `hash` a mapping")
    index = index_of(url)
    file = unquote((url if index else urlsplit(url).path).rpartition("/")[2])
    try:
        found = parse_wheel_filename(file)
        same = found[0] == canonicalize_name(name) and found[1] == Version(version)
    except (InvalidWheelFilename, InvalidVersion):
        same = False
    if not same or not (index or re.match(r"(https?|file)://", url)):
        raise InputError(
            "lock-invalid",
            f"{where}: the URL names no wheel of {name} {version}",
            context=url,
            hint="sources, and what lies in a version control system, are not installed",
        )
    sha256 = str(hashes.get("sha256") or "")
    if not is_sha256(sha256):
        raise unhashed(f"{name} {version}", url, path, text, "lock again from an index that has sha256 sums")
    return LockedWheel(name=canonicalize_name(name), version=version, file=file, sha256=sha256, index=index, url=url)


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
    from envmgr.wheels.resolve import resolve_beside

    python = require_python(lock.packages)
    brought = promised_distributions(lock.packages)
    question = wanted.question()
    if keep is not None and keep.added is not None:
        old = keep.added
        question = question.keeping(old.wheels, upgrade) if upgrade else question.held_to(old.versions)
    present = {name: _marked(version) for name, (_, version) in brought.items()}
    try:
        resolved = resolve_beside(present, question, python, site, runner, reporter, places)
    except EnvmgrError as error:
        if f"+{_OURS}" in "\n".join(error.context):
            error.hint = (
                f"`+{_OURS}` marks what conda's packages bring, which wheels never replace: change a "
                "spec, or loosen a row of `pip`"
            )
        raise
    found, used = wheel_set(resolved, site), resolved.needed
    assumed = {name: " ".join(brought[name]) for name in sorted(used)}
    added = AddedWheels(**dict(found), assumed=assumed)
    notes = [_note(assumed)] if assumed else []
    notes += [
        f"{name} is conda's, and what its extra `{extra}` needs is not added: name that in `pip`"
        for name, extra in sorted(_extras(question, [row for wheel in found.wheels for row in wheel.requires or ()]))
        if name in used
    ]
    if newer := newer_than_cuda(added.versions):
        notes.append(
            f"{', '.join(newer)}: newer than its CUDA {cuda_of_wheels(added.versions)}; a row of `pip` pins it"
        )
    return dataclasses.replace(lock, added=added), notes


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
        needs = {re.split(r"[ <>=!~]", row, maxsplit=1)[0] for row in package.depends}
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


def brought_by(lock: CondaLock) -> dict[str, str]:
    """Map normalised name -> version of the distributions that conda's packages bring, by their names or by the lock's
    assumptions.
    """
    assumed = {} if lock.added is None else lock.added.assumed
    found = {name: text.rpartition(" ")[2] for name, text in assumed.items()}
    return found | {name: version for name, (_, version) in promised_distributions(lock.packages).items()}


def _marked(version: str) -> str:
    read = Version(version)
    # A version has one `+`: further parts of its local version follow a dot.
    return f"{read}.{_OURS}" if read.local else f"{read}+{_OURS}"


def _extras(question: Question, rows: Iterable[str]) -> set[tuple[str, str]]:
    """Return (name, extra) of each extra that the recipe or a wheel asks for."""
    extras: set[tuple[str, str]] = set()
    for asked in _readable((*question.requirements, *rows)):
        if asked.marker is not None and "extra" in str(asked.marker):
            continue
        extras |= {(canonicalize_name(asked.name), extra) for extra in asked.extras}
    return extras


def _note(assumed: Mapping[str, str]) -> str:
    told = ", ".join(
        text if canonicalize_name(text.split()[0]) == name else f"{name} by {text}" for name, text in assumed.items()
    )
    return f"wheels need what these packages of conda should bring: {told}; the build fails if they do not"
