"""An entry's own tests, through its staged module here or through the published one on nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SmokeOutcome:
    """One test's end. `detail` is the reason of a skip, or the end of a failed test's output; `seconds` is wall-clock."""

    entry: str
    test: str
    status: Literal["passed", "failed", "skipped"]
    detail: str
    seconds: float
