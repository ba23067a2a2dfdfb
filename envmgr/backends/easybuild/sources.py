"""Files and packages that a build needs from outside: sources, EasyBuild's own files, packages of the system."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

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
from envmgr.catalog.site import Site
from envmgr.downloads import Download
from envmgr.downloads.bring import Fetching
from envmgr.downloads.fetch import DownloadSet, FilePlace, fetch_sets
from envmgr.downloads.sources import SourceFile, source_places, source_set
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.report import Reporter
from envmgr.system.run import Runner
from envmgr.wheels.fetch import places_of
from envmgr.wheels.index import IndexPlace, look
from envmgr.wheels.requirements import Question
from envmgr.wheels.resolve import ask_indexes
from envmgr.wheels.settings import PUBLIC

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
    with ask_indexes(question, _PYTHON, bench.site, bench.runner, bench.reporter, {}) as asking:
        found = sorted(asking.sources(PACKAGES, rows), key=lambda each: PACKAGES.index(each.row.name))
        found += asking.wheels([_BUILDS])
        asking.refuse_unhashed(found)
    return tuple(
        EasyBuildFile(package=each.row.name, version=each.row.version, name=each.file, sha256=each.row.sha256)
        for each in found
    )


def index_places_of(site: Site, runner: Runner) -> list[IndexPlace]:
    """Return the places of the package index; without upstream only the site's own mirrors of it."""
    places = places_of([PUBLIC], site, runner)
    return places if site.sources.upstream else places[:-1]


def find_in_index(
    files: Sequence[EasyBuildFile], places: Sequence[IndexPlace], label: str, runner: Runner, reporter: Reporter
) -> Mapping[str, tuple[str, ...]]:
    """Return sha256 -> URLs of each file in the places of the index, in their order, until all are found.

    A place that does not answer is reported, and has none.
    """
    found: dict[str, tuple[str, ...]] = {}
    sums = {file.sha256 for file in files}
    for place in places:
        if found.keys() >= sums:
            break
        listed = look([file.row for file in files], place, runner)
        if unread := next((each for each in listed.values() if isinstance(each, Exception)), None):
            reporter.say(f"{label}: {place.url}: {unread}")
        for each in (each for files in listed.values() if not isinstance(files, Exception) for each in files):
            if each.sha256 in sums:
                found[each.sha256] = (*found.get(each.sha256, ()), each.url)
    return found


_FOLDER = "e/EasyBuild"  # where EasyBuild keeps its own sources
_CARRY = (
    "or run `envmgr fetch --carry {entry}` on a machine with a network and the same catalog, bring the folder `cache` "
    "of its prefix, and run `envmgr fetch {entry} --file /path/to/cache`"
)


def item_sources(items: Iterable[LockedItem], site: Site, label: str) -> DownloadSet:
    """Return the items' sources as downloads, with what their easyconfigs say on how to get them."""
    return source_set([file for item in items for file in _files(item)], site, label)


def _files(item: LockedItem) -> Iterator[SourceFile]:
    said = f"{item.easyconfig} says: {item.instructions}" if item.instructions else ""
    for each in item.sources:
        yield SourceFile(each.name, each.sha256, each.urls, each.folder or item.folder, said=said)


def collect_all(items: Sequence[LockedItem], bench: Workbench) -> None:
    """Bring every source of the items into the cache; an existing one is not read.

    Raises:
        EnvmgrError: `source-missing` and `source-differs` for all of them.
    """
    wanted = item_sources(items, bench.site, bench.label)
    lacking = tuple(file for file in wanted.files if not file.path(wanted.cache).is_file())
    _collect(replace(wanted, files=lacking), bench)


def collect_sources(item: LockedItem, bench: Workbench) -> dict[str, Path]:
    """Return file name -> its place in the cache, each compared with the lock's sha256.

    A file that was damaged is fetched again. Raises as `collect_all`.
    """
    return _collect(item_sources([item], bench.site, bench.label), bench)


def _collect(wanted: DownloadSet, bench: Workbench) -> dict[str, Path]:
    how = Fetching(bench.site.policies, bench.runner, bench.reporter, bench.label)
    paths = fetch_sets([wanted], how, {}).paths
    return {file.name: paths[file.sha256] for file in wanted.files}


def easybuild_files(lock: EasyBuildLock, site: Site, label: str) -> DownloadSet:
    """Return the files of the lock's EasyBuild as downloads.

    The package index is asked where they are; a dry run only shows its pages.
    """
    known = {file.sha256: file for file in lock.easybuild_files}

    def of(file: EasyBuildFile, mirrored: Iterable[str] = ()) -> SourceFile:
        return SourceFile(file.name, file.sha256, (), _FOLDER, tuple(mirrored), hint=_CARRY.format(entry=label))

    def ask(runner: Runner, reporter: Reporter) -> Sequence[FilePlace]:
        places = index_places_of(site, runner)

        def pages(file: Download) -> Sequence[str]:
            each = known[file.sha256]
            return source_places(of(each, [place.page(each.package) for place in places]), site)

        def look_for(files: Sequence[Download]) -> Sequence[Download]:
            found = find_in_index([known[file.sha256] for file in files], places, label, runner, reporter)
            with_places = [of(known[file.sha256], found.get(file.sha256, ())) for file in files]
            return source_set(with_places, site, label).files

        return (FilePlace(PUBLIC, pages, look_for),)

    own = source_set([of(file) for file in lock.easybuild_files], site, label)
    return replace(own, files=tuple(replace(file, places=()) for file in own.files), ask=ask)


def collect_easybuild(lock: EasyBuildLock, bench: Workbench) -> dict[str, Path]:
    """Return file name -> its place in the cache, of all that an EasyBuild is made from.

    Raises:
        EnvmgrError: `source-missing` and `source-differs`, with what helps.
    """
    return _collect(easybuild_files(lock, bench.site, bench.label), bench)


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
