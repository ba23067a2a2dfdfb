"""All tests but the slow ones while two processes use all the time that they get."""

from __future__ import annotations

from collections.abc import Iterator

from tests.helpers.busy_machine import busy_loops
from tests.soak.suite import PARALLEL, run_pytest

ROUNDS = 1
LOOPS = 2


def play(seed: int, first: int, last: int) -> Iterator[str]:
    for _ in range(first, last + 1):
        with busy_loops(LOOPS):
            yield run_pytest(*PARALLEL)
