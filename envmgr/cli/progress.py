"""The faces of progress on stderr: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from envmgr.report import Reporter, SilentReporter, Stage
from envmgr.wording import counted, duration, for_terminal, size_text

_EVERY = 5.0  # seconds between two plain lines of one stage
_SAME = 60.0  # the same, where nothing has changed


def make_reporter(*, quiet: bool) -> Reporter:
    """Return a reporter: silent if `quiet`, live bars where stderr is a terminal, else plain lines."""
    if quiet:
        return SilentReporter()
    return LiveReporter() if sys.stderr.isatty() else PlainReporter()


def amount(done: int, unit: str) -> str:
    """Return `12.3 MB` for bytes, `12 packages` for other units."""
    return size_text(done) if unit == "bytes" else counted(done, unit)


def _how_far(done: int, total: int | None, unit: str) -> str:
    """Return `3 of 12 packages`, `1.5 MB of 20.0 MB`, or without a total `3 packages`."""
    if not total:
        return amount(done, unit)
    return f"{amount(done, unit) if unit == 'bytes' else done} of {amount(total, unit)}"


class PlainReporter:
    """Progress as plain lines, for logs and CI: one at a stage's end, and in between one every five seconds, or every
    minute if nothing moves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def stage(self, label: str, *, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        stage = _PlainStage(self, label, total, unit)
        start = time.monotonic()
        yield stage
        self.say(f"{label}: {stage.text()} in {time.monotonic() - start:.1f} s".replace(":  in", ":"))

    def say(self, text: str) -> None:
        with self._lock:
            print(for_terminal(text), file=sys.stderr, flush=True)  # noqa: T201 - stderr is talk

    def log(self, text: str) -> None:
        pass


class _PlainStage:
    def __init__(self, reporter: PlainReporter, label: str, total: int | None, unit: str) -> None:
        self._reporter, self._label, self._total, self._unit = reporter, label, total, unit
        self._done = 0
        self._start = self._said_at = time.monotonic()
        self._last = ""

    def update(self, done: int, *, total: int | None = None, detail: str = "") -> None:
        self._done = done
        self._total = total or self._total
        if (since := time.monotonic() - self._said_at) >= _EVERY:
            text = f"{self._label}: {_how_far(done, self._total, self._unit)} {detail}".rstrip()
            if text != self._last or since >= _SAME:
                self._said_at, self._last = time.monotonic(), text
                self._reporter.say(f"{text} ({duration(self._said_at - self._start)})")

    def text(self) -> str:
        return amount(self._done, self._unit) if self._done else "done"


class LiveReporter:
    """rich's bars, one per stage under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: Any = None
        self._running = 0

    @contextmanager
    def stage(self, label: str, *, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        with self._lock:
            progress = self._started()
            self._running += 1
        task = progress.add_task(label, total=total, unit=unit, amount="")
        start = time.monotonic()
        stage = _LiveStage(progress, task, total, unit)
        try:
            yield stage
        finally:
            with self._lock:
                progress.remove_task(task)
                self._running -= 1
                if not self._running:
                    progress.stop()
                    self._progress = None
        from rich.markup import escape

        took = f"[dim]{time.monotonic() - start:.1f} s[/dim]"
        self.say(f"[green]✓[/green] {escape(label)} {escape(stage.last)} {took}", markup=True)

    def say(self, text: str, *, markup: bool = False) -> None:
        from rich.console import Console
        from rich.markup import escape

        console = self._progress.console if self._progress is not None else Console(stderr=True)
        # rich would read brackets in a name or a path as its own markup.
        console.print(for_terminal(text) if markup else escape(for_terminal(text)), highlight=False)

    def log(self, text: str) -> None:
        pass

    def _started(self) -> Any:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[amount]}", markup=False),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
        return self._progress


class _LiveStage:
    def __init__(self, progress: Any, task: Any, total: int | None, unit: str) -> None:
        self._progress, self._task, self._total, self._unit = progress, task, total, unit
        self.last = ""

    def update(self, done: int, *, total: int | None = None, detail: str = "") -> None:
        self._total = total or self._total
        self.last = amount(done, self._unit)
        how_far = for_terminal(f"{_how_far(done, self._total, self._unit)} {detail}").strip()
        self._progress.update(self._task, total=self._total, completed=done, amount=how_far)
