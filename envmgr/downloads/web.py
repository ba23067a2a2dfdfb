"""Answers of servers, within bounds: a page in memory, a transfer in pieces. Only http(s), also after a redirect, and
bytes as they come, which nothing unpacks.

Connections are kept: a lock of two hundred packages asks an index four hundred times, and a name server that gets a
question for each drops some.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.error import HTTPError
from urllib.parse import unquote, urljoin, urlsplit

from envmgr.errors import EnvmgrError, Interrupted
from envmgr.system.untrusted_files import ANYWHERE, Kind, read_bytes

if TYPE_CHECKING:
    import urllib3

T = TypeVar("T")
STALL = 10.0  # seconds without a byte
_LOOK_EVERY = 0.25  # seconds between two looks whether somebody cancelled
_LONGEST = 60.0  # seconds for a page
_PIECE = 1 << 16  # bytes
_KEPT = 32  # connections to one host
_REDIRECTS = 10
Headers = Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `url` is where it is, after redirects. `kind` is the content type in lower case, without parameters;
    empty for a file.
    """

    url: str
    kind: str
    content: bytes


class HttpAnswer:
    """An answer whose body is read in pieces. One that is read whole leaves its connection to the next."""

    def __init__(self, answer: urllib3.BaseHTTPResponse, url: str, host: str) -> None:
        self.url = url
        self.status, self.reason, self.headers = answer.status, answer.reason or "", answer.headers
        self.moved_to = answer.get_redirect_location() or ""
        self._answer, self._host = answer, host

    def read1(self, most: int) -> bytes:
        """Return what is there, of at most `most` bytes; empty at the end. Raise OSError."""
        import urllib3

        try:
            return self._answer.read1(most)
        except urllib3.exceptions.HTTPError as error:
            raise _network_error(error, self._host) from error

    def hang_up(self) -> None:
        """End a read that another thread waits in."""
        with suppress(Exception):  # it may have ended meanwhile
            self._answer.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._answer.close()


def open_url(url: str, *, headers: Headers = None, secrets: Headers = None, stall: float = STALL) -> HttpAnswer:
    """Open a URL, by a kept connection if there is one. `secrets` are headers that do not go on to another host.

    Raises:
        OSError (HTTPError for a status of 300 and more); ValueError for another scheme, also after a redirect.
    """
    at, all_headers = url, {**(headers or {}), **(secrets or {})}
    for _ in range(1 + _REDIRECTS):
        answer = _ask(at, all_headers, stall)
        if answer.status < 300:
            return answer
        with suppress(OSError), answer:
            answer.read1(_PIECE)  # what is there: a short page is read whole by that, and leaves its connection
        if not answer.moved_to:
            reason = f"a redirect to nowhere ({answer.reason})" if answer.status < 400 else answer.reason
            raise HTTPError(url, answer.status, reason, Message(), None)
        there = urljoin(at, answer.moved_to)
        if (new := urlsplit(there)).netloc != (old := urlsplit(at)).netloc or new.scheme != old.scheme:
            all_headers = dict(headers or {})
        at = there
    raise OSError(f"{url}: more than {_REDIRECTS} redirects")


def _ask(url: str, headers: Mapping[str, str], stall: float) -> HttpAnswer:
    """Return the answer of this URL itself, also if that is a redirect."""
    from urllib.request import getproxies, proxy_bypass

    import urllib3

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"only http(s) is asked: {url}")
    host = parts.netloc.rpartition("@")[2]
    connections = _connections("" if proxy_bypass(host) else getproxies().get(parts.scheme, ""))
    bare: dict[str, Any] = {"retries": False, "redirect": False, "preload_content": False, "decode_content": False}
    try:
        try:
            answer = connections.request("GET", url, headers=headers, timeout=stall, **bare)
        except urllib3.exceptions.ProtocolError:  # a server ends a kept connection when it likes
            answer = connections.request("GET", url, headers=headers, timeout=stall, **bare)
    except urllib3.exceptions.HTTPError as error:
        raise _network_error(error, host) from error
    return HttpAnswer(answer, url, host)


def _network_error(error: urllib3.exceptions.HTTPError, host: str) -> OSError:
    """Return the error in the words of the first one, for which urllib3 has its own around it."""
    import urllib3

    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    words = str(getattr(first, "strerror", None) or first)
    if isinstance(error, urllib3.exceptions.TimeoutError) and not isinstance(
        error, urllib3.exceptions.NewConnectionError
    ):
        return TimeoutError(f"{host}: {words}")
    return HostError(host, words, was_connected=isinstance(error, urllib3.exceptions.ProtocolError))


class HostError(OSError):
    """A host that could not be reached, or that ended the connection, in the system's words."""

    def __init__(self, host: str, words: str, *, was_connected: bool) -> None:
        super().__init__(f"{host}: {words}")
        self.words = words
        self.was_connected = was_connected


@cache
def _connections(proxy: str) -> urllib3.PoolManager:
    """Return the connections of this process, direct or by a proxy."""
    import urllib3

    if not proxy:
        return urllib3.PoolManager(maxsize=_KEPT)
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    head = {"Proxy-Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
    return urllib3.ProxyManager(parts.geturl(), maxsize=_KEPT, proxy_headers=head)


def read_page(
    url: str, *, most: int, headers: Headers = None, secrets: Headers = None, longest: float = _LONGEST
) -> Page:
    """Read http(s):// or file://, up to `most` bytes, in at most `longest` seconds from the first lookup of its host.

    Raises:
        OSError (TimeoutError); ValueError for a larger answer, and for another scheme.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        try:
            return Page(url, "", read_bytes(Path(unquote(parts.path)), Kind("page", most), tree=ANYWHERE))
        except EnvmgrError as error:
            raise ValueError(error.message) from None
    ends = time.monotonic() + longest
    try:
        return within(longest, lambda: _read(url, most, headers, secrets, ends))
    except LateError:
        raise TimeoutError(f"{url} took more than {longest:.0f} s") from None


class LateError(TimeoutError):
    """Work was not done in time."""


def within(seconds: float, work: Callable[[], T], over: threading.Event | None = None) -> T:
    """Return what `work` returns, or raise what it raises.

    A server that drips its headers keeps a client for ever: nobody waits for that thread, and no exit does.

    Raises:
        LateError; Interrupted once `over` is set.
    """
    outcome: list[T | Exception] = []
    ends = time.monotonic() + seconds

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # noqa: BLE001 - it is raised below
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive() and (left := ends - time.monotonic()) > 0:
        thread.join(min(left, _LOOK_EVERY))
        if over is not None and over.is_set():
            raise Interrupted
    if not outcome:
        raise LateError
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _read(url: str, most: int, headers: Headers, secrets: Headers, ends: float) -> Page:
    content = bytearray()
    with open_url(url, headers=headers, secrets=secrets) as answer:  # one that is read whole leaves its connection
        while piece := answer.read1(_PIECE):
            content += piece
            if len(content) > most:
                raise ValueError(f"{url} is larger than {most} bytes")
            if time.monotonic() > ends:
                raise TimeoutError(f"{url} is not there in time")
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return Page(answer.url, kind, bytes(content))
