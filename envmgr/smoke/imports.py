"""Import the modules that the arguments name, in one process; runs with an entry's own Python.

A module that needs another one first gets a second chance after all others.
"""

import importlib
import sys
import traceback


def why_not(name: str) -> str:
    """Return why a module cannot be imported; empty if it can."""
    try:
        importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001 - a module may call `exit`
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "".join(
            [f"{last.filename}, line {last.lineno}:\n", *traceback.format_exception_only(type(error), error)]
        )
    return ""


failed = [name for name in sys.argv[1:] if why_not(name)]
reasons = {name: reason for name in failed if (reason := why_not(name))}
for name, reason in reasons.items():
    sys.stderr.write(f"`import {name}` failed: {reason}")
if reasons:
    names = ", ".join(reasons)
    sys.stderr.write(
        f'where users do not import it, or not so: `accept: {{not-imported: "{names}: why"}}` in the recipe\n'
    )
    sys.exit(1)
