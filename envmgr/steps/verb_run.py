"""A verb of envmgr in a process of its own, which becomes the user that it needs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envmgr.errors import EnvmgrError
from envmgr.steps import Context
from envmgr.system.files import read_regular
from envmgr.system.scratch import scratch_folder

_SCRIPT = 'out=$1; shift; exec "$@" 2>&1 >"$out"'


@dataclass(frozen=True, slots=True)
class VerbRun:
    """A verb that ran. `data` is what it printed as JSON."""

    code: int
    data: Mapping[str, Any]

    @property
    def error(self) -> tuple[tuple[str, ...], str]:
        """The words of a verb that failed, and its hint."""
        context = tuple(map(str, self.data.get("context", ())))
        return (str(self.data.get("message", f"exit code {self.code}")), *context), str(self.data.get("hint", ""))

    def failure(self) -> EnvmgrError:
        """Return the error of a verb that failed."""
        said = {key: self.data.get(key, "") for key in ("hint", "log")}
        return EnvmgrError(
            str(self.data.get("reference", "verb-failed")), self.error[0][0], context=self.error[0][1:], **said
        )


def run_verb(ctx: Context, *argv: str, seconds: float | None = None) -> VerbRun:
    """Run a verb on the same site; its progress is ours.

    Raises:
        EnvmgrError: `verb-late` if it does not end within `seconds`; it is ended then.
    """
    site = ctx.site.source
    words = [sys.executable, "-m", "envmgr", *argv, "--format", "json"]
    words += ["--site", str(site)] if site is not None else []
    end = None if seconds is None else time.monotonic() + seconds

    def tick() -> None:
        if end is not None and time.monotonic() > end:
            raise EnvmgrError("verb-late", f"`envmgr {argv[0]}` did not end in {seconds:g} s")

    with scratch_folder("verb") as folder:
        answer = folder / "answer"
        script = ["/bin/sh", "-c", _SCRIPT, "sh", str(answer), *words]
        done = ctx.runner.stream(script, stdin="", on_line=ctx.reporter.say, on_tick=tick, env=dict(os.environ))
        try:
            data = json.loads(read_regular(answer))
        except (OSError, ValueError):
            data = {"message": f"`envmgr {argv[0]}` ended with {done.returncode} and said nothing"}
    return VerbRun(done.returncode, data if isinstance(data, dict) else {})
