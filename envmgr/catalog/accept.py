"""What a recipe accepts of what its module does: variables and functions by their names, each with a reason."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envmgr.catalog.lockrules.rules import RULES
from envmgr.catalog.variables import fault_in_variable

ON_UNLOAD = "on_unload"
_VARIABLE = re.compile(r"variable:([A-Za-z_][A-Za-z0-9_]*|_?[A-Za-z][A-Za-z0-9]+_\*)")
_FUNCTION = re.compile(r"function:[A-Za-z_][A-Za-z0-9_]*")


def fault_in_key(key: str) -> str:
    """Why it names nothing that a recipe can accept; empty where it does."""
    if key in RULES or key == ON_UNLOAD or _FUNCTION.fullmatch(key):
        return ""
    named = _VARIABLE.fullmatch(key)
    if named is None:
        return f"there is no rule `{key}`; known: {', '.join(sorted(RULES))}, {ON_UNLOAD}, variable:NAME, variable:STEM_*, function:NAME"
    fault = fault_in_variable(named[1], as_list=True)
    return f"no recipe can accept {named[1]}: {fault}" if fault else ""


def key_for(accept: Mapping[str, str], rule: str) -> str:
    """The key by which `accept` has `rule` (`variable:PROJ_DATA`, by its name or by `variable:PROJ_*`); empty where it has not."""
    if rule in accept:
        return rule
    return next((key for key in accept if key.endswith("_*") and rule.startswith(key[:-1])), "")
