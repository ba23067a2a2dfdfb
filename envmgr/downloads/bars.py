"""The events of workers that unpack packages, as bars."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from envmgr.report import Reporter, Stage
from envmgr.system.child import Event, Failure, call_worker
from envmgr.system.run import Runner


class WorkerBars:
    """The events of a worker as bars: its `work` (what, unit and number), and `compile` (files).

    Each closes when its work is done.
    """

    def __init__(self, label: str, reporter: Reporter, stack: ExitStack, *, work: tuple[str, str, int]) -> None:
        self._label, self._reporter, self._stack = label, reporter, stack
        self._what, self._unit, self._count = work
        self._linked: set[str] = set()
        self._files = 0
        self._stages: dict[str, tuple[Stage, ExitStack]] = {}

    def on_event(self, event: Event) -> None:
        match event["event"]:
            case "total":
                self._stage(self._what, self._unit)
            case "linked":
                name = str(event.get("name", ""))
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
