"""The page on this host's loopback, for one person or behind a proxy: each answer is a whole file of one generation."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.errors import EnvmgrError
from envmgr.page import INDEX

LOOPBACK = "127.0.0.1"
_NAMES = {LOOPBACK, "localhost"}

Find = Callable[[str], bytes | None]
"""Returns the file of this name, below the page; None if there is none. Raises EnvmgrError."""


@contextmanager
def serving(find: Find, port: int) -> Iterator[ThreadingHTTPServer]:
    """Yield a server that answers by `find` once it runs; `port` 0 takes a free one. Raises EnvmgrError `port-taken`."""

    class Handler(_Handler):
        pass

    Handler.find = staticmethod(find)
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    except (OSError, OverflowError) as error:
        raise EnvmgrError(
            "port-taken", f"port {port} cannot be used", context=str(error), hint="name another one by `--port`"
        ) from None
    with server:
        yield server


class _Handler(BaseHTTPRequestHandler):
    find: Find
    server_version, sys_version = "envmgr", ""

    def do_GET(self) -> None:  # the name is http.server's
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        # A page of another name that leads here by its DNS must not read this one.
        if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in _NAMES:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        name = unquote(urlsplit(self.path).path).lstrip("/") or INDEX
        try:
            content = self.find(name)
        except EnvmgrError as error:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain=error.message)
            return
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        kind = "application/atom+xml" if name == "feed.xml" else mimetypes.guess_type(name)[0]
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind or 'text/plain'}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing: a request is no news."""
