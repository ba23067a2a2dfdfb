"""A worker's events as bars of progress."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from envmgr.report import Reporter, Stage

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
    """The events of a worker as bars: download (bytes), link (packages) or unpack (wheels), compile (files). Each closes when its
    work is done.

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
