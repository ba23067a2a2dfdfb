"""Formats of an audit's answer for other programs, one module each; a new one is one new file.

Text for people and JSON are the formats of every verb, and are no files here.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def format_names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def get_format(name: str) -> ModuleType:
    """Return one of `format_names`. Pure: its `result_text` is the whole text of an AuditResult, also of one that could compare nothing, its
    `error_text` that of an EnvmgrError `now` (epoch seconds); None where the format has no words for it.
    """
    return importlib.import_module(f"{__name__}.{name}")
