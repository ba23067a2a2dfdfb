"""Errors: an expected failure, a request that the user must change, a bug of envmgr. Each has a kebab-case reference,
the fact, its context and a hint.

`ErrorData` is an error between two processes, and in JSON: the one way to data and back.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Failed:
    """One of several things that a verb did: `what` is an entry, or the folder of an install."""

    what: str
    reference: str
    message: str


@dataclass(frozen=True, slots=True)
class Written:
    """The things that a verb wrote before it failed.

    `locks` are entries with a new lock, `fetched` are entries with all files in the cache. `installs` are paths
    relative to the prefix. `published` are the entries that changed in `generation`, which is current now.
    """

    locks: tuple[str, ...] = ()
    fetched: tuple[str, ...] = ()
    installs: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    generation: int | None = None


class EnvmgrError(Exception):
    """An expected failure: exit code 3. `reference` is stable and kebab-case; `context` lines say where; `hint` says
    what to do.
    """

    exit_code = 3

    def __init__(
        self, reference: str, message: str, *, context: str | Sequence[str] = (), hint: str = "", log: str = ""
    ) -> None:
        super().__init__(message)
        self.reference = reference
        self.message = message
        self.context = (context,) if isinstance(context, str) else tuple(context)
        self.hint = hint
        self.log = log
        self.failed: tuple[Failed, ...] = ()  # by a verb that does several things: all that failed, this error's first
        self.written: Written | None = None

    def __str__(self) -> str:
        return self.render()

    @property
    def head(self) -> str:
        """The first line of the house form."""
        return f"error[{self.reference}]: {self.message}"

    def render(self) -> str:
        """Return the house form as plain text, without a trailing newline."""
        lines = [self.head]
        lines += [f"  {line}" for part in self.context for line in part.splitlines()]
        if self.log:
            lines.append(f"  log: {self.log}")
        if self.hint:
            lines += ["", f"hint: {self.hint}"]
        return "\n".join(lines)


def failed_ones(failed: Mapping[str, EnvmgrError]) -> tuple[Failed, ...]:
    """Return the failures in the form of JSON, by what failed."""
    return tuple(Failed(what, error.reference, error.message) for what, error in failed.items())


def joined_errors(errors: Sequence[EnvmgrError]) -> EnvmgrError:
    """Return the first of the errors, with the others below its context, and the hints of all."""
    error, *others = errors
    for other in others:
        error.context = (*error.context, "", other.head, *(f"  {line}" for line in other.context))
    error.hint = "\n".join(dict.fromkeys(each.hint for each in errors if each.hint))
    return error


class InputError(EnvmgrError):
    """The user must change the request: arguments, site, recipe, lock. Exit code 2."""

    exit_code = 2


class Bug(EnvmgrError):  # noqa: N818 - the name is what users read
    """An error that should not happen, and that envmgr's developers should fix. Exit code 4."""

    exit_code = 4

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__("bug", message, hint=hint)


class CommandError(EnvmgrError):
    """A subprocess failed: carries its command, status and the end of its output."""

    def __init__(
        self, argv: Sequence[str], returncode: int | None, stdout: str, stderr: str, *, reason: str = ""
    ) -> None:
        tail = [line for line in (stderr.strip() or stdout.strip()).splitlines() if line.strip()][-12:]
        status = reason or (f"exit status {returncode}" if (returncode or 0) >= 0 else signal_text(-(returncode or 0)))
        super().__init__("command-failed", f"`{' '.join(argv)[:300]}` failed: {status}", context=tail)
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr


class Interrupted(EnvmgrError):  # noqa: N818 - the name states what happened; it is no error of envmgr
    """Ctrl-C or SIGTERM. Exit code 130."""

    exit_code = 130

    def __init__(self, *, log: str = "") -> None:
        super().__init__("interrupted", "stopped by a signal", log=log)


@dataclass(frozen=True, slots=True)
class ErrorData:
    """An error as plain values. A pydantic model may have it as a field, which then refuses keys that are not here."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    reference: str
    message: str
    context: tuple[str, ...]
    hint: str
    log: str
    exit_code: int

    @classmethod
    def of(cls, error: EnvmgrError) -> ErrorData:
        return cls(error.reference, error.message, error.context, error.hint, error.log, error.exit_code)

    def as_error(self, *more: str, log: str = "") -> EnvmgrError:
        """Return the error again, with `more` lines of context; `log` is for an error without its own log.

        It has the class of its exit code, except that a command's error comes back without the command.
        """
        kinds: dict[int, type[EnvmgrError]] = {kind.exit_code: kind for kind in (InputError, Bug, Interrupted)}
        kind = kinds.get(self.exit_code, EnvmgrError)
        error = kind.__new__(kind)
        EnvmgrError.__init__(
            error, self.reference, self.message, context=[*self.context, *more], hint=self.hint, log=self.log or log
        )
        error.exit_code = self.exit_code
        return error


def ending(status: int) -> str:
    """Return how a process ended, by its status: `ended with status 3`, `was ended by SIGTERM`."""
    return f"was ended by {signal_text(-status)}" if status < 0 else f"ended with status {status}"


def signal_text(number: int) -> str:
    """Return a signal's name, `signal 60` for a number without one; of SIGKILL, with what usually sends it."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{name} (out of memory?)" if number == signal.SIGKILL else name
