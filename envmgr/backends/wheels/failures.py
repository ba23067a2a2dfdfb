"""What went wrong in the worker that installs, in the house form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envmgr.errors import EnvmgrError
from envmgr.wheels import failures


def failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError:
    if event["kind"] == "NoPython":
        return EnvmgrError(
            "base-without-python",
            str(event["message"]),
            hint="is the entry that `python:` names whole? `envmgr verify` tells",
        )
    return failures.failure(event, request)
