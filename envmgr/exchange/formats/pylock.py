"""pylock.toml: the exact files of a Python package index, by `packaging`'s own reader."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from packaging.pylock import Pylock

from envmgr.exchange import Dropped, ExactPackages, Parsed, ReadFile
from envmgr.exchange.pylocks import rows_of

NAME = re.compile(r"pylock(\.[^/]+)?\.toml")
CONTENT = re.compile(r"\A(?:(?!\[).*\n)*?lock-version\s*=")  # before any table: Poetry's own lock has it in one


def read(given: ReadFile) -> Parsed:
    """Return its packages. Raise InputError `import-invalid`."""
    lock = Pylock.from_dict(tomllib.loads(given.text))
    rows, left = rows_of(given, lock)
    return Parsed(left=tuple(left), rows=rows, pylock=lock, python=str(lock.requires_python or ""))


def write(exact: ExactPackages) -> tuple[str, list[Dropped]]:
    """Return a file for exactly the entry's Python."""
    import tomlkit

    left = exact.only_wheels()
    packages, files = [], exact.files()
    for each in exact.wheels:
        own = files[each.sha256]
        file: dict[str, Any] = {"name": own.file, "url": own.url, "hashes": {"sha256": each.sha256}}
        if own.size is not None:
            file["size"] = own.size
        kind = {"wheels": [file]} if own.file.endswith(".whl") else {"sdist": file}
        packages.append({"name": each.name, "version": each.version, **kind})
    minor = ".".join(exact.python.split(".")[:2])
    head = {"lock-version": "1.0", "created-by": "envmgr", "requires-python": f"=={minor}.*"}
    content = {**head, "packages": packages}
    Pylock.from_dict(content)  # other tools read it the same way
    return tomlkit.dumps(content), left
