"""Wheels that stand for what is there already, or will be built: uv resolves around them, and nothing of them is ever installed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

_DATE = (1980, 1, 1, 0, 0, 0)


def write_stubs(present: Mapping[str, str], folder: Path, metadata: Mapping[str, str] | None = None) -> list[str]:
    """Into a new folder a wheel of each (normalised name -> version). In uv's words; none for none.

    One that has no `metadata` (name -> text) needs nothing.
    """
    if not present:
        return []
    folder.mkdir()
    for name, version in present.items():
        stem = f"{name.replace('-', '_')}-{version}"
        files = {
            "METADATA": (metadata or {}).get(name, f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
            "WHEEL": "Wheel-Version: 1.0\nGenerator: envmgr\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            for file, text in files.items():
                wheel.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{file}", _DATE), text)
    return ["--find-links", str(folder)]
