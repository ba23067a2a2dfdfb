"""Files and packages that a build needs from outside: sources, EasyBuild's own files, packages of the system."""

from __future__ import annotations

import platform
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.pylock import Package, Pylock

from envmgr.backends.easybuild import Workbench
from envmgr.backends.easybuild.failures import missing_packages
from envmgr.backends.easybuild.lock import (
    DEFAULT_CONTENTS,
    DEFAULT_FILES,
    PACKAGES,
    EasyBuildFile,
    EasyBuildLock,
    LockedItem,
)
from envmgr.backends.easybuild.settings import EASYBUILD
from envmgr.downloads import Fetched, Given
from envmgr.downloads.sources import SourceFile, cached_source, fetch_sources
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.system.run import Runner
from envmgr.wheels.fetch import places_of
from envmgr.wheels.index import IndexPlace, look
from envmgr.wheels.requirements import Question
from envmgr.wheels.resolve import FoundFile, ask_indexes, found_file
from envmgr.wheels.settings import PUBLIC
from envmgr.wheels.uv import ONLY_WHEELS, PYLOCK

# Builds a source that has no pyproject.toml, such as EasyBuild's. Source: PEP 517, "Source trees".
_BUILDS = "setuptools"
# Any will do: EasyBuild's sources, and what builds them, are for every platform.
_PLATFORM = f"{platform.machine()}-manylinux_2_17"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def find_files(version: str, contents: str, bench: Workbench) -> tuple[tuple[EasyBuildFile, ...], str]:
    """Return the files that an EasyBuild of that version is made from; or none, and why they cannot be known.

    `contents` is the `contents_sum` of the EasyBuild that is here.
    """
    if version == EASYBUILD:
        same = contents == DEFAULT_CONTENTS
        return (DEFAULT_FILES, "") if same else ((), "the EasyBuild that is here is not as it was released")
    try:
        return _ask(version, bench), ""
    except Interrupted:
        raise
    except EnvmgrError as error:
        return (), error.message


def _ask(version: str, bench: Workbench) -> tuple[EasyBuildFile, ...]:
    rows = tuple(f"{package}=={version}" for package in PACKAGES)
    question = Question(requirements=rows, indexes=(PUBLIC,), platform=_PLATFORM)
    # The source of these, wheels of other packages, and nothing that they need.
    sources = ["--no-deps", *ONLY_WHEELS, *(word for name in PACKAGES for word in ("--no-binary", name))]
    with ask_indexes(question, _PYTHON, bench.site, bench.runner, bench.reporter, {}) as asking:
        packages = Pylock.from_dict(tomllib.loads(asking.compile([*sources, *PYLOCK]))).packages
        found = [_source(package) for package in packages]
        found.sort(key=lambda each: PACKAGES.index(each.row.name))
        found += asking.wheels([_BUILDS])
        asking.refuse_unhashed(found)
    return tuple(
        EasyBuildFile(package=each.row.name, version=each.row.version, name=each.file, sha256=each.row.sha256)
        for each in found
    )


def _source(package: Package) -> FoundFile:
    if package.sdist is None:
        raise EnvmgrError("unsolvable", f"no index has a source of {package.name} {package.version}")
    return found_file(package, package.sdist)


def index_places_of(bench: Workbench) -> list[IndexPlace]:
    """Return the places of the package index; without upstream only the site's own mirrors of it."""
    places = places_of([PUBLIC], bench.site, bench.runner)
    return places if bench.site.sources.upstream else places[:-1]


def find_in_index(files: Sequence[EasyBuildFile], bench: Workbench) -> Mapping[str, tuple[str, ...]]:
    """Return sha256 -> URLs of each file in the places of the index, in their order, until all are found.

    A place that does not answer is reported, and has none.
    """
    found: dict[str, tuple[str, ...]] = {}
    sums = {file.sha256 for file in files}
    for place in index_places_of(bench):
        if found.keys() >= sums:
            break
        listed = look([file.row for file in files], place, bench.runner)
        if unread := next((each for each in listed.values() if isinstance(each, Exception)), None):
            bench.reporter.say(f"{bench.label}: {place.url}: {unread}")
        for each in (each for files in listed.values() if not isinstance(files, Exception) for each in files):
            if each.sha256 in sums:
                found[each.sha256] = (*found.get(each.sha256, ()), each.url)
    return found


_FOLDER = "e/EasyBuild"  # where EasyBuild keeps its own sources
_CARRY = (
    "or run `envmgr fetch --carry {entry}` on a machine with a network and the same catalog, bring the folder `cache` "
    "of its prefix, and run `envmgr fetch {entry} --file /path/to/cache`"
)


def source_files(item: LockedItem) -> list[SourceFile]:
    """Return the item's sources, as the cache has them."""
    return [SourceFile(s.name, s.sha256, s.urls, s.folder or item.folder) for s in item.sources]


def collect_all(items: Sequence[LockedItem], bench: Workbench) -> None:
    """Bring every source of the items into the cache; an existing one is only checked.

    Raises:
        EnvmgrError: `source-missing` and `source-differs` for all of them, with what easyconfigs say on how to get
            theirs.
    """
    cache = bench.prefix.source_cache
    files = [(item, file) for item in items for file in source_files(item)]
    lacking = [(item, file) for item, file in files if not (cache / file.sha256 / file.name).is_file()]
    if lacking:
        _fetch(lacking, bench)


