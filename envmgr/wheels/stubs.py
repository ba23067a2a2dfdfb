"""Wheels that stand for what is there already, or will be built: uv resolves around them, and nothing of them is ever installed."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

from envmgr.wheels.foreign import Metadata

_DATE = (1980, 1, 1, 0, 0, 0)


def write_stubs(present: Iterable[Metadata], folder: Path) -> list[str]:
    """Into a new folder, which every user can read, a wheel of each. In uv's words; none for none."""
    found = [*present]
    if not found:
        return []
    folder.mkdir()
    folder.chmod(0o755)
    for each in found:
        stem = f"{each.name.replace('-', '_')}-{each.version}"
        files = {
            "METADATA": each.text,
            "WHEEL": "Wheel-Version: 1.0\nGenerator: envmgr\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }
        place = folder / f"{stem}-py3-none-any.whl"
        with zipfile.ZipFile(place, "w") as wheel:
            for file, text in files.items():
                wheel.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{file}", _DATE), text)
        place.chmod(0o644)
    return ["--find-links", str(folder)]
