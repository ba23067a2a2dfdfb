"""Waiting for something to come true.

No test depends on how fast something is: it waits for a condition, for longer than the slowest machine needs, and what has to
hang in a test hangs for much longer still (`HANGS`). A test that needs this long has failed; one that is well waits for milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE = 120.0
"""Seconds after which what was waited for will not come any more."""
HANGS = 1200
"""Seconds that hanging things sleep in tests: a test that ended did not wait for them."""


PATIENT = ("--node-timeout", "600", "--deadline", "900")
"""Options of an audit that cuts no sample on a busy machine. With these a node waits for eight minutes for a shell that does not
end: longer than a test waits for the audit."""


def soon(condition: Callable[[], object], seconds: float = DEADLINE) -> bool:
    """Whether the condition comes true before the deadline."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def wait_for(condition: Callable[[], object], *, what: str, seconds: float = DEADLINE) -> None:
    """Wait until the condition is true; the test fails where it does not become true."""
    if not soon(condition, seconds):
        raise AssertionError(f"waited {seconds:.0f} s for {what}")


def long_enough(attempt: Callable[[float], T], seen: Callable[[T], object], *, first: float = 0.5) -> T:
    """What `attempt(limit)` gives, for the first limit (seconds) that was long enough for what must have begun within it.

    For limits of the product: one that is over before a slow machine has started anything shows nothing.
    """
    limit = first
    while limit <= DEADLINE:
        if seen(found := attempt(limit)):
            return found
        limit *= 4
    raise AssertionError(f"not even within {limit / 4:.0f} s: {found}")