def collect_sources(item: LockedItem, bench: Workbench) -> dict[str, Path]:
    """Return file name -> its place in the cache, each compared with the lock's sha256.

    A file that was damaged is fetched again.

    Raises:
        EnvmgrError: `source-missing` and `source-differs`, with what the easyconfig says on how to get it.
    """
    collect_all([item], bench)
    found = {}
    for file in source_files(item):
        path = cached_source(bench.prefix, file)
        if path is None:
            _fetch([(item, file)], bench, again=True)
            path = cached_source(bench.prefix, file)
        if path is None:
            message = f"{file.name} went from the cache while it was needed"
            raise EnvmgrError("source-missing", message, context=str(bench.prefix.source_cache))
        found[file.name] = path
    return found


def _fetch(wanted: Sequence[tuple[LockedItem, SourceFile]], bench: Workbench, *, again: bool = False) -> None:
    try:
        _bring([file for _, file in wanted], bench, again=again)
    except EnvmgrError as error:
        if error.reference in ("source-missing", "source-differs"):
            said = dict.fromkeys(f"{i.easyconfig} says: {i.instructions}" for i, _ in wanted if i.instructions)
            error.context = (*error.context, *said)
        raise


def fetch_locked(
    lock: EasyBuildLock, bench: Workbench, *, given: Given, sources: bool, easybuild: bool, dry_run: bool = False
) -> Fetched:
    """Bring what the lock names into the cache: the `sources` of its items, and the files of an EasyBuild.

    Raises:
        EnvmgrError: as `fetch_sources`, for all of them.
    """
    files = [file for item in lock.items for file in source_files(item)] if sources else []
    own = []
    if easybuild and not lock.easybuild_files:
        bench.reporter.say(
            f"{bench.label}: EasyBuild {lock.framework} is not fetched: the lock does not name its files"
        )
    elif easybuild:
        own = _easybuild_files(lock, bench, given, dry_run=dry_run)
    try:
        return _bring([*files, *own], bench, given=given, dry_run=dry_run)
    except EnvmgrError as error:
        if any(file.sha256 in line for file in own for line in error.context):
            error.hint += "\n  " + _CARRY.format(entry=bench.label)
        raise


def collect_easybuild(lock: EasyBuildLock, bench: Workbench) -> dict[str, Path]:
    """Return file name -> its place in the cache, of all that an EasyBuild is made from.

    Raises:
        EnvmgrError: `source-missing` and `source-differs`, with what helps.
    """
    fetch_locked(lock, bench, given={}, sources=False, easybuild=True)
    cache = bench.prefix.source_cache
    return {file.name: cache / file.sha256 / file.name for file in lock.easybuild_files}


def _easybuild_files(lock: EasyBuildLock, bench: Workbench, given: Given, *, dry_run: bool) -> list[SourceFile]:
    """Return EasyBuild's files with their places in the package index, which is asked for what is not here; a dry run
    only reports where the files would be.
    """
    plain = {file: SourceFile(file.name, file.sha256, (), _FOLDER) for file in lock.easybuild_files}
    lacking = [f for f, each in plain.items() if f.sha256 not in given and cached_source(bench.prefix, each) is None]
    if dry_run:
        places = index_places_of(bench)
        found = {file.sha256: tuple(place.page(file.package) for place in places) for file in lacking}
    else:
        found = {**find_in_index(lacking, bench)} if lacking else {}
    return [replace(each, mirrored=found.get(file.sha256, ())) for file, each in plain.items()]


def _bring(
    files: Sequence[SourceFile],
    bench: Workbench,
    *,
    given: Given | None = None,
    dry_run: bool = False,
    again: bool = False,
) -> Fetched:
    site, runner, reporter, label = bench.site, bench.runner, bench.reporter, bench.label
    return fetch_sources(files, site, runner, reporter, label=label, given=given, dry_run=dry_run, again=again)


def require_packages(items: Iterable[LockedItem], runner: Runner) -> None:
    """Raise EnvmgrError `os-package-missing` for all packages of the system that easyconfigs name and this host lacks.

    Of each group of alternatives one must be here, as a package or a program. EasyBuild asks the same, one easyconfig
    at a time.
    """
    wanted = [(item, group) for item in items for group in item.os_packages]
    if not wanted:
        return
    here = installed_packages({name for _, group in wanted for name in group}, runner)
    lacking = [(item, group) for item, group in wanted if not here.intersection(group)]
    if lacking:
        groups = list(dict.fromkeys(tuple(group) for _, group in lacking))
        raise missing_packages(sorted({item.name for item, _ in lacking}), groups)


def installed_packages(names: Iterable[str], runner: Runner) -> set[str]:
    """Return those of `names` that are here: installed packages, what packages provide, and programs."""
    asked = sorted(names)
    found = {name for name in asked if shutil.which(name) is not None}
    for argv in _questions(asked):
        done = runner.run(argv, check=False, timeout=60)
        found |= {line.split()[0].partition(":")[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    if shutil.which("rpm"):  # which names the package that provides something, not what was asked for: one by one
        for name in set(asked) - found:
            if runner.run(["rpm", "--query", "--whatprovides", name], check=False, timeout=60).returncode == 0:
                found.add(name)
    return found & set(asked)


def _questions(names: Sequence[str]) -> Iterator[list[str]]:
    """Yield one question to each package manager that is here. Sources: dpkg-query(1), rpm(8)."""
    if shutil.which("dpkg-query"):
        yield ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\\n", *names]
    if shutil.which("rpm"):
        yield ["rpm", "--query", "--queryformat", "%{NAME} installed\\n", *names]
