"""The way of an audit's answer: to stdout or to a file, in any format; also after a failure, for the reader of the
file.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from envmgr.cli.formats import format_names, get_format
from envmgr.cli.render import print_error, print_json, to_data
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.system.files import atomic_write
from envmgr.wording import for_terminal, masked

if TYPE_CHECKING:
    from envmgr.cli import VerbAnswer


def write_report(answer: VerbAnswer | EnvmgrError, fmt: str, report: Path | None) -> None:
    """Write the answer to `report`, atomically and readable by all, or to stdout if `report` is None.

    An error is also written to stderr. After an interruption the file stays unchanged: its age shows that.

    Raises:
        EnvmgrError: the file cannot be written; it is then as before.
    """
    text = answer_text(answer, fmt, now=time.time())
    if isinstance(answer, EnvmgrError) and (report is not None or fmt != "json"):
        print_error(answer, "table")
    if text is None or (report is not None and isinstance(answer, Interrupted)):
        return
    text = masked(text)
    if report is None:
        sys.stdout.write(for_terminal(text) if sys.stdout.isatty() else text)
    else:  # names of files on nodes may hold what is no UTF-8
        refuse_missing_folder(report)
        atomic_write(report, text.encode("utf-8", "backslashreplace"), mode=0o644)


def refuse_missing_folder(report: Path, option: str = "--output") -> None:
    """Raise EnvmgrError `output-failed` where the folder of `report` does not exist: no collector looks into a folder
    made for a typo.
    """
    try:
        report.parent.stat()
    except FileNotFoundError:
        raise EnvmgrError(
            "output-failed", f"there is no folder {report.parent}", context=f"{option} {report}", hint="make it first"
        ) from None
    except OSError:
        return  # writing says what is wrong there


def answer_text(answer: VerbAnswer | EnvmgrError, fmt: str, *, now: float) -> str | None:
    """Return the whole text of an answer; None where a format has no words for a failure. `now` is epoch seconds."""
    from envmgr.commands.audit import AuditResult

    if isinstance(answer, EnvmgrError):
        if fmt in format_names():
            return get_format(fmt).error_text(answer, now=now)
        return _printed(lambda: print_error(answer, fmt)) if fmt == "json" else None
    result = answer.result
    if fmt in format_names() and isinstance(result, AuditResult):
        return get_format(fmt).result_text(result)
    if fmt == "json":
        return _printed(lambda: print_json(result.schema, to_data(result)))
    return _printed(answer.show)


def _printed(show: Callable[[], None]) -> str:
    with redirect_stdout(io.StringIO()) as text:
        show()
    return text.getvalue()
