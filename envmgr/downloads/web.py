"""Answers of servers, within bounds: a page in memory, a transfer in pieces. By Python's own client: only http(s), also
after a redirect, and bytes as they come, which nothing unpacks.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit

from envmgr.errors import EnvmgrError
from envmgr.system.untrusted_files import ANYWHERE, Kind, read_bytes

STALL = 10.0  # seconds without a byte
_LONGEST = 60.0  # seconds for a page
_PIECE = 1 << 16  # bytes
Headers = Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `kind` is the content type in lower case, without parameters; empty for a file."""

    kind: str
    content: bytes


def open_url(
    url: str, *, method: str = "GET", headers: Headers = None, secrets: Headers = None, stall: float = STALL
) -> HTTPResponse:
    """Open a URL. `secrets` are headers that do not go on to the target of a redirect. OSError, HTTPException;
    ValueError for another scheme.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"only http(s) is asked: {url}")
    request = urllib.request.Request(url, method=method, headers=dict(headers or {}))  # noqa: S310 - seen above
    for key, value in (secrets or {}).items():
        # `urllib` copies ordinary headers to the target of a redirect, which would then get the password.
        request.add_unredirected_header(key, value)
    opener = urllib.request.OpenerDirector()  # `build_opener` would add ftp:, file: and data:
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    try:
        answer: HTTPResponse = opener.open(request, timeout=stall)
    except HTTPError as error:
        error.close()  # its connection
        raise
    return answer


def read_page(
    url: str, *, most: int, headers: Headers = None, secrets: Headers = None, longest: float = _LONGEST
) -> Page:
    """Read http(s):// or file://, up to `most` bytes, in at most `longest` seconds from the first lookup of its host.

    Raises:
        OSError (TimeoutError), HTTPException; ValueError for a larger answer, and for another scheme.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        try:
            return Page("", read_bytes(Path(unquote(parts.path)), Kind("page", most), tree=ANYWHERE))
        except EnvmgrError as error:
            raise ValueError(error.message) from None
    ends = time.monotonic() + longest
    found: list[Page | Exception] = []

    def read() -> None:
        try:
            found.append(_read(url, most, headers, secrets, ends))
        except Exception as error:  # noqa: BLE001 - it is raised below
            found.append(error)

    # A server that drips its headers keeps Python's client for ever: nobody waits for that thread, and no exit does.
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(longest)
    outcome = found[0] if found else TimeoutError(f"{url} took more than {longest:.0f} s")
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _read(url: str, most: int, headers: Headers, secrets: Headers, ends: float) -> Page:
    content = bytearray()
    with open_url(url, headers=headers, secrets=secrets) as answer:
        # `read` would wait for a whole piece, and the clock would not be checked while a server drips.
        while piece := answer.read1(_PIECE):
            content += piece
            if len(content) > most:
                raise ValueError(f"{url} is larger than {most} bytes")
            if time.monotonic() > ends:
                raise TimeoutError(f"{url} is not there in time")
        return Page(answer.headers.get_content_type(), bytes(content))
