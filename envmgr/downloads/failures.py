"""What went wrong with this machine's own disk in a worker, in the house form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envmgr.errors import EnvmgrError

_FREE = "free some space (`envmgr gc` removes old generations and unused installs), then run the same command again"


def disk_failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError | None:
    """The error, or None where an `error` event is about something else."""
    message = str(event["message"])
    lines = [line.removeprefix("Caused by: ").rstrip() for line in message.splitlines() if line.strip()]
    if event["kind"] == "TooLarge":
        return EnvmgrError("disk-full", message, context=str(request["cache"]), hint=_FREE)
    if "No space left" in message or "os error 28" in message:
        where = request.get("staging", request["cache"])
        return EnvmgrError("disk-full", f"no space left under {where}", context=lines[:2], hint=_FREE)
    if "Permission denied" in message:
        return EnvmgrError(
            "not-writable", "a file cannot be written", context=lines, hint="run as the site's build user"
        )
    return None
