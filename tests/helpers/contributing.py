"""The examples of CONTRIBUTING.md, put into a copy of the project: what the page says is what works."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.helpers.places import ROOT

_PARTS = ("envmgr", "modulefiles", "recipes", "easyconfigs", "nodesetup")
_BLOCK = re.compile(r"^```(?:python|sh|yaml)\n# (envmgr/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> dict[str, str]:
    """path -> text, of each block of the page that begins with its path."""
    return dict(_BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8")))


def copy_with(folder: Path, *beginnings: str) -> list[str]:
    """A copy of the package in `folder`, with the examples whose paths begin so, and nothing else changed; these paths."""
    for name in _PARTS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    added = {path: text for path, text in examples().items() if path.startswith(beginnings)}
    for path, text in added.items():
        assert not (folder / path).exists()
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return sorted(added)
