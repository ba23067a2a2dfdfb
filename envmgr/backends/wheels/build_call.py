"""Calls of the process that builds a source, as its user and without a network; and explanations of its failures.

The package's own code runs next to that process, as the same user: its answer and its log are not trusted.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

import envmgr
from envmgr.backends.wheels.built_contents import DeclaredExtension
from envmgr.errors import CommandError, EnvmgrError, ending
from envmgr.store.isolation import Isolation
from envmgr.system.child import python_module
from envmgr.system.files import explain_os_error
from envmgr.system.log_excerpt import meaningful, without_colour
from envmgr.system.models import FrozenModel
from envmgr.system.run import Completed, Runner, clean_env
from envmgr.system.sandbox import PLACE, seen_at_place
from envmgr.system.untrusted_files import ROW, Kind, open_untrusted, read_json
from envmgr.system.users import Account
from envmgr.system.yamlfile import reason_of
from envmgr.wheels.metadata import Metadata, read_metadata
from envmgr.wheels.requirements import checked_all
from envmgr.wording import one_line, shortened

_LOG = Kind("log", 1 << 50)
_TAIL = 1 << 20  # bytes of a log that are looked at
_PACKAGES = Path(envmgr.__file__).resolve().parent.parent
_ANSWER = "answer.json"
_CHILD = "envmgr.backends.wheels.build_child"
# What a source may take to answer before it is built: seconds, and memory.
_QUESTION_LIMIT = 3600.0
_OF_PYTHON = 6  # lines
_OF_EXTENSIONS = 6  # lines
_LEFT_OUT = re.compile(
    r"(?i)could not find|not found|skipping|not been built|no module named|: (fatal )?error: |building extension .* failed"
)
_LACKS = re.compile(r"No module named '([A-Za-z0-9_]+)")
_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\)")


class BuildReply(FrozenModel):
    """The answer of that process; see build_child.py. `requires` and `metadata` are the package's, written again.

    `extensions` are None if the build does not use setuptools, to which they are declared.
    """

    requires: Annotated[tuple[str, ...], AfterValidator(checked_all)] = ()
    metadata: Annotated[Metadata | None, BeforeValidator(lambda text: read_metadata(str(text)))] = None
    extensions: tuple[DeclaredExtension, ...] | None = None
    wheel: str = Field(default="", pattern=r"^([A-Za-z0-9_.!+-]+\.whl)?$")
    kind: str = ""
    message: str = ""
    lines: tuple[str, ...] = ()
    errno: int = Field(default=0, ge=0, lt=4096)
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBuild:
    """A source as a file, and the way to build it. `base` is the folder of the Python's install; None: `programs`."""

    name: str
    version: str
    sdist: Path
    patches: Sequence[Path]
    minor: str
    base: Path | None
    programs: Path
    isolation: Isolation
    runner: Runner
    account: Account | None = None

    def ask(
        self,
        question: str,
        work: Path,
        wheels: Sequence[Path] = (),
        *,
        jobs: int = 1,
        times: int = 1,
        keep_log: Callable[[Path], str] = lambda _: "",
        on_tick: Callable[[], None] = lambda: None,
    ) -> BuildReply:
        """Return the answer to a question of build_child.py, over `wheels`.

        `work` is a folder of that user's. `keep_log` keeps the log and returns its path; `on_tick` runs every 0.1 s.

        Raises:
            EnvmgrError: `build-failed`, `patch-failed`, `build-differs`, `sdist-invalid`, and of the disk.
        """
        log, told = work / "log", work / _ANSWER
        words = self.placed(work, wheels)
        seen = PLACE if words else work
        request = {
            "ask": question,
            "work": str(seen),
            "log": str(seen / "log"),
            "answer": str(seen / _ANSWER),
            "sdist": str(self.sdist),
            "patches": [str(path) for path in self.patches],
            "minor": self.minor,
            "wheels": [str(path) for path in wheels],
            "base": None if self.base is None else str(self.base),
            "programs": str(self.programs),
            "jobs": jobs,
            "times": times,
        }
        env = clean_env(PYTHONPATH=str(_PACKAGES), HOME=str(seen), TMPDIR=str(seen))
        # Its output goes into the log from its first instruction on: a pipe would be ours, and could be flooded.
        argv: list[str | Path] = [*self.isolation.words, *words, "/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1', seen / "log"]
        argv += python_module(_CHILD)
        building = question == "wheel"
        try:
            done = self.runner.run(
                argv,
                env=env,
                cwd=work,
                stdin=json.dumps(request),
                check=False,
                run_as=self.account,
                on_tick=on_tick,
                timeout=None if building else _QUESTION_LIMIT,
            )
        except CommandError as error:
            said = [one_line(error.message), *_excerpt(log)]
            raise self._failure(BuildReply(kind="late"), question, said, keep_log(log)) from None
        except BaseException:
            keep_log(log)
            raise
        kept = keep_log(log)
        answer = self._read(told, question, done, log, kept)
        if answer.kind == "os" and answer.errno:
            with explain_os_error(work):
                raise OSError(answer.errno, os.strerror(answer.errno), answer.path)
        if answer.kind:
            raise self._failure(answer, question, _excerpt(log), kept)
        return answer

    def placed(self, work: Path, wheels: Sequence[Path] = ()) -> tuple[str, ...]:
        """Return the words by which a build sees `work` at PLACE, which is the same for every user and host.

        There are no words if the build would lack something at that place.
        """
        needed = [self.sdist, *self.patches, *wheels, self.programs, Path(sys.executable), Path(sys.prefix), _PACKAGES]
        needed += [] if self.base is None else [self.base]
        if any(path.is_relative_to(PLACE) or path.resolve().is_relative_to(PLACE) for path in needed):
            return ()
        return seen_at_place(work, self.isolation.words, self.runner, self.account)

    def _read(self, told: Path, question: str, done: Completed, log: Path, kept: str) -> BuildReply:
        try:
            return BuildReply.model_validate(read_json(told, ROW) if done.returncode == 0 else None)
        except ValidationError as error:
            if done.returncode == 0:
                found = error.errors(include_url=False)
                raise EnvmgrError(
                    "sdist-invalid",
                    f"what {self.name} {self.version} says of itself is refused",
                    context=[one_line(reason_of(each)) for each in found[:10]],
                    log=kept,
                    hint="a patch of its pyproject.toml (`patches` in the recipe) can say it as the index gives it; "
                    "or lock another version",
                ) from None
        # Without an answer that can be read, the log says most.
        except (OSError, ValueError, EnvmgrError):
            pass
        said = [f"its process {ending(done.returncode)}", *done.stderr.strip().splitlines()[-5:], *_excerpt(log)]
        raise self._failure(BuildReply(kind="died"), question, said, kept)

    def _failure(self, answer: BuildReply, question: str, said: Sequence[str], log: str) -> EnvmgrError:
        package, lines = f"{self.name} {self.version}", [one_line(line) for line in answer.lines]
        message = one_line(answer.message)
        match answer.kind:
            case "archive":
                reference, context = "sdist-invalid", [*lines, *said]
                hint = "report it to the package's authors; lock another version"
            case "patch":
                reference, context = "patch-failed", [*said]
                hint = "make the patch again for this version, with `diff -ru a b` or git (`patch -p1` must read it)"
            case "differs":
                reference, context = "build-differs", shortened(lines, 10)
                message = f"two builds of {package} differ"
                hint = (
                    "its build puts something of the moment (a time, a random name, the order of a folder) into its "
                    "files: a patch (`patches` in the recipe) takes that out; or put a wheel that you made into a "
                    "folder that is an index of the site"
                )
            case _:
                reference, context = "build-failed", [*said] or [message or "its process was ended"]
                fact = (
                    "build from its source" if question == "wheel" else "say what it is built with, and what it needs"
                )
                message = f"{package} did not {fact}"
                hint = (
                    "its build has no network, and only the packages that it asks for: "
                    f"`build_requires: {{{self.name}: [{lacked_package(said)}]}}` in the recipe adds one that it imports and does not "
                    "ask for, in the version that the entry has; `constraints` holds one to an older version"
                )
        return EnvmgrError(reference, message, context=context, log=log, hint=hint)


def said_of_extensions(log: Path, names: Collection[str]) -> list[str]:
    """Return lines of a log that say that something was not found or did not compile.

    First come those that name one of these extension modules, or a part of its name (`torch` of `horovod.torch.lib`).
    """
    parts = {part.lower() for name in names for part in name.split(".")[-2:]}
    found = [one_line(line.strip()) for line in dict.fromkeys(_lines(log)) if _LEFT_OUT.search(line)]
    return sorted(found, key=lambda line: not any(part in line.lower() for part in parts))[:_OF_EXTENSIONS]


def lacked_package(lines: Iterable[str]) -> str:
    """Return what a build needs by what it said: the name of the module that it did not find, as a requirement."""
    lacks = _LACKS.search("\n".join(lines))
    return lacks[1].replace("_", "-") if lacks else "NAME==VERSION"


def _lines(log: Path) -> list[str]:
    """Return the last lines of a log; none if a link or a pipe lies in its place."""
    try:
        with open_untrusted(log, _LOG, tree=None) as file:
            text = os.pread(file, _TAIL, max(0, os.fstat(file).st_size - _TAIL)).decode(errors="replace")
    except (OSError, EnvmgrError):
        return []
    # Lines with `$ ` are the commands themselves, which build_child.py writes.
    return [line for line in without_colour(text).splitlines() if line.strip() and not line.startswith("$ ")]


def _excerpt(log: Path) -> list[str]:
    """Return the lines of a log that say what is wrong."""
    lines = _lines(log)
    found = meaningful("\n".join(lines))
    # Of an error of Python's the last lines say what is wrong, and those before them how it came there.
    return [line.rstrip() for line in lines[-_OF_PYTHON:]] if any(map(_TRACEBACK.match, found)) else found
