"""Two sides in turn, in one run: what is printed is the ratio of their medians, and both of them."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Claim:
    """`ours` and `theirs` are median seconds. `limit` is the largest ratio (or, without `theirs`, seconds) that the project promises."""

    name: str
    ours: float
    theirs: float | None
    limit: float
    note: str = ""

    @property
    def holds(self) -> bool:
        return (self.ours / self.theirs if self.theirs else self.ours) <= self.limit

    def line(self) -> str:
        mark = "ok  " if self.holds else "OVER"
        note = f"  ({self.note})" if self.note else ""
        if self.theirs is None:
            return f"{mark} {self.name}: {self.ours:.3f} s, at most {self.limit:g} s{note}"
        ratio = self.ours / self.theirs
        return (
            f"{mark} {self.name}: {self.ours:.3f} s / {self.theirs:.3f} s = {ratio:.2f}x, at most {self.limit:g}x{note}"
        )


def alternate(ours: Callable[[], float], theirs: Callable[[], float], runs: int) -> tuple[float, float]:
    """Median seconds of both sides, run A B A B … so that a machine that slows down slows both."""
    a, b = [], []
    for _ in range(runs):
        a.append(ours())
        b.append(theirs())
    return statistics.median(a), statistics.median(b)


def seconds(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> float:
    """Wall-clock seconds of a whole process; its output is shown when it fails."""
    start = time.perf_counter()
    done = subprocess.run([str(a) for a in argv], env=env, cwd=cwd, capture_output=True, text=True, check=False)
    took = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{argv} failed:\n{done.stdout}{done.stderr}")
    return took
