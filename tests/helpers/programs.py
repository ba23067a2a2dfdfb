"""Programs of this machine that a test runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.waiting import DEADLINE


def program(*names: str) -> str:
    """The first of `names` that is here; else the test is skipped."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    pytest.skip(f"needs {names[0]}; `make test` as root installs it")


def run(*argv: str | Path, stdin: str = "", cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, argv)),
        input=stdin,
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
