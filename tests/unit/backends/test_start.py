"""What runs in a process of its own, for each install or lock, starts without what the rest of envmgr imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pydantic", "yaml", "rattler", "aiohttp", "ClusterShell", "rich", "typer")


@pytest.mark.parametrize(
    "module",
    ["envmgr.backends.conda.install_worker", "envmgr.backends.conda.solve_worker", "envmgr.wheels.install_worker"],
)
def test_a_worker_starts_with_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_the_rest_imports_what_is_heavy_so_that_the_check_can_fail() -> None:
    code = f"import sys, envmgr.backends.conda.backend\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pydantic" in said.split()
