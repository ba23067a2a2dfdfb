"""The wheel of this checkout, as a stranger would install it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE

DATA = ("modulefiles", "recipes", "easyconfigs", "nodesetup", "docs")


def pip(*argv: str | Path) -> None:
    """Without any index."""
    environ = {
        **os.environ,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INDEX": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pip", *argv], env=environ, capture_output=True, text=True, check=False, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stdout + done.stderr


def copy_source(folder: Path) -> Path:
    """What the wheel is made of: nothing is written into the checkout, nor changes under the build."""
    for name in ("envmgr", *DATA):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_x.py").write_text("")
    return folder


def build_wheel(source: Path, folder: Path) -> Path:
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.iterdir()
    return wheel
