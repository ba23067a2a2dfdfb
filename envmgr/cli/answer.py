"""Where an audit's answer goes: to stdout or to a file, in any format; also when it failed, for whoever reads the file."""

from __future__ import annotations

import io
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envmgr.cli.formats import format_names, get_format
from envmgr.cli.render import print_error, print_json, to_data
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.system.files import atomic_write

if TYPE_CHECKING:
    from envmgr.commands.audit import AuditResult, ExplainResult


def show_answer(answer: AuditResult | ExplainResult | EnvmgrError, fmt: str, output: Path | None) -> None:
    """Write the answer to `output`, atomically and for everybody to read, or to stdout where that is None.

    An error is told on stderr, too. What was interrupted leaves the file as it is: its age says the rest.

    Raises:
        EnvmgrError: the file cannot be written; it is then as before.
    """
    text = answer_text(answer, fmt, now=time.time())
    if isinstance(answer, EnvmgrError) and (output is not None or fmt != "json"):
        print_error(answer, "table")
    if text is None or (output is not None and isinstance(answer, Interrupted)):
        return
    if output is None:
        sys.stdout.write(text)
    else:  # names of files on nodes may hold what is no UTF-8
        refuse_missing_folder(output)
        atomic_write(output, text.encode("utf-8", "backslashreplace"), mode=0o644)


def refuse_missing_folder(output: Path) -> None:
    """A folder made for a typo is one that no collector looks into. Raises EnvmgrError `output-failed`."""
    try:
        output.parent.stat()
    except FileNotFoundError:
        raise EnvmgrError(
            "output-failed", f"there is no folder {output.parent}", context=f"--output {output}", hint="make it first"
        ) from None
    except OSError:
        return  # writing says what is wrong there


def answer_text(answer: AuditResult | ExplainResult | EnvmgrError, fmt: str, *, now: float) -> str | None:
    """The whole text of an answer; None where a format has no words for a failure. `now` is epoch seconds."""
    from envmgr.commands.audit import AuditResult

    if fmt in format_names() and isinstance(answer, (AuditResult, EnvmgrError)):
        words = get_format(fmt)
        return words.result_text(answer) if isinstance(answer, AuditResult) else words.error_text(answer, now=now)
    if isinstance(answer, EnvmgrError):
        return _printed(print_error, answer, fmt) if fmt == "json" else None
    if fmt == "json":
        return _printed(print_json, answer.schema, to_data(answer))
    from envmgr.cli.text import show

    return _printed(show, answer)


def _printed(function: Any, *arguments: Any) -> str:
    with redirect_stdout(io.StringIO()) as text:
        function(*arguments)
    return text.getvalue()
