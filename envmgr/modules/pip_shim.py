"""The pip that a module puts first in PATH in place of the install's own.

The generation holds it, and no install changes. Pure. `pip_shim` makes the same for environments on top of a module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import dropwhile
from pathlib import Path

from envmgr.modules.spec import ModuleSpec
from envmgr.system.shelltext import assign

PIP_SHIM = "pip_shim.sh"
FOLDER = "shims"
"""A folder of a generation, with a folder in it for each entry."""


def render_shims(specs: Iterable[ModuleSpec], templates: Path) -> dict[str, str]:
    """Return path relative to the generation -> a program's text, for every module that puts a Python into PATH."""
    text = (templates / PIP_SHIM).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for spec in specs:
        if spec.pip is None:
            continue
        program = pip_shim(text, f"the module {spec.entry}", own_packages(spec), spec.pip.folder)
        found |= {f"{FOLDER}/{spec.entry}/{name}": program for name in _names(spec.pip.minor)}
    return found


def _names(minor: str) -> tuple[str, ...]:
    """Return the names of pip's programs; without a versioned one if the install does not give a minor version."""
    return ("pip", "pip3", *([f"pip{minor}"] if re.fullmatch(r"3\.[0-9]+t?", minor) else []))


def pip_shim(text: str, subject: str, lines: str, folder: str) -> str:
    """Return a program that refuses some of pip's actions.

    `subject` is what it protects from pip, `lines` are the alternatives, and `folder` has the pip that does the rest.
    """
    body = "".join(dropwhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    return "#!/bin/sh\n# Written by envmgr. Do not edit.\n" + assign(subject=subject, lines=lines, folder=folder) + body


def own_packages(spec: ModuleSpec) -> str:
    """Return the two lines that make a place for a user's own packages; they are the same in every shell, also csh."""
    folder = f"~/venvs/{spec.name}-{spec.version}"
    return (
        "For Python packages of your own, while this module is loaded:\n"
        f"  python -m venv --system-site-packages {folder}\n"
        f"  {folder}/bin/python -m pip install PACKAGE"
    )
