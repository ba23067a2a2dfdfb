"""`envmgr fetch`: bring what entries are made from into the prefix's cache; nothing is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from envmgr.backends import LoadedLock
from envmgr.builds.prepare import can_write, clean_leftovers
from envmgr.catalog.names import Entry
from envmgr.downloads import Fetched, FetchedFile, Given, joined, read_given
from envmgr.errors import EnvmgrError, InputError, Written, failed_ones
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context, logged
from envmgr.steps.lock_checks import Losses
from envmgr.steps.resolved import EntryBuild, resolve_all, resolve_named
from envmgr.verbs import All, DryRun, SomeEntries, needs, option
from envmgr.wording import counted, size_text

_SHOWN = 10  # missing files that an error lists


@dataclass(frozen=True, slots=True)
class EntryFiles:
    """The files of one entry's lock: how many there are, how many were there before and were fetched; `bytes` is what
    was fetched.

    `missing` is empty unless it was a dry run.
    """

    entry: str
    files: int
    present: int
    fetched: int
    bytes: int
    missing: tuple[FetchedFile, ...]


@dataclass(frozen=True, slots=True)
class FetchResult(Result):
    schema: ClassVar[str] = "envmgr.fetch/1"
    entries: tuple[EntryFiles, ...]
    dry_run: bool
    log: str | None

    def lines(self) -> Lines:
        for entry in self.entries:
            if self.dry_run:
                to_do = counted(len(entry.missing), "files") + " to fetch"
            else:
                to_do = f"{entry.fetched} fetched ({size_text(entry.bytes)})"
            yield f"{entry.entry}: {counted(entry.files, 'files')}, {entry.present} there, {to_do}"
            yield Table(
                [f"  {f.name}", size_text(f.size) if f.size else "size unknown", f.sha256] for f in entry.missing
            )
        if self.log is not None:
            yield f"log: {self.log}"


@needs("write")
def fetch(
    ctx: Context,
    entries: SomeEntries = None,
    everything: All = False,
    file: Annotated[
        list[Path] | None,
        option("Take this file that you downloaded, or this folder of such files.", "PATH", resolve_path=True),
    ] = None,
    carry: Annotated[bool, option("Fetch EasyBuild too, for a machine that has another version.")] = False,
    dry_run: DryRun = False,
) -> FetchResult:
    """Download what locks name into the cache.

    It installs nothing. A later build needs no network.
    """
    wanted = resolve_all(ctx)[0] if everything else resolve_named(ctx, entries or ())
    if not wanted:
        raise InputError("nothing-named", "name at least one entry, or --all", hint="`envmgr list` shows what there is")
    given: dict[str, Path] = {}
    if file or dry_run:
        by_path = {path: read_given(path) for path in file or ()}
        given = {sha256: file for found in by_path.values() for sha256, file in found.items()}
        # A dry run first: a file that no entry needs is refused before anything is written.
        look = _Fetcher(ctx, given, carry=carry, dry_run=True)
        looked = {str(w.entry): look.fetch(w) for w in wanted}
        _refuse_unexpected(by_path, looked)
        if dry_run:
            return FetchResult(_entries(looked), dry_run, None)
    can_write(ctx.site, [part.made_by.lock.backend for item in wanted for part in item.parts])
    with logged(ctx, "fetch") as (inner, log):
        clean_leftovers(ctx.prefix, inner.reporter)
        fetcher = _Fetcher(inner, given, carry=carry, dry_run=False)
        return FetchResult(_entries(_fetch_all(wanted, fetcher)), dry_run, str(log))


@dataclass(slots=True)
class _Fetcher:
    """Fetches the files of locks, those of each lock once, because many entries may stand on one entry."""

    ctx: Context
    given: Given
    carry: bool
    dry_run: bool
    _done: dict[Entry, Fetched | EnvmgrError] = field(default_factory=dict)

    def fetch(self, item: EntryBuild) -> Fetched:
        """Fetch the files of the entry and of those below it. All are tried; then the first error is raised."""
        locks = [part.made_by.lock for part in item.parts]
        for lock in locks:
            if lock.entry not in self._done:
                self._done[lock.entry] = self._of_lock(lock)
        done = [self._done[lock.entry] for lock in locks]
        for each in done:
            if isinstance(each, EnvmgrError):
                raise each
        return joined(each for each in done if isinstance(each, Fetched))

    def _of_lock(self, lock: LoadedLock) -> Fetched | EnvmgrError:
        losses, ctx = Losses(allowed=True), self.ctx
        with losses.of(lock.entry):
            return lock.fetch(
                ctx.site, ctx.runner, ctx.reporter, given=self.given, dry_run=self.dry_run, tools=self.carry
            )
        return losses.failed[str(lock.entry)]


def _fetch_all(wanted: Sequence[EntryBuild], fetcher: _Fetcher) -> dict[str, Fetched]:
    """Fetch the files of all entries. All are tried; then one error reports all that failed."""
    done: dict[str, Fetched] = {}
    losses = Losses(allowed=True)
    for item in wanted:
        with losses.of(item.entry):
            done[str(item.entry)] = fetcher.fetch(item)
    if losses.failed:
        raise _one_error(losses.failed, tuple(entry for entry, fetched in done.items() if fetched.fetched))
    return done


def _one_error(failed: Mapping[str, EnvmgrError], done: tuple[str, ...]) -> EnvmgrError:
    (entry, error), *others = failed.items()
    context = [*error.context]
    if not error.message.startswith(entry):
        context.append(f"{entry} was not fetched")
    for name, other in others:
        if other is error:  # of an entry on which both stand
            context.append(f"{name} was not fetched, for the same reason")
            continue
        message = other.message if other.message.startswith(name) else f"{name}: {other.message}"
        context += ["", message, *(f"  {line}" for line in other.context)]
    error.context = tuple(context)
    error.hint = "\n".join(_hints({name: failure.hint for name, failure in failed.items()}))
    error.failed, error.written = failed_ones(failed), Written(fetched=done)
    return error


def _hints(by_entry: Mapping[str, str]) -> list[str]:
    """Return each hint once; hints that say the same of several entries become one that names all of them."""
    alike: dict[str, list[str]] = {}
    for entry, hint in by_entry.items():
        # NUL stands for the name, because no hint has that character.
        alike.setdefault(hint.replace(entry, "\0"), []).append(entry)
    return [hint.replace("\0", " ".join(entries)) for hint, entries in alike.items() if hint]


def _refuse_unexpected(by_path: Mapping[Path, Given], looked: Mapping[str, Fetched]) -> None:
    """Raise InputError `source-unexpected` for a file that no entry needs, and for a folder without one that is
    needed.
    """
    needed = {file.sha256 for fetched in looked.values() for file in fetched.files}
    missing = list(dict.fromkeys((f.name, f.sha256) for fetched in looked.values() for f in fetched.missing))
    entries = ", ".join(looked)
    for path, found in by_path.items():
        if needed & found.keys():
            continue
        if not missing:
            message = f"nothing of {path} is needed: no file of {entries} is missing"
            raise InputError("source-unexpected", message, hint="leave --file out")
        same_name = [(name, sha256) for name, sha256 in missing if name in {file.name for file in found.values()}]
        shown = same_name or missing
        # Other files of a folder are not ours to list.
        names = {name for name, _ in missing} if path.is_dir() else {file.name for file in found.values()}
        alike = [f"found     {file.name}  sha256 {sha256}" for sha256, file in found.items() if file.name in names]
        context = alike[:_SHOWN] or [f"found     {counted(len(found), 'files')} of other names"]
        context += [f"expected  {name}  sha256 {sha256}" for name, sha256 in shown[:_SHOWN]]
        if len(shown) > _SHOWN:
            context.append(f"and {len(shown) - _SHOWN} more")
        what = f"no file in {path} is" if path.is_dir() else f"{path} is not"
        message = f"{what} one that {entries} {'needs' if len(looked) == 1 else 'need'}"
        hint = "files are known by their sha256: name the file that is expected"
        if same_name:
            hint = "a file of the right name with another sha256 is damaged, or another release: get it again"
        raise InputError("source-unexpected", message, context=context, hint=hint)


def _entries(fetched: Mapping[str, Fetched]) -> tuple[EntryFiles, ...]:
    return tuple(
        EntryFiles(entry, len(f.files), f.present, f.fetched, f.bytes, f.missing) for entry, f in fetched.items()
    )
