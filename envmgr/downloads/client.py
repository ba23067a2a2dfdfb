"""Downloads: the bars of workers, files that are brought into a cache by the download worker, and the errors for what
fails in it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envmgr.catalog.site_file import Policies
from envmgr.downloads import Download, Fetched, FetchedFile, Given, has, unreadable
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter, Stage
from envmgr.system.child import Event, Failure, call_worker
from envmgr.system.files import explain_os_error
from envmgr.system.run import Runner
from envmgr.wording import and_more

_WORKER = "envmgr.downloads.download"
_FREE = "free some space (`envmgr gc` removes old generations and unused installs), then run the same command again"
_NAMED = 3  # files that failed as the first did, and are named


class WorkerBars:
    """The events of a worker as bars: download (bytes), link (packages) or unpack (wheels), compile (files). Each
    closes when its work is done.

    Downloads and links run side by side in the worker. `sizes` are the files to download, which share one bar; `work`
    is what is done with them, its unit and their number.
    """

    def __init__(
        self,
        label: str,
        reporter: Reporter,
        stack: ExitStack,
        *,
        sizes: Mapping[str, int | None] | None = None,
        work: tuple[str, str, int] = ("", "", 0),
    ) -> None:
        self._label, self._reporter, self._stack = label, reporter, stack
        self._sizes = dict(sizes or {})
        self._what, self._unit, self._count = work
        self._fetched: dict[str, int] = {}
        self._cached: set[str] = set()
        self._linked: set[str] = set()
        self._files = 0
        self._stages: dict[str, tuple[Stage, ExitStack]] = {}

    def on_event(self, event: Event) -> None:
        name = str(event.get("name", ""))
        match event["event"]:
            case "download":
                self._fetched[name] = int(event["done"])
                self._sizes[name] = event["total"] or self._sizes.get(name)
                # Files that the cache has send no `download` event: they do not count in the bar.
                total = sum(size or 0 for n, size in self._sizes.items() if n in self._fetched)
                done = sum(self._fetched.values())
                self._stage("download", "bytes").update(done, total=total or None, detail=name)
            case "cached":
                self._cached.add(name)
                if len(self._cached) == len(self._sizes):
                    self._end("download")
            case "retry":
                self._reporter.say(f"{self._label}: trying again: {event['message'].splitlines()[0]}")
            case "total":
                self._stage(self._what, self._unit)
            case "linked":
                self._linked.add(name)
                self._stage(self._what, self._unit).update(len(self._linked), total=self._count, detail=name)
                if len(self._linked) == self._count:
                    self._end(self._what)
            case "compiling":
                self._files = int(event["files"])
                self._stage("compile", "files").update(0, total=self._files)
            case "compile":
                self._stage("compile", "files").update(int(event["done"]), total=self._files)
            case "compiled":
                self._stage("compile", "files").update(self._files)
                self._end("compile")

    def _stage(self, what: str, unit: str) -> Stage:
        if what not in self._stages:
            own = self._stack.enter_context(ExitStack())  # what is open when the worker fails ends with its error
            self._stages[what] = own.enter_context(self._reporter.stage(f"{self._label} {what}", unit=unit)), own
        return self._stages[what][0]

    def _end(self, what: str) -> None:
        if what in self._stages:
            self._stages.pop(what)[1].close()


def promised_by_worker(
    module: str,
    request: Mapping[str, object],
    wheels: int,
    label: str,
    runner: Runner,
    reporter: Reporter,
    *,
    failure: Failure,
) -> dict[str, str]:
    """Let a worker unpack wheels, with a bar for them; return path -> sha256, as the wheels promise their files."""
    promised: dict[str, str] = {}
    with ExitStack() as stack:
        bars = WorkerBars(label, reporter, stack, work=("unpack", "wheels", wheels))

        def on_event(event: Event) -> None:
            if event["event"] == "promised":
                promised.update(event["files"])
            bars.on_event(event)

        call_worker(module, request, runner, reporter, failure=failure, on_event=on_event, name="wheels")
    return promised


def bring(
    downloads: Iterable[Download],
    cache: Path,
    policies: Policies,
    runner: Runner,
    reporter: Reporter,
    *,
    label: str,
    failure: Failure,
    given: Given,
    dry_run: bool = False,
) -> Fetched:
    """Bring every file that is not there into the cache, those in folders too; given ones are looked at first.

    `label` says whose they are, in progress. A dry run hashes what is there, and changes nothing.

    Raises:
        EnvmgrError: by `failure`, when all that can be had is there; or of the disk.
        InputError: `file-unreadable` for a given file.
    """
    # Each file once: a second download of it would only wait for the lock of the first.
    found = {(d.sha256, d.name): d for d in downloads}
    own = {sha256: given[sha256] for sha256, _ in found if sha256 in given}
    wanted = [replace(d, places=(own[d.sha256].as_uri(), *d.places)) if d.sha256 in own else d for d in found.values()]
    with explain_os_error(cache):
        present = _present(wanted, cache, runner, reporter, label=label, mend=not dry_run)
        missing = [d for d in wanted if d not in present]
        for path in (own[d.sha256] for d in missing if d.sha256 in own):
            if not os.access(path, os.R_OK):
                raise unreadable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path)))
        if missing and not dry_run:
            cache.mkdir(parents=True, exist_ok=True)
            request = {
                "records": [
                    {"name": d.name, "file": d.name, "sha256": d.sha256, "size": d.size, "places": d.places}
                    for d in missing
                ],
                "cache": str(cache),
                "retries": policies.download_retries,
                "stall_timeout": policies.stall_timeout,
                "min_free": policies.min_free,
            }
            with ExitStack() as stack:
                bars = WorkerBars(label, reporter, stack, sizes={d.name: d.size for d in missing})
                call_worker(_WORKER, request, runner, reporter, failure=failure, on_event=bars.on_event)

        def outcome(file: Download) -> FetchedFile:
            if file in present:
                return FetchedFile(file.name, file.sha256, "present", present[file])
            if dry_run:
                return FetchedFile(file.name, file.sha256, "missing", file.size, file.places)
            return FetchedFile(file.name, file.sha256, "fetched", file.path(cache).stat().st_size)

        return Fetched(tuple(outcome(d) for d in wanted))


def _present(
    wanted: Sequence[Download], cache: Path, runner: Runner, reporter: Reporter, *, label: str, mend: bool
) -> dict[Download, int]:
    """Return the files that the cache has, checked, with their size in bytes."""
    sizes = {d: d.path(cache).stat().st_size for d in wanted if d.path(cache).is_file()}
    found: dict[Download, int] = {}
    if not sizes:
        return found
    seen = 0
    with reporter.stage(f"{label} check", total=sum(sizes.values()), unit="bytes") as stage:
        from concurrent.futures import ThreadPoolExecutor

        # The largest first: one that begins last would keep all waiting. Hashing leaves the interpreter lock.
        ordered = sorted(sizes, key=lambda file: -sizes[file])
        with ThreadPoolExecutor(max(1, min(_HASHING, len(ordered)))) as pool:
            there = pool.map(lambda file: _is_there(file, cache, runner, mend=mend), ordered)
            for file, is_there in zip(ordered, there, strict=True):
                if is_there:
                    found[file] = sizes[file]
                seen += sizes[file]
                stage.update(seen, detail=file.name)
    return found


_HASHING = 4  # threads that hash files


def _is_there(file: Download, cache: Path, runner: Runner, *, mend: bool) -> bool:
    runner.raise_if_cancelled()
    return has(file.path(cache), file.sha256, mend=mend)


def disk_failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError | None:
    """Return the disk's error; None if an `error` event has another cause."""
    message = str(event["message"])
    lines = [line.removeprefix("Caused by: ").rstrip() for line in message.splitlines() if line.strip()]
    if event["kind"] == "TooLarge":
        return EnvmgrError("disk-full", message, context=str(request["cache"]), hint=_FREE)
    # `os error 28` is how Rust, and so rattler, prints ENOSPC; 122 is EDQUOT.
    if re.search(r"No space left|quota exceeded|os error (?:28|122)\b", message):
        # Requests that only download have no staging folder.
        where = request.get("staging", request["cache"])
        return EnvmgrError("disk-full", f"no space left under {where}", context=lines[:2], hint=_FREE)
    if "Permission denied" in message:
        return EnvmgrError(
            "not-writable", "a file cannot be written", context=lines, hint="run as the site's build user"
        )
    return None


