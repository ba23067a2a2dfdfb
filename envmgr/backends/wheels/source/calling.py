"""Calls the process that builds, as the user that it shall be, and tells what went wrong there."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envmgr
from envmgr.backends.wheels.source.shut import Shut
from envmgr.errors import EnvmgrError
from envmgr.system.excerpt import meaningful, without_colour
from envmgr.system.files import explain_os_error
from envmgr.system.run import Completed, Runner, clean_env
from envmgr.system.users import Account

_TAIL = 1 << 20  # bytes of a log that are looked at
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
) -> dict[str, Any]:
    """The answer to `ask`; see child.py. `work` is a folder of that user's, `keep_log` keeps the log and gives its path.
    `on_tick` is called every 0.1 s.

    Raises:
        EnvmgrError: `build-failed`, `patch-failed`, `build-differs`, `sdist-invalid`, and of the disk.
    """
    log = work / "log"
    request = {
        "ask": ask, "work": str(work), "log": str(log), "sdist": str(source.sdist), "patches": [str(p) for p in source.patches],
        "minor": source.minor, "base": None if source.base is None else str(source.base), "programs": str(source.programs),
        "wheels": [str(path) for path in wheels], "jobs": jobs, "times": times,
    }  # fmt: skip
    env = clean_env(PYTHONPATH=str(Path(envmgr.__file__).resolve().parent.parent), HOME=str(work), TMPDIR=str(work))
    argv = [*shut.words, sys.executable, "-s", "-P", "-m", "envmgr.backends.wheels.source.child"]
    try:
        done = runner.run(
            argv, env=env, cwd=work, stdin=json.dumps(request), check=False, run_as=account, on_tick=on_tick
        )
    except BaseException:
        keep_log(log)
        raise
    kept = keep_log(log)
    if done.returncode or not done.stdout.strip():
        raise _failure({"kind": "died"}, ask, source, [*_last(done), *_said(log)], kept)
    answer: dict[str, Any] = json.loads(done.stdout)
    if answer.get("kind") == "os" and answer["errno"]:
        with explain_os_error(work):
            raise OSError(answer["errno"], os.strerror(answer["errno"]), answer["path"])
    if "kind" in answer:
        raise _failure(answer, ask, source, _said(log), kept)
    return answer


def _failure(answer: dict[str, Any], ask: str, source: Source, said: Sequence[str], log: str) -> EnvmgrError:
    what, lines = f"{source.name} {source.version}", [str(line) for line in answer.get("lines", ())]
    match answer["kind"]:
        case "archive":
            return EnvmgrError(
                "sdist-invalid", str(answer["message"]), context=[*lines, *said], log=log,
                hint="report it to the package's authors; lock another version",
            )  # fmt: skip
        case "patch":
            return EnvmgrError(
                "patch-failed", str(answer["message"]), context=said, log=log,
                hint="make it anew for this version, as `diff -ru a b` or git writes it (`patch -p1` reads it)",
            )  # fmt: skip
        case "differs":
            more = [f"and {len(lines) - 10} more"] if len(lines) > 10 else []
            return EnvmgrError(
                "build-differs", f"two builds of {what} differ", context=[*lines[:10], *more], log=log,
                hint="its build puts something of the moment (a time, a random name, the order of a folder) into its files: a patch "
                "(`patches` in the recipe) takes that out; or put a wheel that you made into a folder that is an index of the site",
            )  # fmt: skip
    fact = "did not build from its source" if ask == "wheel" else "did not say what it is built with, and what it needs"
    return EnvmgrError(
        "build-failed", f"{what} {fact}", context=said or [str(answer.get("message", "its process was ended"))], log=log,
        hint="its build has no network, and only the packages that it asks for: a patch of its pyproject.toml (`patches` in the recipe) "
        "adds one that it forgot (`requires` of `[build-system]`), `constraints` holds one to an older version",
    )  # fmt: skip


def _said(log: Path) -> list[str]:
    """The lines of a log that say what is wrong."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [line for line in without_colour(text).splitlines() if line.strip() and not line.startswith("$ ")]
    found = meaningful("\n".join(lines))
    # Of an error of Python's the last lines say what is wrong, and those before them how it came there.
    return [line.rstrip() for line in lines[-_OF_PYTHON:]] if any(map(_TRACEBACK.match, found)) else found


def _last(done: Completed) -> list[str]:
    return [f"exit status {done.returncode}", *done.stderr.strip().splitlines()[-5:]]
