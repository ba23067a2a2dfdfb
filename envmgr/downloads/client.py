"""Downloads: the bars of workers, and files that are brought into a cache by the download worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from envmgr.catalog.site_file import Policies
from envmgr.downloads import Download, Fetched, FetchedFile, Given, has
from envmgr.report import Reporter, Stage
from envmgr.system.child import Event, Failure, call_worker
from envmgr.system.files import explain_os_error
from envmgr.system.run import Runner


class DownloadBar:
    """A worker's downloads, which run side by side, as one bar in bytes. It closes when all `sizes` names are there."""

    def __init__(self, sizes: Mapping[str, int | None], label: str, reporter: Reporter, stack: ExitStack) -> None:
        self._sizes = dict(sizes)
        self._label = label
        self._reporter = reporter
        self._stack = stack.enter_context(ExitStack())  # an open bar ends with the worker's error
        self._stage: Stage | None = None
        self._done: dict[str, int] = {}
        self._cached: set[str] = set()

    def on_event(self, event: Event) -> None:
        name = str(event.get("name", ""))
        match event["event"]:
            case "download":
                self._done[name] = int(event["done"])
                self._sizes[name] = event["total"] or self._sizes.get(name)
                if self._stage is None:
                    stage = self._reporter.stage(f"{self._label} download", unit="bytes")
                    self._stage = self._stack.enter_context(stage)
                total = sum(size or 0 for n, size in self._sizes.items() if n in self._done)
                self._stage.update(sum(self._done.values()), total=total or None, detail=name)
            case "cached":
                self._cached.add(name)
                if len(self._cached) == len(self._sizes):
                    self._stack.close()
                    self._stage = None
            case "retry":
                self._reporter.say(f"{self._label}: trying again: {event['message'].splitlines()[0]}")


class WorkerBars:
    """The events of a worker as bars: download (bytes), link (packages) or unpack (wheels), compile (files). Each
    closes when its work is done.

    Downloads and links run side by side in the worker.
    """

    def __init__(
        self,
        what: str,
        unit: str,
        count: int,
        label: str,
        reporter: Reporter,
        stack: ExitStack,
        downloads: DownloadBar | None = None,
    ) -> None:
        self._downloads = downloads
        self._what, self._unit, self._count = what, unit, count
        self._label = label
        self._reporter = reporter
        self._stack = stack
        self._linked: set[str] = set()
        self._files = 0
        self._stages: dict[str, tuple[Stage, ExitStack]] = {}

    def on_event(self, event: Event) -> None:
        name = str(event.get("name", ""))
        if self._downloads is not None:
            self._downloads.on_event(event)
        match event["event"]:
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
        bars = WorkerBars("unpack", "wheels", wheels, label, reporter, stack)

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
    """
    wanted = list({(d.sha256, d.name): _given_first(d, given) for d in downloads}.values())
    with explain_os_error(cache):
        present = _present(wanted, cache, runner, reporter, label=label, mend=not dry_run)
        missing = [d for d in wanted if d not in present]
        if missing and not dry_run:
            cache.mkdir(parents=True, exist_ok=True)
            _fetch(missing, cache, policies, runner, reporter, label=label, failure=failure)

        def outcome(file: Download) -> FetchedFile:
            if file in present:
                return FetchedFile(file.name, file.sha256, "present", present[file])
            if dry_run:
                return FetchedFile(file.name, file.sha256, "missing", file.size, file.places)
            return FetchedFile(file.name, file.sha256, "fetched", file.path(cache).stat().st_size)

        return Fetched(tuple(outcome(d) for d in wanted))


def _given_first(file: Download, given: Given) -> Download:
    own = (given[file.sha256].as_uri(),) if file.sha256 in given else ()
    return replace(file, places=(*own, *file.places))


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
        for file, size in sizes.items():
            runner.raise_if_cancelled()
            if has(file.path(cache), file.sha256, mend=mend):
                found[file] = size
            seen += size
            stage.update(seen, detail=file.name)
    return found


def _fetch(
    missing: Sequence[Download],
    cache: Path,
    policies: Policies,
    runner: Runner,
    reporter: Reporter,
    *,
    label: str,
    failure: Failure,
) -> None:
    request = {
        "records": [
            {"name": d.name, "file": d.name, "sha256": d.sha256, "size": d.size, "places": d.places} for d in missing
        ],
        "cache": str(cache),
        "retries": policies.download_retries,
        "stall_timeout": policies.stall_timeout,
        "min_free": policies.min_free,
    }
    with ExitStack() as stack:
        bar = DownloadBar({d.name: d.size for d in missing}, label, reporter, stack)
        call_worker("envmgr.downloads.worker", request, runner, reporter, failure=failure, on_event=bar.on_event)
