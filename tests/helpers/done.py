"""A finished `envmgr`, as tests look at it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Done:
    """A finished command line."""

    code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> dict[str, Any]:
        """Its JSON."""
        result: dict[str, Any] = json.loads(self.stdout)
        return result
