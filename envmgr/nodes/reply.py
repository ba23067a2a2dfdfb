"""What one node said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["answered", "silent", "unreachable"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What one node said to a script; every node that was asked has exactly one.

    `answered`: `text` is the script's whole output, and `reason` is empty, or says that the script ended with another
    status than 0. `silent`: the node was reached, and no whole answer came (out of time, half of it, too long, something
    else). `unreachable`: no connection, no step. `reason` is one line that says why.
    `began` and `ended` are the controller's clock, seconds since the epoch; between them the node answered.
    """

    node: str
    status: Status
    text: str
    reason: str
    began: float
    ended: float
