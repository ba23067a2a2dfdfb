"""Why one attempt to download failed, sorted by what can be done about it. Runs inside a worker."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit


class Fault(Exception):  # noqa: N818 - one attempt's end, not the whole download's
    """One attempt that failed. `kind` is `not-found`, `refused`, `unreachable`, `cut`, `stalled`, `sha256` or `server`."""

    def __init__(self, kind: str, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.kind = kind
        self.again = again


def differs(found: str, sha256: str, *, again: bool = False) -> Fault:
    return Fault("sha256", f"sha256 is {found}, the lock says {sha256}", again=again)


def explain(error: Exception, place: str) -> Fault:
    """Sort what rattler says by what can be done about it."""
    text = str(error)
    if "client error (404" in text or "client error (410" in text:
        return Fault("not-found", "404 Not Found", again=False)
    if "HTTP status client error (" in text:
        return Fault("refused", text.partition("(")[2].partition(")")[0], again=False)
    if "HTTP status server error (" in text:
        return Fault("server", text.partition("(")[2].partition(")")[0], again=True)
    if "error sending request" in text:
        reason = _why_unreachable(place)
        return Fault("unreachable", reason or "the request was not answered", again=not reason)
    if "decoding response body" in text or "end of file" in text:
        return Fault("cut", "the transfer ended early", again=True)
    return Fault("server", text, again=True)


def _why_unreachable(place: str) -> str:
    """The system's word on why a host cannot be reached; rattler keeps it to itself. Empty when it can be."""
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
