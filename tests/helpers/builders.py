"""What builds wheels: real build backends, fetched once, and sources that they build."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.standin.wheels import Pin, fetch_wheels, find_wheel

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "wheels"
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
EXTENSION = """\
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *args) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_fast", "", -1, methods};
PyMODINIT_FUNC PyInit__fast(void) { return PyModule_Create(&module); }
"""


def builders() -> list[Path]:
    """Wheels of `BUILDERS`."""
    fetch_wheels(BUILDERS, CACHE)
    return [path for pin in BUILDERS if (path := find_wheel(pin, CACHE))]


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
    return {"setup.py": setup, f"{name}/__init__.py": f"from {name}._fast import answer\n", f"{name}/fast.c": extension}
