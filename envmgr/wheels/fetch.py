"""Fetch a lock's wheels and sources into the prefix's cache; word the errors of workers that handle wheels.

A row names no place: the pages of the lock's indexes say which file has its sha256, and where it lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from urllib.error import HTTPError

from envmgr.catalog.site import Site
from envmgr.downloads import Download, Fetched, FetchedFile, Given
from envmgr.downloads.bring import bring
from envmgr.downloads.failures import Row, other_ways, worker_failure
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.child import Failure
from envmgr.system.run import Runner
from envmgr.wheels.index import IndexPlace, ListedFile, is_file_of, look
from envmgr.wheels.lockfile import LockedRow, file_of
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
    "Overlap": Row(
        "wheels-overlap",
        "two wheels have one path with different content: {path}",
        "which one wins would be chance: leave one of the two out (packages such as opencv-python and "
        "opencv-python-headless are one package under two names), by the recipe's requirements or constraints",
        ("{first}", "{second}"),
    ),
}

_OURS = ("disk-full", "not-writable", "file-unreadable")  # no other place helps


def wheel_failure(label: str, more: Mapping[str, Row] = MappingProxyType({})) -> Failure:
    """Return the words of a worker that handles wheels for `label`; `more` are rows of its own."""
    return partial(worker_failure, label=label, mirrors=_MIRRORS, rows={**_ROWS, **more})


def fetch_wheels(
    rows: Iterable[LockedRow],
    indexes: Iterable[str],
    label: str,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    given: Given,
    dry_run: bool = False,
    cache: Path | None = None,
) -> Fetched:
    """Bring the files of these rows into the cache, also those in folders; `label` is the entry.

    The cache comes first, then the files that the administrator gave, then the places of each index, in order: what one
    of them does not have, or does not give, comes from the next.

    Raises:
        EnvmgrError: for what cannot be fetched, by what the last place said of it.
    """
    wanted = {row.sha256: row for row in rows}
    fetching = _Fetching(wanted, cache or wheel_cache(Prefix(site.prefix)), label, site, runner, reporter)
    own = {sha256: given[sha256] for sha256, row in wanted.items() if sha256 in given}
    own = {sha256: path for sha256, path in own.items() if is_file_of(wanted[sha256], path.name)}
    here = {sha256: path for sha256, row in wanted.items() if (path := row.cached(fetching.cache))}
    fetching.bring([Download(path.name, sha256, ()) for sha256, path in here.items()], dry_run=True)
    if dry_run:
        return Fetched(tuple(fetching.look_for(row, own, [*indexes]) for row in wanted.values()), fetching.paths)
    for sha256 in here.keys() - fetching.done.keys():
        here[sha256].unlink(missing_ok=True)  # it is damaged
    fetching.bring([Download(path.name, sha256, ()) for sha256, path in own.items()], given=own)
    fetching.bring([Download(file_of(row.url), row.sha256, (row.url,)) for row in wanted.values() if row.url])
    fetching.ask([*indexes])
    return Fetched(tuple(fetching.done[sha256] for sha256 in wanted), fetching.paths)


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


@dataclass(slots=True)
class _Fetching:
    """The files that are fetched: `done` are those that are there, by their sha256."""

    rows: Mapping[str, LockedRow]
    cache: Path
    label: str
    site: Site
    runner: Runner
    reporter: Reporter
    done: dict[str, FetchedFile] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    failed: EnvmgrError | None = None

    @property
    def waiting(self) -> dict[str, LockedRow]:
        return {sha256: row for sha256, row in self.rows.items() if sha256 not in self.done}

    def bring(self, downloads: Sequence[Download], *, given: Given | None = None, dry_run: bool = False) -> None:
        """Bring those that are still missing; an error is kept, for another place may have the file."""
        missing = [each for each in downloads if each.sha256 not in self.done]
        try:
            self._keep(self._bring(missing, given or {}, dry_run=dry_run))
        # It is an EnvmgrError, too, and must not lead to the next place.
        except Interrupted:
            raise
        except EnvmgrError as error:
            if error.reference in _OURS:
                raise
            self.failed = error
            came = self._bring(missing, {}, dry_run=True)  # before the error
            self._keep(
                replace(came, files=tuple(replace(f, state="fetched") for f in came.files if f.state != "missing"))
            )

    def _bring(self, downloads: Sequence[Download], given: Given, *, dry_run: bool) -> Fetched:
        policies, failure = self.site.policies, wheel_failure(self.label)
        return bring(
            downloads,
            self.cache,
            policies,
            self.runner,
            self.reporter,
            label=self.label,
            failure=failure,
            given=given,
            dry_run=dry_run,
        )

    def _keep(self, fetched: Fetched) -> None:
        self.paths |= fetched.paths
        self.done |= {each.sha256: each for each in fetched.files if each.state != "missing"}

    def ask(self, indexes: Sequence[str]) -> None:
        """Bring what is missing from the places of the indexes. Raise EnvmgrError for what no place gives."""
        places = places_of(indexes, self.site, self.runner) if self.waiting else []
        for place in places:
            if self.failed:
                self.reporter.say(f"{self.label}: trying the next place, {place.url}")
            self.bring([*self._listed_at(place).values()])
            if not self.waiting:
                return
        if self.waiting:
            raise self.failed or self._not_found(places)

    def _listed_at(self, place: IndexPlace) -> dict[str, Download]:
        """Return what is missing and listed at a place, by its sha256; a page that cannot be read is an error to keep."""
        found: dict[str, Download] = {}
        unread: dict[str, Exception] = {}
        for name, listed in look(self.waiting.values(), place, self.runner).items():
            if isinstance(listed, Exception):
                unread[place.page(name)] = listed
                continue
            for each in listed:
                if each.sha256 in self.waiting:
                    found[each.sha256] = Download(each.file, each.sha256, (each.url,), each.size)
                elif not each.sha256 and any(is_file_of(row, each.file) for row in self.waiting.values()):
                    self.failed = unhashed(each.file, [f"{each.file} on {place.page(name)}"])
        if unread:
            self.failed = self._unread(place, unread)
        return found

    def _unread(self, place: IndexPlace, unread: Mapping[str, Exception]) -> EnvmgrError:
        before = self.failed.context if self.failed else ()
        context = (*(f"{page}: {error}" for page, error in [*unread.items()][:10]), *before)
        hint = other_ways(_MIRRORS, self.label)
        if all(isinstance(error, HTTPError) and error.code in (401, 403) for error in unread.values()):
            message = f"an index of {place.index} wants a login, or forbids it"
            return EnvmgrError("download-refused", message, context=context, hint=hint)
        return EnvmgrError("no-network", f"an index of {place.index} does not answer", context=context, hint=hint)

    def _not_found(self, places: Sequence[IndexPlace]) -> EnvmgrError:
        first, *_ = lacking = [*self.waiting.values()]
        return EnvmgrError(
            "not-found",
            f"{first.name} {first.version} is not at {', '.join(place.url for place in places) or 'any index'}",
            context=[f"{row.name} {row.version}  sha256 {row.sha256}" for row in lacking[:10]],
            hint="add a mirror that has it (backends.wheels.indexes in site.yaml), give the file "
            f"(`envmgr fetch {self.label} --file FILE`), or lock again",
        )

    def look_for(self, row: LockedRow, given: Given, indexes: Sequence[str]) -> FetchedFile:
        """Return the file of a row; if it is missing, with the pages that list it. Only they know its name and size."""
        if row.sha256 in self.done:
            return self.done[row.sha256]
        if path := given.get(row.sha256):
            return FetchedFile(path.name, row.sha256, "missing", path.stat().st_size, (path.as_uri(),))
        pages = [row.url] if row.url else [place.page(row.name) for place in places_of(indexes, self.site, self.runner)]
        return FetchedFile(f"{row.name} {row.version}", row.sha256, "missing", None, tuple(pages))