def download_failure(event: Mapping[str, Any], words: Mapping[str, tuple[str, str]], *, again: str) -> EnvmgrError:
    """Return the error for a failed download, with every place that was tried and its reason.

    The headline is the fault that is easiest to fix. `words` maps the kind of that fault to the error's reference and
    hint; `again` is the hint for other kinds.
    """
    first, *others = sorted(event["failed"], key=lambda lost: str(lost["name"]))
    reasons = [(str(url), str(kind), str(text)) for url, kind, text in first["reasons"]]
    url, kind, _ = max(reasons, key=_weight)
    reference, hint = words.get(kind, ("download-failed", again))
    name = url.rpartition("/")[2]
    message = f"{name}: what arrived is not what the lock names" if kind == "sha256" else f"cannot fetch {url}"
    context = [f"{place}: {text}" for place, _, text in reasons]
    # One mirror that is down fails every file in the same way: its reasons are printed once.
    alike = [other for other in others if _in_short(other["reasons"]) == _in_short(first["reasons"])]
    for other in others:
        if other not in alike:
            context.append(f"{other['name']} cannot be had either:")
            context += [f"  {url}: {text}" for url, _, text in other["reasons"]]
    if alike:
        names = and_more([str(other["name"]) for other in alike], _NAMED)
        context.append(f"{names} cannot be had either, for the same reason")
    return EnvmgrError(reference, message, context=context, hint=hint)


def _in_short(reasons: Sequence[Sequence[str]]) -> list[tuple[str, str, str]]:
    """Return what two files that failed alike have in common: of each place the host, the kind of fault and its
    text.
    """
    return [(urlsplit(url).netloc, kind, text) for url, kind, text in reasons]


def _weight(reason: tuple[str, str, str]) -> int:
    """Return how important a reason is: wrong content first, then a mirror's own fault; a folder without the file, or
    no network, is usual.
    """
    url, kind, _ = reason
    if kind == "sha256":
        return 3
    if kind == "unreachable":
        return 1
    return 0 if url.startswith("file://") else 2
