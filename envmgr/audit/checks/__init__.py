"""The checks, one module each. Modules are found by their place, so a new check is one new file."""

from __future__ import annotations

import importlib
import pkgutil

from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.model import Check, check_of
from envmgr.catalog.names import nearest
from envmgr.errors import InputError
from envmgr.wording import did_you_mean


def check_names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def get_check(name: str) -> Check:
    """Return the check `name`.

    Raises:
        InputError: `unknown-check`, with the nearest names.
    """
    module = name.replace("-", "_")
    if module not in check_names():
        known = sorted({each.replace("_", "-") for each in (*check_names(), *KINDS)})
        hint = did_you_mean(nearest(name, known), f"known: {', '.join(known)}")
        raise InputError("unknown-check", f"there is no check `{name}`", hint=hint)
    return check_of(importlib.import_module(f"{__name__}.{module}"))


def all_checks() -> dict[str, Check]:
    """Return the checks of an audit that names none."""
    return {name.replace("_", "-"): get_check(name) for name in check_names()}
