"""The page on this host's loopback, for one person or behind a proxy: each answer is a whole file of one generation."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from envmgr.errors import EnvmgrError
from envmgr.page import FEED, INDEX

LOOPBACK = "127.0.0.1"
_KINDS = {FEED: "application/atom+xml"}

Find = Callable[[str], bytes | None]
"""Returns the file of this name, below the page; None if there is none. Raises EnvmgrError."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing: a request is no news."""


def make_page_server(find: Find, port: int) -> WSGIServer:
    """Return a server that answers by `find` once it runs; `port` 0 takes a free one. Raises EnvmgrError `port-taken`."""

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        name = environ["PATH_INFO"].lstrip("/") or INDEX
        status, content = _answer(find, name, environ.get("HTTP_HOST", ""))
        kind = (_KINDS.get(name) or mimetypes.guess_type(name)[0]) if status == HTTPStatus.OK else None
        headers = {
            "Content-Type": f"{kind or 'text/plain'}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Cache-Control": "no-cache",
            "X-Content-Type-Options": "nosniff",
        }
        start(f"{status.value} {status.phrase}", [*headers.items()])
        return [content if environ["REQUEST_METHOD"] == "GET" else b""]

    try:
        return make_server(LOOPBACK, port, answer, _Server, _Quiet)
    except OSError as error:
        raise EnvmgrError(
            "port-taken", f"port {port} cannot be used", context=str(error), hint="name another one by `--port`"
        ) from None


def _answer(find: Find, name: str, host: str) -> tuple[HTTPStatus, bytes]:
    # A page of another name that leads here by its DNS must not read this one.
    if host.partition(":")[0] not in (LOOPBACK, "localhost"):
        return HTTPStatus.MISDIRECTED_REQUEST, b"this is only for the loopback\n"
    try:
        content = find(name)
    except EnvmgrError as error:
        return HTTPStatus.SERVICE_UNAVAILABLE, f"{error.message}\n".encode()
    return (HTTPStatus.NOT_FOUND, b"the page has no such file\n") if content is None else (HTTPStatus.OK, content)
