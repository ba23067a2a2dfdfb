"""Calls the process that builds, as the user that it shall be, and tells what went wrong there.

The package's own code runs beside that process, as the same user: its answer, and its log, are a stranger's.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

import envmgr
from envmgr.backends.wheels.source.shut import Shut
from envmgr.errors import CommandError, EnvmgrError
from envmgr.system.files import explain_os_error
from envmgr.system.log_excerpt import meaningful, without_colour
from envmgr.system.models import FrozenModel
from envmgr.system.run import Bounds, Completed, Runner, clean_env
from envmgr.system.sandbox import PLACE, seen_at_place
from envmgr.system.untrusted_files import ROW, Kind, open_untrusted, read_json
from envmgr.system.users import Account
from envmgr.system.yamlfile import reason_of
from envmgr.wheels.foreign import Metadata, read_metadata
from envmgr.wheels.requirements import checked_all
from envmgr.wording import one_line

_LOG = Kind("log", 1 << 50)
_TAIL = 1 << 20  # bytes of a log that are looked at
_PACKAGES = Path(envmgr.__file__).resolve().parent.parent
_ANSWER = "answer.json"
_CHILD = "envmgr.backends.wheels.source.child"
# What a source may take to answer before it is built: seconds, and memory.
_QUESTION_LIMIT = 3600.0
_QUESTION = Bounds(memory=8 << 30)
_OF_PYTHON = 6  # lines
_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source as a file, with what is built over and with. `base` is the folder of the Python's install; None: `programs`."""

    name: str
    version: str
    sdist: Path
    patches: Sequence[Path]
    minor: str
    base: Path | None
    programs: Path


class Answer(FrozenModel):
    """What that process says; see child.py. `requires` and `metadata` are the package's, written anew."""

    requires: Annotated[tuple[str, ...], AfterValidator(checked_all)] = ()
    metadata: Annotated[Metadata | None, BeforeValidator(lambda text: read_metadata(str(text)))] = None
    wheel: str = Field(default="", pattern=r"^([A-Za-z0-9_.!+-]+\.whl)?$")
    kind: str = ""
    message: str = ""
    lines: tuple[str, ...] = ()
    errno: int = Field(default=0, ge=0, lt=4096)
    path: str = ""


