"""The output of a verb: findings, its progress to the user and to a log, and at the end its result. The room `cli`
decides how they look.
"""

from __future__ import annotations

import datetime
import errno
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar, Literal, NamedTuple, Protocol

from envmgr.wording import for_terminal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `where` is a file, an entry or a field; `nodes` is a folded node set, empty for this
    machine.

    `between` are nodes that differ from each other where nobody can tell which one is right: none of them is accused,
    and `nodes` is empty.
    """

    check: str
    severity: Severity
    where: str
    found: str
    expected: str = ""
    hint: str = ""
    nodes: str = ""
    between: str = ""


class Table(NamedTuple):
    """Rows of cells, which are shown in columns; `header` is empty, or has a word for each column."""

    rows: Iterable[Sequence[str]]
    header: Sequence[str] = ()


class Verbatim(str):
    """A text for another program, which is written as it is: with its own line breaks, and no character escaped."""

    __slots__ = ()


Lines = Iterator[str | Table]
"""A result as text for people: lines, tables, and texts that are `Verbatim`."""


class Result(Protocol):
    """The result of a verb: frozen data, in JSON under `schema` (`envmgr.<verb>/<version>`). Each result has it as its
    base.
    """

    __slots__ = ()
    schema: ClassVar[str]

    def lines(self) -> Lines:
        """Yield the result as text for people."""

    @property
    def exit_code(self) -> int:
        """0 unless the result says otherwise."""
        return 0


class Stage(Protocol):
    """One bar: `done` and `total` are in the stage's unit; `detail` is a short text (the package at hand)."""

    def update(self, done: int, *, total: int | None = None, detail: str = "") -> None: ...


class Reporter(Protocol):
    """The receiver of progress. Safe to call from several threads."""

    def stage(self, label: str, *, total: int | None = None, unit: str = "") -> AbstractContextManager[Stage]:
        """Return a context manager that yields a `Stage`; `unit` is `bytes`, `packages`, `files` or empty."""

    def say(self, text: str) -> None:
        """Print one line for the user, and write it to the log."""

    def log(self, text: str) -> None:
        """Write to the log only."""


class _SilentStage:
    def update(self, done: int, *, total: int | None = None, detail: str = "") -> None:
        pass


class SilentReporter:
    """Says nothing: for library use, tests and `--format json`."""

    @contextmanager
    def stage(self, label: str, *, total: int | None = None, unit: str = "") -> Iterator[Stage]:  # noqa: ARG002
        yield _SilentStage()

    def say(self, text: str) -> None:
        pass

    def log(self, text: str) -> None:
        pass


def _regular(path: Path) -> int:
    """Open a regular file to append, through no link: others may have put something there."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


class LoggedReporter:
    """A wrapper of a reporter that also writes everything, with times, to a file, which is created at the first
    line.
    """

    def __init__(self, inner: Reporter, path: Path) -> None:
        self.path = path
        self._inner = inner
        self._lock = threading.Lock()
        self._file: IO[str] | None = None
        self._broken = False

    @contextmanager
    def stage(self, label: str, *, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        self.log(f"begin {label}")
        with self._inner.stage(label, total=total, unit=unit) as stage:
            yield stage
        self.log(f"end {label}")

    def say(self, text: str) -> None:
        self.log(text)
        self._inner.say(text)

    def log(self, text: str) -> None:
        """Write to the log and never raise: a full disk or a lost mount must not hide the reported error.

        A failure to write is reported once.
        """
        with self._lock:
            if self._broken:
                return
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            try:
                if self._file is None:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = os.fdopen(_regular(self.path), "a", encoding="utf-8", errors="backslashreplace")
                self._file.writelines(f"{now} {line}\n" for line in for_terminal(text).splitlines() or [""])
                self._file.flush()
            except OSError as error:
                self._broken = True
                self._inner.say(f"warning: the log {self.path} cannot be written: {error.strerror}")

    def close(self) -> None:
        with self._lock, suppress(OSError):
            if self._file is not None:
                self._file.close()
                self._file = None
