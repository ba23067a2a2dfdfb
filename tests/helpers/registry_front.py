"""A server in front of a real registry, which asks for a token, sends to another host, or stops in the middle of a layer."""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.helpers.registry import Registry

_TOKEN = "the-token"
USER, PASSWORD = "alice", "secret"


class Front:
    """`host` is its name in references. `ways` are of `token`, `redirect`, `stall`; `seen` are the paths that were asked for."""

    def __init__(self, behind: str, ways: set[str]) -> None:
        self.behind, self.ways, self.seen = behind, ways, list[str]()
        self.over = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.host = f"127.0.0.1:{self.server.server_address[1]}"

    def _handler(front) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                front.seen.append(self.path)
                if self.path.startswith("/token"):
                    wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                    right = self.headers.get("Authorization") == wanted
                    self._answer(200 if right else 401, json.dumps({"token": _TOKEN} if right else {}).encode())
                elif "token" in front.ways and self.headers.get("Authorization") != f"Bearer {_TOKEN}":
                    asks = f'Bearer realm="http://{front.host}/token",service="lab"'
                    self._answer(401, b"{}", {"WWW-Authenticate": asks})
                elif "redirect" in front.ways and "/blobs/" in self.path:
                    self._answer(
                        307, b"", {"Location": f"http://{front.behind.replace('127.0.0.1', 'localhost')}{self.path}"}
                    )
                else:
                    self._forward()

            do_HEAD = do_GET  # noqa: N815 - the name is the base class's

            def _forward(self) -> None:
                asked = urllib.request.Request(f"http://{front.behind}{self.path}", method=self.command)
                asked.add_header("Accept", self.headers.get("Accept", "*/*"))
                try:
                    with urllib.request.urlopen(asked) as answer:
                        self._answer(answer.status, answer.read(), dict(answer.headers.items()))
                except urllib.error.HTTPError as error:
                    self._answer(error.code, error.read())

            def _answer(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
                self.send_response(code)
                for name, value in (headers or {}).items():
                    if name.lower() not in ("content-length", "connection", "date"):
                        self.send_header(name, value)
                own = (headers or {}).get("Content-Length", str(len(body)))
                self.send_header("Content-Length", own)
                self.end_headers()
                if self.command == "HEAD":
                    return
                if "stall" in front.ways and "/blobs/" in self.path and len(body) > 10_000:
                    self.wfile.write(body[: len(body) // 2])
                    front.over.wait()
                    return
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
                pass

        return Handler


@contextmanager
def front(registry: Registry, *ways: str) -> Iterator[Front]:
    """Serve a front of the registry, which its registries.conf lets be asked without TLS."""
    made = Front(registry.host, {*ways})
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    rows = "".join(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n' for host in (registry.host, made.host))
    registry.conf.write_text(rows)
    try:
        yield made
    finally:
        made.over.set()
        made.server.shutdown()
        made.server.server_close()
        thread.join()


def write_login(path: Path, host: str, user: str = USER, password: str = PASSWORD) -> None:
    """Write a file of credentials as `skopeo login` does."""
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    path.write_text(json.dumps({"auths": {host: {"auth": auth}}}))
