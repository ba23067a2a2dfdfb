"""All tests but the slow ones while two processes use all the time that they get."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from tests.soak.suite import PARALLEL, run_pytest

ROUNDS = 1
LOOPS = 2


def play(seed: int, first: int, last: int) -> Iterator[str]:
    for _ in range(first, last + 1):
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]
        try:
            yield run_pytest(*PARALLEL)
        finally:
            for process in loops:
                process.kill()
                process.wait()
