"""All tests but the slow ones in an order of chance: files among each other, and the tests of each file."""

from __future__ import annotations

from collections.abc import Iterator

from tests.soak.suite import PARALLEL, run_pytest

ROUNDS = 1


def play(seed: int, first: int, last: int) -> Iterator[str]:
    for number in range(first, last + 1):
        yield run_pytest(*PARALLEL, "-m", "not slow", "-p", "tests.soak.shuffled", ENVMGR_TEST_ORDER=f"{seed}/{number}")
