"""A finished `envmgr`, as tests look at it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.helpers.printed_json import faults


@dataclass(frozen=True)
class Done:
    """A finished command line."""

    code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> dict[str, Any]:
        """Its JSON, which is as its schema says. Of an audit, `causes` are its findings, and `findings` these with all that follows from them, one by one."""
        result: dict[str, Any] = json.loads(self.stdout)
        assert not (wrong := faults(result)), wrong
        if str(result.get("schema", "")).startswith("envmgr.audit/"):
            result["causes"] = result["findings"]
            result["findings"] = [
                each for cause in result["causes"] for each in (_alone(cause), *cause["consequences"])
            ]
        return result


def _alone(cause: dict[str, Any]) -> dict[str, Any]:
    """A finding as it is among the consequences of another one."""
    return {key: value for key, value in cause.items() if key not in ("cause", "since", "consequences")}