def call_child(
    ask: str,
    source: Source,
    work: Path,
    shut: Shut,
    runner: Runner,
    *,
    wheels: Sequence[Path] = (),
    jobs: int = 1,
    times: int = 1,
    account: Account | None = None,
    keep_log: Callable[[Path], str] = lambda _: "",
    on_tick: Callable[[], None] = lambda: None,
) -> Answer:
    """The answer to `ask`; see child.py. `work` is a folder of that user's, `keep_log` keeps the log and gives its path.
    `on_tick` is called every 0.1 s.

    Raises:
        EnvmgrError: `build-failed`, `patch-failed`, `build-differs`, `sdist-invalid`, and of the disk.
    """
    log, told = work / "log", work / _ANSWER
    words = placed(source, work, shut, runner, wheels, account)
    seen = PLACE if words else work
    request = {
        "ask": ask,
        "work": str(seen),
        "log": str(seen / "log"),
        "answer": str(seen / _ANSWER),
        "sdist": str(source.sdist),
        "patches": [str(p) for p in source.patches],
        "minor": source.minor,
        "wheels": [str(path) for path in wheels],
        "base": None if source.base is None else str(source.base),
        "programs": str(source.programs),
        "jobs": jobs,
        "times": times,
    }
    env = clean_env(PYTHONPATH=str(_PACKAGES), HOME=str(seen), TMPDIR=str(seen))
    # Its output goes into the log from its first instruction on: nobody but us holds the pipe, which could be flooded.
    argv: list[str | Path] = [*shut.words, *words, "/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1', seen / "log"]
    argv += [sys.executable, "-s", "-P", "-m", _CHILD]
    building = ask == "wheel"
    try:
        done = runner.run(
            argv,
            env=env,
            cwd=work,
            stdin=json.dumps(request),
            check=False,
            run_as=account,
            on_tick=on_tick,
            timeout=None if building else _QUESTION_LIMIT,
            bounds=None if building else _QUESTION,
        )
    except CommandError as error:
        raise _failure(
            Answer(kind="late"), ask, source, [one_line(error.message), *_said(log)], keep_log(log)
        ) from None
    except BaseException:
        keep_log(log)
        raise
    kept = keep_log(log)
    answer = _read(told, ask, source, done, log, kept)
    if answer.kind == "os" and answer.errno:
        with explain_os_error(work):
            raise OSError(answer.errno, os.strerror(answer.errno), answer.path)
    if answer.kind:
        raise _failure(answer, ask, source, _said(log), kept)
    return answer


def placed(
    source: Source, work: Path, shut: Shut, runner: Runner, wheels: Sequence[Path] = (), account: Account | None = None
) -> tuple[str, ...]:
    """The words by which a build sees `work` at PLACE, the same for every user and host; none where it would not see what it needs."""
    needed = [
        source.sdist,
        *source.patches,
        *wheels,
        source.programs,
        Path(sys.executable),
        Path(sys.prefix),
        _PACKAGES,
    ]
    needed += [] if source.base is None else [source.base]
    if any(path.is_relative_to(PLACE) or path.resolve().is_relative_to(PLACE) for path in needed):
        return ()
    return seen_at_place(work, shut.words, runner, account)


def _read(told: Path, ask: str, source: Source, done: Completed, log: Path, kept: str) -> Answer:
    try:
        return Answer.model_validate(read_json(told, ROW) if done.returncode == 0 else None)
    except ValidationError as error:
        if done.returncode == 0:
            found = error.errors(include_url=False)
            lines = [one_line(reason_of(each)) for each in found[:10]]
            raise EnvmgrError(
                "sdist-invalid",
                f"what {source.name} {source.version} says of itself is refused",
                context=lines,
                log=kept,
                hint="a patch of its pyproject.toml (`patches` in the recipe) can say it as the index gives it; or lock another version",
            ) from None
    except (OSError, ValueError, EnvmgrError):
        pass
    raise _failure(
        Answer(kind="died"),
        ask,
        source,
        [f"exit status {done.returncode}", *done.stderr.strip().splitlines()[-5:], *_said(log)],
        kept,
    )


def _failure(answer: Answer, ask: str, source: Source, said: Sequence[str], log: str) -> EnvmgrError:
    what, lines = f"{source.name} {source.version}", [one_line(line) for line in answer.lines]
    message = one_line(answer.message)
    match answer.kind:
        case "archive":
            return EnvmgrError(
                "sdist-invalid",
                message,
                context=[*lines, *said],
                log=log,
                hint="report it to the package's authors; lock another version",
            )
        case "patch":
            return EnvmgrError(
                "patch-failed",
                message,
                context=said,
                log=log,
                hint="make it anew for this version, as `diff -ru a b` or git writes it (`patch -p1` reads it)",
            )
        case "differs":
            more = [f"and {len(lines) - 10} more"] if len(lines) > 10 else []
            return EnvmgrError(
                "build-differs",
                f"two builds of {what} differ",
                context=[*lines[:10], *more],
                log=log,
                hint="its build puts something of the moment (a time, a random name, the order of a folder) into its files: a patch "
                "(`patches` in the recipe) takes that out; or put a wheel that you made into a folder that is an index of the site",
            )
    fact = "did not build from its source" if ask == "wheel" else "did not say what it is built with, and what it needs"
    return EnvmgrError(
        "build-failed",
        f"{what} {fact}",
        context=said or [message or "its process was ended"],
        log=log,
        hint="its build has no network, and only the packages that it asks for: a patch of its pyproject.toml (`patches` in the recipe) "
        "adds one that it forgot (`requires` of `[build-system]`), `constraints` holds one to an older version",
    )


def _said(log: Path) -> list[str]:
    """The lines of a log that say what is wrong; none where a link or a pipe lies in its place."""
    try:
        with open_untrusted(log, _LOG, tree=None) as file:
            text = os.pread(file, _TAIL, max(0, os.fstat(file).st_size - _TAIL)).decode(errors="replace")
    except (OSError, EnvmgrError):
        return []
    lines = [line for line in without_colour(text).splitlines() if line.strip() and not line.startswith("$ ")]
    found = meaningful("\n".join(lines))
    # Of an error of Python's the last lines say what is wrong, and those before them how it came there.
    return [line.rstrip() for line in lines[-_OF_PYTHON:]] if any(map(_TRACEBACK.match, found)) else found
