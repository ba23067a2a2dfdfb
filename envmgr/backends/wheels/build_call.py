"""Calls of the process that builds a source, as its user and without a network; and explanations of its failures.

The package's own code runs next to that process, as the same user: its answer and its log are not trusted.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

import envmgr
from envmgr.downloads.failures import Row
from envmgr.errors import CommandError, EnvmgrError, ending
from envmgr.store.isolation import Isolation
from envmgr.system.child import python_module
from envmgr.system.files import explain_os_error
from envmgr.system.log_excerpt import meaningful, without_colour
from envmgr.system.models import FrozenModel
from envmgr.system.run import Runner, clean_env
from envmgr.system.sandbox import PLACE, seen_at_place
from envmgr.system.untrusted_files import ROW, Kind, open_untrusted, read_json
from envmgr.system.users import Account
from envmgr.system.yamlfile import reason_of
from envmgr.wheels.lockfile import LockedRow
from envmgr.wheels.metadata import Metadata, read_metadata
from envmgr.wheels.requirements import checked_all
from envmgr.wording import one_line, shortened

_LOG = Kind("log", 1 << 50)
_TAIL = 1 << 20  # bytes of a log that are looked at
_PACKAGES = Path(envmgr.__file__).resolve().parent.parent
# What a source may take to answer before it is built: seconds, and memory.
_QUESTION_LIMIT = 3600.0
_OF_PYTHON = 6  # lines
_LACKS = re.compile(r"No module named '([A-Za-z0-9_]+)")
_TRACEBACK = re.compile(r"\s*Traceback \(most recent call last\)")
# uv's own words at the end of a log are about a developer's project.
_OF_UV = "error: Failed to build "
_FULL = os.strerror(errno.ENOSPC)
_ROWS = {
    "sdist-invalid": Row("sdist-invalid", "{message}", "report it to the package's authors; lock another version"),
    "patch-failed": Row(
        "patch-failed",
        "{message}",
        "make the patch again for this version, with `diff -ru a b` or git (`patch -p1` must read it)",
    ),
    "build-differs": Row(
        "build-differs",
        "two builds of {package} differ",
        "its build puts something of the moment (a time, a random name, the order of a folder) into its files: a patch "
        "(`patches` in the recipe) takes that out; or put a wheel that you made into a folder that is an index of the "
        "site",
    ),
    "build-failed": Row(
        "build-failed",
        "{package} did not {fact}",
        "its build has no network, and only the packages that it asks for: "
        "`build_requires: {{{name}: [{lacked}]}}` in the recipe adds one that it imports and does not ask for, in the "
        "version that the entry has; `constraints` holds one to an older version",
    ),
}


class BuildReply(FrozenModel):
    """The answer of that process; see build_child.py. `requires` and `metadata` are the package's, written again."""

    requires: Annotated[tuple[str, ...], AfterValidator(checked_all)] = ()
    metadata: Annotated[Metadata | None, BeforeValidator(lambda text: read_metadata(str(text)))] = None
    wheel: str = Field(default="", pattern=r"^([A-Za-z0-9_.!+-]+\.whl)?$")
    kind: Literal["", "sdist-invalid", "patch-failed", "build-differs", "build-failed"] = ""
    message: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBuild:
    """A source as a file, and the way to build it. `python` is the folder of an install, or a program, as uv finds both.

    `cache` is the folder with the wheels that it is built with.
    """

    row: LockedRow
    sdist: Path
    patches: Sequence[Path]
    python: Path
    cache: Path
    isolation: Isolation
    runner: Runner
    account: Account | None = None

    def ask(
        self,
        question: str,
        work: Path,
        wheels: Sequence[LockedRow] = (),
        *,
        jobs: int = 1,
        keep_log: Callable[[Path], str] = lambda _: "",
        on_tick: Callable[[], None] = lambda: None,
    ) -> BuildReply:
        """Return the answer to a question of build_child.py, over `wheels`.

        `work` is a folder of that user's. `keep_log` keeps the log and returns its path; `on_tick` runs every 0.1 s.

        Raises:
            EnvmgrError: `build-failed`, `patch-failed`, `build-differs`, `sdist-invalid`, `disk-full`.
        """
        from uv import find_uv_bin

        log = work / "log"
        words = self.placed(work)
        seen = PLACE if words else work
        request = {
            "ask": question,
            "sdist": str(self.sdist),
            "patches": [str(path) for path in self.patches],
            "python": str(self.python),
            "lock": "".join(f"{each.name}=={each.version} --hash=sha256:{each.sha256}\n" for each in wheels),
            "folders": [str(self.cache / each.sha256) for each in wheels],
            "uv": find_uv_bin(),
            "jobs": jobs,
        }
        env = clean_env(PYTHONPATH=str(_PACKAGES), HOME=str(seen), TMPDIR=str(seen))
        # Its output goes into the log from its first instruction on: a pipe would be ours, and could be flooded.
        argv: list[str | Path] = [*self.isolation.words, *words, "/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1', seen / "log"]
        argv += python_module("envmgr.backends.wheels.build_child")
        answer: BuildReply | None = None
        try:
            done = self.runner.run(
                argv,
                env=env,
                cwd=work,
                stdin=json.dumps(request),
                check=False,
                run_as=self.account,
                on_tick=on_tick,
                timeout=None if question == "wheel" else _QUESTION_LIMIT,
            )
            said = [f"its process {ending(done.returncode)}", *done.stderr.strip().splitlines()[-5:]]
        except CommandError as error:
            done, said = None, [error.message]
        except BaseException:
            keep_log(log)
            raise
        kept = keep_log(log)
        if done is not None and done.returncode == 0:
            answer = self._read(work / "answer.json", kept)
        if answer is None:
            raise self._failure(BuildReply(kind="build-failed"), question, said, log, kept)
        if answer.kind:
            raise self._failure(answer, question, (), log, kept)
        return answer

    def placed(self, work: Path) -> tuple[str, ...]:
        """Return the words by which a build sees `work` at PLACE, which is the same for every user and host.

        There are no words if the build would lack something at that place.
        """
        needed = [self.sdist, *self.patches, self.cache, self.python, Path(sys.executable), Path(sys.prefix), _PACKAGES]
        if any(path.is_relative_to(PLACE) or path.resolve().is_relative_to(PLACE) for path in needed):
            return ()
        return seen_at_place(work, self.isolation.words, self.runner, self.account)

    def _read(self, told: Path, kept: str) -> BuildReply | None:
        """Return the answer; None if it cannot be read: the log says most then."""
        try:
            return BuildReply.model_validate(read_json(told, ROW))
        except ValidationError as error:
            found = error.errors(include_url=False)
            raise EnvmgrError(
                "sdist-invalid",
                f"what {self.row.name} {self.row.version} says of itself is refused",
                context=[one_line(reason_of(each)) for each in found[:10]],
                log=kept,
                hint="a patch of its pyproject.toml (`patches` in the recipe) can say it as the index gives it; "
                "or lock another version",
            ) from None
        except (OSError, ValueError, EnvmgrError):
            return None

    def _failure(self, answer: BuildReply, question: str, said: Sequence[str], log: Path, kept: str) -> EnvmgrError:
        """Return the error of an answer; `said` is what the process itself ended with."""
        own = shortened([*map(one_line, answer.lines)], 10)
        lines = own if answer.kind == "build-differs" else [*map(one_line, said), *own, *_excerpt(log)]
        if any(_FULL in line for line in lines):
            with explain_os_error(log.parent):
                raise OSError(errno.ENOSPC, _FULL)
        lacks = _LACKS.search("\n".join(lines))
        fields = {
            "name": self.row.name,
            "package": f"{self.row.name} {self.row.version}",
            "message": one_line(answer.message),
            "fact": "build from its source" if question == "wheel" else "say what it is built with, and what it needs",
            # The module that it did not find, as a requirement.
            "lacked": lacks[1].replace("_", "-") if lacks else "NAME==VERSION",
        }
        if answer.kind == "build-failed" and not lines:
            lines = [fields["message"]]
        return _ROWS[answer.kind].error(fields, lines, kept)


def _excerpt(log: Path) -> list[str]:
    """Return the lines of a log that say what is wrong; none if a link or a pipe lies in its place."""
    try:
        with open_untrusted(log, _LOG, tree=None) as file:
            text = os.pread(file, _TAIL, max(0, os.fstat(file).st_size - _TAIL)).decode(errors="replace")
    except (OSError, EnvmgrError):
        return []
    said = without_colour(text.partition(f"\n{_OF_UV}")[0]).splitlines()
    # Lines with `$ ` are the commands themselves, which build_child.py writes.
    lines = [line for line in said if line.strip() and not line.startswith("$ ")]
    found = meaningful("\n".join(lines))
    # Of an error of Python's the last lines say what is wrong, and those before them how it came there.
    return [line.rstrip() for line in lines[-_OF_PYTHON:]] if any(map(_TRACEBACK.match, found)) else found
