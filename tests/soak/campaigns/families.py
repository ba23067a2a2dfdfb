"""Random entries with dependencies and families in real Lmod: never two of a family loaded, and every load comes to an end."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.helpers import family_graphs

ROUNDS = 500


def play(seed: int, first: int, last: int) -> Iterator[str]:
    for number in range(first, last + 1):
        rng = random.Random(f"{seed} {number}")
        entries = family_graphs.random_entries(rng, rng.randint(3, 8))
        session = family_graphs.random_session(rng, entries, 12)
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            steps = family_graphs.play(Path(folder), entries, session)
        assert list(family_graphs.faults(entries, steps)) == []
        yield f"{len(entries)} entries, {len(steps)} commands"
