"""Print results, errors and tables, as text or as versioned JSON, or write them to a file. stdout is data, stderr is
talk.
"""

from __future__ import annotations

import dataclasses
import io
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from envmgr.audit.formats import format_names, get_format
from envmgr.errors import EnvmgrError, ErrorData, Interrupted
from envmgr.report import Result, Table, Verbatim
from envmgr.system.files import atomic_write
from envmgr.wording import for_terminal, masked


def print_error(error: EnvmgrError, fmt: str) -> None:
    """Print an error: JSON goes to stdout, where a program reads its answer; text goes to stderr.

    JSON also has all that failed, and what was written beside it, where a verb does several things.
    """
    if fmt == "json":
        several = {"failed": error.failed, "written": error.written} if error.failed or error.written else {}
        print_json("envmgr.error/1", to_data(ErrorData.of(error)) | to_data(several))
    else:
        sys.stderr.write(for_terminal(error.render()) + "\n")


def print_json(schema: str, data: Mapping[str, Any]) -> None:
    text = masked(json.dumps({"schema": schema, **data}, indent=1, ensure_ascii=False))
    if not text.isprintable():  # between its own line breaks; beside what JSON itself escapes
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    sys.stdout.write(text + "\n")


def print_answer(answer: Result | EnvmgrError, fmt: str) -> None:
    """Print what a verb answers, as JSON or as text."""
    if isinstance(answer, EnvmgrError):
        print_error(answer, fmt)
    elif fmt == "json":
        print_json(answer.schema, to_data(answer))
    else:
        for each in answer.lines():
            _print(each)


def to_data(value: Any) -> Any:
    """Return a result as plain JSON values: entries and paths become text."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_data(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return str(value)  # an Entry
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_data(v) for v in value]
    return str(value) if isinstance(value, Path) else value


def _print(part: str | Table) -> None:
    if isinstance(part, Table):
        print_table(part)
    elif isinstance(part, Verbatim):
        sys.stdout.write(part)
    else:
        sys.stdout.write(for_terminal(part) + "\n")


def print_table(table: Table) -> None:
    """Print columns without borders: folded to a terminal's width; elsewhere one line a record, for scripts."""
    rows, header = table
    materialised = [[for_terminal(cell) for cell in r] for r in rows]
    if not materialised:
        return
    if not sys.stdout.isatty():
        aligned = _aligned([list(header), *materialised] if header else materialised)
        sys.stdout.writelines(f"{line}\n" for line in aligned)
        return
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(header), header_style="bold")
    for index in range(max(len(header), *(len(r) for r in materialised))):
        grid.add_column(header[index] if index < len(header) else "", overflow="fold")
    for row in materialised:
        grid.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(grid)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip_longest(*rows, fillvalue="")]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def write_report(answer: Result | EnvmgrError, fmt: str, report: Path | None) -> None:
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


def refuse_missing_folder(report: Path | None, option: str = "--output") -> None:
    """Raise EnvmgrError `output-failed` where the folder of `report` does not exist: no collector looks into a folder
    made for a typo.
    """
    if report is None:
        return
    try:
        report.parent.stat()
    except FileNotFoundError:
        message, context = f"there is no folder {report.parent}", f"{option} {report}"
        raise EnvmgrError("output-failed", message, context=context, hint="make it first") from None
    except OSError:
        return  # writing says what is wrong there


def answer_text(answer: Result | EnvmgrError, fmt: str, *, now: float) -> str | None:
    """Return the whole text of an answer; None where a format has no words for a failure. `now` is epoch seconds."""
    from envmgr.audit.result import AuditResult

    if isinstance(answer, EnvmgrError):
        if fmt in format_names():
            return cast("str | None", get_format(fmt).error_text(answer, now=now))
        return _printed(answer, fmt) if fmt == "json" else None
    if fmt in format_names() and isinstance(answer, AuditResult):
        return cast("str", get_format(fmt).result_text(answer))
    return _printed(answer, fmt)


def _printed(answer: Result | EnvmgrError, fmt: str) -> str:
    with redirect_stdout(io.StringIO()) as text:
        print_answer(answer, fmt)
    return text.getvalue()
