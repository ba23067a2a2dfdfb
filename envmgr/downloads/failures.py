"""Errors for files that could not be brought into a cache: of the disk, or of every place that was tried."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from envmgr.errors import EnvmgrError
from envmgr.wording import and_more

_FREE = "free some space (`envmgr gc` removes old generations and unused installs), then run the same command again"
_NAMED = 3  # files that failed as the first did, and are named


def disk_failure(event: Mapping[str, Any], request: Mapping[str, Any]) -> EnvmgrError | None:
    """Return the disk's error; None if an `error` event has another cause."""
    message = str(event["message"])
    lines = [line.removeprefix("Caused by: ").rstrip() for line in message.splitlines() if line.strip()]
    if event["kind"] == "TooLarge":
        return EnvmgrError("disk-full", message, context=str(request["cache"]), hint=_FREE)
    # `os error 28` is how Rust, and so rattler, prints ENOSPC; 122 is EDQUOT.
    if re.search(r"No space left|quota exceeded|os error (?:28|122)\b", message):
        # Requests that only download have no staging folder.
        where = request.get("staging", request["cache"])
        return EnvmgrError("disk-full", f"no space left under {where}", context=lines[:2], hint=_FREE)
    if "Permission denied" in message:
        return EnvmgrError(
            "not-writable", "a file cannot be written", context=lines, hint="run as the site's build user"
        )
    return None


def download_failure(event: Mapping[str, Any], words: Mapping[str, tuple[str, str]], *, again: str) -> EnvmgrError:
    """Return the error for a failed download, with every place that was tried and its reason.

    The headline is the fault that is easiest to fix. `words` maps the kind of that fault to the error's reference and
    hint; `again` is the hint for other kinds.
    """
    first, *others = sorted(event["failed"], key=lambda lost: str(lost["name"]))
    reasons = [(str(url), str(kind), str(text)) for url, kind, text in first["reasons"]]
    url, kind, _ = max(reasons, key=_weight)
    reference, hint = words.get(kind, ("download-failed", again))
    name = url.rpartition("/")[2]
    message = f"{name}: what arrived is not what the lock names" if kind == "sha256" else f"cannot fetch {url}"
    context = [f"{place}: {text}" for place, _, text in reasons]
    # One mirror that is down fails every file in the same way: its reasons are printed once.
    alike = [other for other in others if _in_short(other["reasons"]) == _in_short(first["reasons"])]
    for other in others:
        if other not in alike:
            context.append(f"{other['name']} cannot be had either:")
            context += [f"  {url}: {text}" for url, _, text in other["reasons"]]
    if alike:
        names = and_more([str(other["name"]) for other in alike], _NAMED)
        context.append(f"{names} cannot be had either, for the same reason")
    return EnvmgrError(reference, message, context=context, hint=hint)


def _in_short(reasons: Sequence[Sequence[str]]) -> list[tuple[str, str, str]]:
    """Return what two files that failed alike have in common: of each place the host, the kind of fault and its
    text.
    """
    return [(urlsplit(url).netloc, kind, text) for url, kind, text in reasons]


def _weight(reason: tuple[str, str, str]) -> int:
    """Return how important a reason is: wrong content first, then a mirror's own fault; a folder without the file, or
    no network, is usual.
    """
    url, kind, _ = reason
    if kind == "sha256":
        return 3
    if kind == "unreachable":
        return 1
    return 0 if url.startswith("file://") else 2
