"""pyproject.toml: what a project asks for. Source: packaging.python.org, "pyproject.toml specification"."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from envmgr.exchange import Dropped, Parsed, ReadFile
from envmgr.exchange.checks import row_of

NAME = re.compile(r"pyproject\.toml")
CONTENT = re.compile(r"^\[(project|build-system|tool\.[^\]\n]+)\]", re.MULTILINE)
_READ = ("name", "version", "description", "dependencies", "requires-python")
# Fields of `project` that say nothing of what is installed.
_WORDS = ("readme", "license", "license-files", "authors", "maintainers", "keywords", "classifiers", "urls")
_ALSO = {
    "poetry": "Poetry's own table: `project.dependencies` is what all tools read",
    "pixi": "pixi's own table: import its pixi.lock",
    "conda-lock": "conda-lock's own table: import its conda-lock.yml",
    "uv": "uv's own table: import uv.lock, which has what follows from it",
}


def read(given: ReadFile) -> Parsed:
    """Return the dependencies. Raise InputError `import-invalid`."""
    data = tomllib.loads(given.text)
    project = data.get("project")
    rows = project.get("dependencies") if isinstance(project, dict) else None
    if not isinstance(project, dict) or not isinstance(rows, list):
        raise given.invalid("it has no list `project.dependencies`", "import the lock that belongs to it")
    found = [row_of(given, row) for row in rows]
    return Parsed(
        left=(*(row for row in found if isinstance(row, Dropped)), *_others(given, data, project)),
        name=str(project.get("name", "")),
        version=str(project.get("version", "")),
        description=str(project.get("description", "")),
        python=str(project.get("requires-python", "")),
        rows=tuple(row for row in found if isinstance(row, str)),
    )


def _others(given: ReadFile, data: Mapping[str, Any], project: Mapping[str, Any]) -> Iterator[Dropped]:
    for key in (key for key in project if key not in (*_READ, *_WORDS)):
        yield given.left(key, "it is not of the recipe's input")
    if "dependency-groups" in data:
        yield given.left("dependency-groups", "only `project.dependencies` are carried over")
    for tool in _ALSO.keys() & {*data.get("tool", ())}:
        yield given.left(f"tool.{tool}", _ALSO[tool])
    yield Dropped(0, "the project itself", "a wheel of it, in an index of the site, can be a requirement")
