"""The limits of a solve: a time without progress, and a size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WORKER = """
import sys, time
from pathlib import Path
from envmgr.backends.conda import solve_worker
cache, size, timeout = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
solve_worker.MOST_READ = 1 << 20
solve_worker.bound_solve(cache, timeout)
(cache / "repodata.json").write_bytes(bytes(size))
time.sleep(60)
"""


def ended(cache: Path, size: int, timeout: float) -> dict[str, Any]:
    argv = [sys.executable, "-c", WORKER, str(cache), str(size), str(timeout)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_repodata_without_end_ends_the_worker(tmp_path: Path) -> None:
    assert ended(tmp_path, (1 << 20) + 1, 40) == {
        "event": "error",
        "kind": "Endless",
        "message": "1.0 MB of repodata came",
    }


@pytest.mark.parametrize("size", [0, 100])
def test_solve_that_goes_on_with_nothing_ends(tmp_path: Path, size: int) -> None:
    found = ended(tmp_path, size, 1)
    assert found == {"event": "error", "kind": "Stalled", "message": f"{size} B in 1 s"}
