"""Open MPI from real source beside MPICH: to jobs of two ranks under mpirun and srun."""

from __future__ import annotations

from collections.abc import Iterator

from tests.soak.suite import run_pytest

ROUNDS = 1


def play(seed: int, first: int, last: int) -> Iterator[str]:
    for _ in range(first, last + 1):
        yield run_pytest("-m", "soak", "tests/easybuild")
