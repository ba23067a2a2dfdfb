"""Fetch a lock's wheels and sources into the prefix's cache; word the errors of workers that handle wheels.

A row names no place: the pages of the lock's indexes say which file has its sha256, and where it lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from urllib.error import HTTPError

from envmgr.catalog.site import Site
from envmgr.downloads import Download
from envmgr.downloads.failures import Row, other_ways, worker_failure
from envmgr.downloads.fetch import DownloadSet, FilePlace
from envmgr.errors import EnvmgrError
from envmgr.store.prefix import Prefix
from envmgr.system.child import Failure
from envmgr.system.run import Runner
from envmgr.wheels.index import IndexPlace, ListedFile, look
from envmgr.wheels.lockfile import LockedRow, file_of, is_file_of
from envmgr.wheels.resolve import index_places, unhashed
from envmgr.wheels.settings import wheel_cache

_MIRRORS = "backends.wheels.indexes.<name>.mirrors"
_ROWS: Mapping[str, Row] = {
    "BadWheel": Row("wheel-invalid", "{message}", "report it to the package's authors; lock another version"),
    "NoPython": Row(
        "base-without-python", "{message}", "is the entry that `python:` names whole? `envmgr verify` tells"
    ),
    "Ended": Row(
        "install-failed",
        "{message}",
        "run the same command again, with a smaller --jobs where memory is short",
        ("by the kernel where memory is short (`dmesg` says so), or by somebody",),
    ),
    "NotListed": Row(
        "not-found",
        "{message} is not at {places}",
        "add a mirror that has it (backends.wheels.indexes in site.yaml), give the file "
        "(`envmgr fetch {label} --file FILE`), or lock again",
    ),
    "Overlap": Row(
        "wheels-overlap",
        "two wheels have one path with different content: {path}",
        "which one wins would be chance: leave one of the two out (packages such as opencv-python and "
        "opencv-python-headless are one package under two names), by the recipe's requirements or constraints",
        ("{first}", "{second}"),
    ),
}


def wheel_failure(label: str, more: Mapping[str, Row] = MappingProxyType({})) -> Failure:
    """Return the words of a worker that handles wheels for `label`; `more` are rows of its own."""
    return partial(worker_failure, label=label, mirrors=_MIRRORS, rows={**_ROWS, **more})


def wheel_files(
    rows: Iterable[LockedRow], indexes: Sequence[str], label: str, site: Site, cache: Path | None = None
) -> DownloadSet:
    """Return the files of these rows as downloads; `label` is the entry. The places of each index are asked, in order."""
    wanted = {row.sha256: row for row in rows}

    def at(place: IndexPlace, runner: Runner) -> FilePlace:
        return FilePlace(
            place.url,
            lambda file: (place.page(wanted[file.sha256].name),),
            lambda files: _listed_at(place, {file.sha256: wanted[file.sha256] for file in files}, runner, label),
        )

    return DownloadSet(
        tuple(
            Download(file_of(row.url), row.sha256, (row.url,))
            if row.url
            else Download(f"{row.name} {row.version}", row.sha256, (), fits=partial(is_file_of, row))
            for row in wanted.values()
        ),
        cache or wheel_cache(Prefix(site.prefix)),
        wheel_failure(label),
        lambda runner, _: [at(place, runner) for place in places_of(indexes, site, runner)],
    )


def places_of(indexes: Iterable[str], site: Site, runner: Runner) -> list[IndexPlace]:
    """Return all places of the indexes, in the order in which they are asked."""
    return [IndexPlace(name, url) for name, urls in index_places(indexes, site, runner).items() for url in urls]


def locate_rows(rows: Iterable[LockedRow], indexes: Iterable[str], site: Site, runner: Runner) -> dict[str, ListedFile]:
    """Map the sha256 of rows to their file at the first place that has it; rows that no place has are left out."""
    wanted = [*rows]
    found = {row.sha256: ListedFile(file_of(row.url), row.url, row.sha256, None) for row in wanted if row.url}
    for place in places_of(indexes, site, runner):
        if waiting := [row for row in wanted if row.sha256 not in found]:
            sums = {row.sha256 for row in waiting}
            for listed in look(waiting, place, runner).values():
                if not isinstance(listed, Exception):
                    found |= {each.sha256: each for each in listed if each.sha256 in sums}
    return found


def _listed_at(place: IndexPlace, rows: Mapping[str, LockedRow], runner: Runner, label: str) -> Iterator[Download]:
    """Yield those of the rows that are listed at a place. Then raise EnvmgrError for pages that could not be read, and
    for files without a sha256.
    """
    unread: dict[str, Exception] = {}
    bare = ""
    for name, listed in look(rows.values(), place, runner).items():
        if isinstance(listed, Exception):
            unread[place.page(name)] = listed
            continue
        for each in listed:
            if each.sha256 in rows:
                yield Download(each.file, each.sha256, (each.url,), each.size)
            elif not each.sha256 and any(is_file_of(row, each.file) for row in rows.values()):
                bare = f"{each.file} on {place.page(name)}"
    if unread:
        raise _unread(place, unread, label)
    if bare:
        raise unhashed(bare.partition(" ")[0], [bare])


def _unread(place: IndexPlace, unread: Mapping[str, Exception], label: str) -> EnvmgrError:
    context = [f"{page}: {error}" for page, error in [*unread.items()][:10]]
    reference, message = "no-network", f"an index of {place.index} does not answer"
    if all(isinstance(error, HTTPError) and error.code in (401, 403) for error in unread.values()):
        reference, message = "download-refused", f"an index of {place.index} wants a login, or forbids it"
    return EnvmgrError(reference, message, context=context, hint=other_ways(_MIRRORS, label))
