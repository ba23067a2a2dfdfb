"""The failures of a worker's downloads, and of this machine's own disk, in the house form."""

from __future__ import annotations

import os
import socket
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
    if "No space left" in message or "os error 28" in message:
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
    alike = [other for other in others if _in_short(other["reasons"]) == _in_short(first["reasons"])]
    for other in others:
        if other not in alike:
            context += [
                f"{other['name']} cannot be had either:",
                *(f"  {url}: {text}" for url, _, text in other["reasons"]),
            ]
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


class AttemptFailed(Exception):  # noqa: N818 - one attempt's end, not the whole download's
    """One attempt that failed. `kind` is `not-found`, `refused`, `unreachable`, `cut`, `stalled`, `sha256` or
    `server`.
    """

    def __init__(self, kind: str, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.kind = kind
        self.again = again


def wrong_sha256(found: str, sha256: str, *, again: bool = False) -> AttemptFailed:
    return AttemptFailed("sha256", f"sha256 is {found}, the lock says {sha256}", again=again)


def attempt_failed(error: Exception, place: str) -> AttemptFailed:
    """Sort what rattler says by what can be done about it."""
    text = str(error)
    if "client error (404" in text or "client error (410" in text:
        return AttemptFailed("not-found", "404 Not Found", again=False)
    if "HTTP status client error (" in text:
        return AttemptFailed("refused", text.partition("(")[2].partition(")")[0], again=False)
    if "HTTP status server error (" in text:
        return AttemptFailed("server", text.partition("(")[2].partition(")")[0], again=True)
    if "error sending request" in text:
        reason = _why_unreachable(place)
        return AttemptFailed("unreachable", reason or "the request was not answered", again=not reason)
    if "decoding response body" in text or "end of file" in text:
        return AttemptFailed("cut", "the transfer ended early", again=True)
    return AttemptFailed("server", text, again=True)


def _why_unreachable(place: str) -> str:
    """Return the system's reason why a host cannot be reached, which rattler does not report; empty if it can."""
    parts = urlsplit(place)
    if any(
        os.environ.get(name)
        for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
    ):
        return ""
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=3).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
