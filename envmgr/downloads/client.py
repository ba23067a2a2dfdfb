"""The client of workers: it starts one, follows its events, raises readable errors for its failures, and fetches with
the download worker.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import envmgr
from envmgr.catalog.site_file import Policies
from envmgr.downloads import Download, Fetched, FetchedFile, Given, has
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter, Stage
from envmgr.system.files import explain_os_error
from envmgr.system.run import Runner, clean_env
from envmgr.system.usernames import own_home

Event = dict[str, Any]


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


Failure = Callable[[Event, Mapping[str, Any]], EnvmgrError]  # an `error` event and its request, in the house form


def call_worker(
    module: str,
    request: Mapping[str, Any],
    runner: Runner,
    reporter: Reporter,
    *,
    failure: Failure,
    on_event: Callable[[Event], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
    name: str = "rattler",
) -> Event:
    """Run one request to its end and return the `solved` event, or `done`. The request has a `cache`; `name` is the
    worker's.

    Only `done` counts, and not what follows it: rattler can crash at interpreter exit, and its threads may write late.

    Raises:
        EnvmgrError: see `failure`; `worker-died`.
    """
    told: dict[str, Event] = {}  # by kind, the last of each

    def on_line(line: str) -> None:
        event = json.loads(line)
        if event["event"] not in ("download", "compile"):
            reporter.log(f"worker: {line[:2000]}")
        if "done" not in told:
            told[event["event"]] = event
            on_event(event)

    done = runner.stream(
        [sys.executable, "-s", "-P", "-m", module],
        stdin=json.dumps({**request, "version": envmgr.__version__}) + "\n",
        on_line=on_line,
        env=_environment(environ, Path(str(request["cache"]))),
    )
    if done.stderr.strip():
        reporter.log(f"worker stderr: {done.stderr.strip()[-4000:]}")
    if "done" in told:
        return told.get("solved", told["done"])
    if "error" in told:
        raise failure(told["error"], request)
    raise EnvmgrError(
        "worker-died",
        f"the {name} worker {_end(done.returncode)} before it was done",
        context=done.stderr.strip().splitlines()[-5:],
        hint="run the same command again: what was downloaded is kept",
    )


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
        call_worker("envmgr.downloads.child", request, runner, reporter, failure=failure, on_event=bar.on_event)


def _end(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return f"was ended by {name}{' (out of memory?)' if -status == signal.SIGKILL else ''}"


def _environment(environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Return the worker's environment: of the caller's shell, only proxies, certificates and credentials."""
    names = {"SSL_CERT_FILE", "SSL_CERT_DIR", "RATTLER_AUTH_FILE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    passed = {key: value for key, value in environ.items() if key.upper() in names}
    root = str(Path(envmgr.__file__).resolve().parent.parent)
    home = own_home(environ.get("HOME"))  # rattler looks for credentials there, and fails without one
    return clean_env(HOME=home, RATTLER_CACHE_DIR=str(cache), PYTHONPATH=root, PYTHONUNBUFFERED="1", **passed)
