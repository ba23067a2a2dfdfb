"""As `audits`, while two processes use all the time that they get: a healthy cluster is never accused, however slow it is."""

from __future__ import annotations

from collections.abc import Iterator

from tests.helpers.busy_machine import busy_loops
from tests.soak.campaigns import audits

ROUNDS = audits.ROUNDS
LOOPS = 2


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with busy_loops(LOOPS):
        yield from audits.play(seed, first, last)
