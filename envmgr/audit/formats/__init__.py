"""Formats of an audit's answer for other programs, one module each; a new one is one new file.

Text for people and JSON are the formats of every verb, and are no files here.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from envmgr.audit.result import AuditResult
    from envmgr.errors import EnvmgrError


class ReportFormat(Protocol):
    """A module of this folder; its name is what `--format` takes. Pure: text out, no I/O."""

    def result_text(self, result: AuditResult) -> str:
        """Return the whole text of an audit that looked, also of one that could compare nothing."""

    def error_text(self, error: EnvmgrError, *, now: float) -> str | None:
        """Return the whole text of an audit that did not happen; None where the format has no words for it. `now` is
        epoch seconds.
        """


def format_names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def get_format(name: str) -> ReportFormat:
    """One of `format_names`."""
    return cast("ReportFormat", importlib.import_module(f"{__name__}.{name}"))
