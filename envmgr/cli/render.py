"""Results as versioned JSON, errors, and the table that text is made of. stdout is data, stderr is talk."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from envmgr.errors import EnvmgrError, ErrorData
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


def out(text: str = "") -> None:
    """Print one line on stdout."""
    sys.stdout.write(for_terminal(text) + "\n")


def table(rows: Iterable[Sequence[str]], *, header: Sequence[str] = ()) -> None:
    """Print columns without borders: folded to a terminal's width; elsewhere one line a record, for scripts."""
    materialised = [[for_terminal(cell) for cell in r] for r in rows]
    if not materialised:
        return
    if not sys.stdout.isatty():
        sys.stdout.writelines(
            f"{line}\n" for line in _aligned([list(header), *materialised] if header else materialised)
        )
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(header), header_style="bold")
    for index in range(max(len(header), *(len(r) for r in materialised))):
        grid.add_column(header[index] if index < len(header) else "", overflow="fold")
    for row in materialised:
        grid.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(grid)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip_longest(*rows, fillvalue="")]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
