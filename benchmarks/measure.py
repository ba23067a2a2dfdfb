"""Two sides in turn, in one run: what is printed is the median of the pairs' ratios, and both sides' medians.

Wall clock and, where a side is processes of its own, their CPU time: neighbours on the machine slow the clock of one run and
not of the next, CPU time they hardly touch. A bound is kept by both, so it is one that a busy machine keeps, too.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of one run: wall clock, and CPU time of its processes, None where they are not only its own."""

    wall: float
    cpu: float | None = None

    def __sub__(self, other: Took) -> Took:
        cpu = None if self.cpu is None or other.cpu is None else self.cpu - other.cpu
        return Took(self.wall - other.wall, cpu)


def took(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Took:
    """A whole process, with all that it starts; its output is shown when it fails."""
    before = _cpu()
    start = time.perf_counter()
    done = subprocess.run([str(a) for a in argv], env=env, cwd=cwd, capture_output=True, text=True, check=False)
    found = Took(time.perf_counter() - start, _cpu() - before)
    if done.returncode:
        sys.exit(f"{argv} failed:\n{done.stdout}{done.stderr}")
    return found


def cpu_only(one: Took) -> Took:
    """The same for a claim on CPU time alone."""
    return Took(one.cpu or one.wall, one.cpu)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


Pairs = Sequence[tuple[Took, Took]]


def alternate(ours: Callable[[], Took], theirs: Callable[[], Took], runs: int) -> Pairs:
    """Both sides, run A B A B …, so that a machine that slows down slows both."""
    return [(ours(), theirs()) for _ in range(runs)]


class Claim(ABC):
    """What the project promises, and whether it was so in this run."""

    name: str
    holds: bool
    note: str = ""

    def line(self) -> str:
        note = f"  ({self.note})" if self.note else ""
        return f"{'ok  ' if self.holds else 'OVER'} {self.name}: {self.said()}{note}"

    @abstractmethod
    def said(self) -> str:
        """The figures."""


class Ratio(Claim):
    """At most `limit` times the other side, by the clock and by CPU time, as medians of the pairs.

    A `goal` is what is not reached yet, and is told as long as it is missed.
    """

    def __init__(self, name: str, pairs: Pairs, limit: float, *, goal: float | None = None, note: str = "") -> None:
        self.name, self.note, self._pairs, self._limit, self._goal = name, note, pairs, limit, goal
        self._wall = statistics.median(ours.wall / theirs.wall for ours, theirs in pairs)
        known = [(ours.cpu, theirs.cpu) for ours, theirs in pairs if ours.cpu is not None and theirs.cpu is not None]
        self._cpu = statistics.median(ours / theirs for ours, theirs in known) if known else None
        self.holds = self._wall <= limit and (self._cpu is None or self._cpu <= limit)

    def said(self) -> str:
        ours, theirs = ([pair[side].wall for pair in self._pairs] for side in (0, 1))
        text = _times(ours, theirs, self._wall, self._limit)
        if self._cpu is not None:
            ours, theirs = ([pair[side].cpu or 0.0 for pair in self._pairs] for side in (0, 1))
            text += f"; CPU {_times(ours, theirs, self._cpu, self._limit)}"
        missed = self._goal is not None and self._wall > self._goal
        return f"{text}; goal {self._goal:g}x missed" if missed else text


def _times(ours: Sequence[float], theirs: Sequence[float], ratio: float, limit: float) -> str:
    return f"{statistics.median(ours):.3f} s / {statistics.median(theirs):.3f} s = {ratio:.4g}x, at most {limit:.3g}x"


class Amount(Claim):
    """At most `limit` of a unit, seconds, kB or MB; `goal` as for a ratio."""

    def __init__(self, name: str, amount: float, limit: float, unit: str = "s", *, goal: float | None = None) -> None:
        self.name, self._amount, self._limit, self._unit, self._goal = name, amount, limit, unit, goal
        self.holds = amount <= limit

    def said(self) -> str:
        text = f"{self._amount:.{3 if self._unit == 's' else 0}f} {self._unit}, at most {self._limit:g} {self._unit}"
        missed = self._goal is not None and self._amount > self._goal
        return f"{text}; goal {self._goal:g} {self._unit} missed" if missed else text


class Shown(Claim):
    """Figures that are no claim."""

    holds = True

    def __init__(self, name: str, figures: str) -> None:
        self.name, self._figures = name, figures

    def line(self) -> str:
        return f"     {self.name}: {self.said()}"

    def said(self) -> str:
        return self._figures


class NotMeasured(Claim):
    """`note` says why; it neither holds nor fails."""

    holds = True

    def __init__(self, name: str, why: str) -> None:
        self.name, self.note = name, why

    def line(self) -> str:
        return f"--   {self.name}: {self.said()}: {self.note}"

    def said(self) -> str:
        return "not measured"
