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
    except BaseException:  # noqa: BLE001 - a module may call `exit`
        return traceback.format_exc(limit=-3)
    return ""


failed = [name for name in sys.argv[1:] if why_not(name)]
reasons = {name: reason for name in failed if (reason := why_not(name))}
for name, reason in reasons.items():
    sys.stderr.write(f"`import {name}` failed:\n{reason}\n")
sys.exit(1 if reasons else 0)
