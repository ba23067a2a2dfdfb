"""What builds wheels: real build backends, fetched once, and sources that they build."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.places import CACHE
from tests.helpers.standin.wheels import Pin, fetch_wheels

# This setuptools asks for `wheel` when it is asked what a build needs.
BUILDERS = (Pin("flit_core", "3.12.0"), Pin("setuptools", "68.2.2"), Pin("wheel", "0.45.1"))

FLIT = """\
[build-system]
requires = ["flit_core>=3"]
build-backend = "flit_core.buildapi"

[project]
name = "{name}"
version = "{version}"
description = "for tests"
dependencies = {dependencies}
"""
# Without Python.h, which the stand-in channel's Python does not have. The compiler writes SOURCE_DATE_EPOCH for the time.
EXTENSION = """\
const char *compiled = __DATE__ " " __TIME__;
int answer(void) { return 42; }
"""
LOADER = """\
import ctypes
import pathlib

_fast = ctypes.CDLL(str(next(pathlib.Path(__file__).parent.glob("_fast*.so"))))
answer = _fast.answer
compiled = ctypes.c_char_p.in_dll(_fast, "compiled").value.decode()
"""


def builders() -> list[Path]:
    """Wheels of `BUILDERS`."""
    return fetch_wheels(BUILDERS, CACHE / "wheels")


def pure(name: str, version: str = "1.0", dependencies: tuple[str, ...] = ()) -> dict[str, str]:
    """A source of one module, built by flit."""
    return {
        "pyproject.toml": FLIT.format(name=name, version=version, dependencies=[*dependencies]),
        f"{name}.py": f'VERSION = "{version}"\n',
    }


def compiled(name: str, version: str = "1.0", *, before: str = "", extension: str = EXTENSION) -> dict[str, str]:
    """A source without pyproject.toml, with an extension in C. `before` is what its setup.py does first."""
    setup = f"""\
{before}
from setuptools import Extension, setup

setup(name="{name}", version="{version}", packages=["{name}"], ext_modules=[Extension("{name}._fast", ["{name}/fast.c"])])
"""
    return {"setup.py": setup, f"{name}/__init__.py": LOADER, f"{name}/fast.c": extension}
