"""The files of a lock: each backend says them as data, and one function brings them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from envmgr.downloads import Download, Fetched, FetchedFile, Given, joined
from envmgr.downloads.bring import Fetching, bring
from envmgr.errors import EnvmgrError, Interrupted, joined_errors
from envmgr.report import Reporter
from envmgr.system.child import Failure
from envmgr.system.files import explain_os_error
from envmgr.system.run import Runner

_NONE: Given = MappingProxyType({})
_OURS = ("disk-full", "not-writable", "file-unreadable")  # no other place helps


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Somebody who must be asked where files lie, such as an index; `name` is for people.

    `pages` are what a dry run shows of a file. `look` gets the files that are still missing, and gives those that are
    there, with their names and places, or brings them into the cache itself. At its end it may raise EnvmgrError for
    the others.
    """

    name: str
    pages: Callable[[Download], Sequence[str]]
    look: Callable[[Sequence[Download]], Iterable[Download]]


@dataclass(frozen=True, slots=True)
class DownloadSet:
    """Files of a lock that go into one cache. `failure` words the error for those that cannot be had.

    `ask` returns the places that are asked, in order, for files that are neither in the cache nor given, and that their
    own places do not give. `failure` has the words `NotListed` for those that none of them has.
    """

    files: tuple[Download, ...]
    cache: Path
    failure: Failure
    ask: Callable[[Runner, Reporter], Sequence[FilePlace]] | None = None


def fetch_sets(sets: Iterable[DownloadSet], how: Fetching, given: Given) -> Fetched:
    """Bring the files of all sets into their caches. All are tried. Then one error reports all that failed."""
    done, failed = list[Fetched](), list[EnvmgrError]()
    for each in sets:
        try:
            if each.ask is None:
                done.append(bring(each.files, each.cache, each.failure, how, given))
            else:
                done.append(_Search(each, how, given).run(each.ask))
        except Interrupted:  # it is an EnvmgrError, too
            raise
        except EnvmgrError as error:
            failed.append(error)
    if failed:
        raise joined_errors(failed)
    return joined(done)


class _Search:
    """The files of one set, whose places are asked for; `done` are those that are there, by their sha256."""

    def __init__(self, wanted: DownloadSet, how: Fetching, given: Given) -> None:
        self.wanted, self.how = wanted, how
        self.files = {file.sha256: file.known(wanted.cache, given) for file in wanted.files}
        self.own = {s: given[s] for s, file in self.files.items() if s in given and file.fits is None}
        self.done, self.paths = dict[str, FetchedFile](), dict[str, Path]()
        self.failed: EnvmgrError | None = None
        self._keep(self._bring([file for file in self.files.values() if file.fits is None], look=True))

    @property
    def waiting(self) -> list[Download]:
        return [file for sha256, file in self.files.items() if sha256 not in self.done]

    def run(self, ask: Callable[[Runner, Reporter], Sequence[FilePlace]]) -> Fetched:
        """Bring what is missing: what is given or has places of its own, then from each place that is asked.

        A dry run says where the files will be looked for.
        """
        ours = [file for file in self.waiting if file.places or file.sha256 in self.own]
        if not self.how.dry_run:
            self._take(ours, self.own)
            ours = []
        places = ask(self.how.runner, self.how.reporter) if len(ours) < len(self.waiting) else ()
        if self.how.dry_run:
            pages = {file: tuple(page for place in places for page in place.pages(file)) for file in self.waiting}
            shown = [file if file in ours else replace(file, places=pages[file]) for file in self.waiting]
            self.done |= {file.sha256: file for file in self._bring(shown, self.own).files}
        else:
            self._look_at(places)
        return Fetched(tuple(self.done[sha256] for sha256 in self.files), self.paths)

    def _look_at(self, places: Sequence[FilePlace]) -> None:
        """Bring each file from the first place that gives it. Raise EnvmgrError for what none gives."""
        for place in places:
            if not self.waiting:
                return
            if self.failed:
                self.how.say(f"trying the next place, {place.name}")
            listed: dict[str, Download] = {}
            with self._keeping_error():
                for file in place.look(self.waiting):
                    listed[file.sha256] = file
            self._take([*listed.values()])
        if lacking := self.waiting:
            lines = [f"{file.name}  sha256 {file.sha256}" for file in lacking[:10]]
            asked = ", ".join(place.name for place in places) or "any index"
            event = {"kind": "NotListed", "message": lacking[0].name, "places": asked, "lines": lines}
            raise self.failed or self.wanted.failure(event, {"cache": str(self.wanted.cache)})

    def _take(self, files: Sequence[Download], given: Given = _NONE) -> None:
        """Bring files; those that came before an error are kept."""
        cache = self.wanted.cache
        for file in files:
            if (old := self.files[file.sha256].path(cache)) != file.path(cache):
                with explain_os_error(old):
                    old.unlink(missing_ok=True)  # it is damaged, and has another name
        with self._keeping_error():
            self._keep(self._bring(files, given))
            return
        came = self._bring(files, look=True)
        self._keep(replace(came, files=tuple(replace(f, state="fetched") for f in came.files if f.state != "missing")))

    def _bring(self, files: Sequence[Download], given: Given = _NONE, *, look: bool = False) -> Fetched:
        how = replace(self.how, dry_run=True) if look else self.how
        return bring(files, self.wanted.cache, self.wanted.failure, how, given)

    def _keep(self, came: Fetched) -> None:
        self.paths |= came.paths
        self.done |= {file.sha256: file for file in came.files if file.state != "missing"}

    @contextmanager
    def _keeping_error(self) -> Iterator[None]:
        """Keep an error, for another place may have the file."""
        try:
            yield
        except Interrupted:  # it is an EnvmgrError, too, and must not lead to the next place
            raise
        except EnvmgrError as error:
            if error.reference in _OURS:
                raise
            error.context = (*error.context, *(self.failed.context if self.failed else ()))
            self.failed = error
