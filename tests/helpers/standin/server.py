"""Serve a channel folder over HTTP on this machine, with faults that can be switched on per path."""

from __future__ import annotations

import contextlib
import fnmatch
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

# Source: PEP 503, PEP 691.
_KINDS = {"index.json": "application/vnd.pypi.simple.v1+json", "index.html": "text/html"}
Kind = Literal["cut", "corrupt", "404", "503-then-ok", "stall", "slow", "flood", "endless"]


@dataclass(slots=True)
class Fault:
    """What goes wrong with a GET of one path pattern.

    - `cut`: the connection closes after `at` bytes of the body;
    - `corrupt`: the byte at `at` is flipped, length and status stay right;
    - `404`: not found, for HEAD too;
    - `503-then-ok`: unavailable, `times` times (default 2), then fine;
    - `stall`: nothing more comes after `at` bytes, until `Server.release()`;
    - `slow`: `rate` bytes per second;
    - `flood`: no length is told, and after the file 300 MB of zeros follow;
    - `endless`: no length is told, and the file comes again and again, until the client hangs up.

    `at` is a byte offset, half of the body by default. `times` counts requests: later ones are served well; None means
    every request.
    """

    kind: Kind
    at: int | None = None
    rate: int = 10_000
    times: int | None = None
    hits: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.kind == "503-then-ok" and self.times is None:
            self.times = 2


@dataclass(slots=True)
class Request:
    """One request as it went: `sent` counts body bytes so far, `fault` is the fault that hit it."""

    method: str
    path: str
    status: int = 0
    sent: int = 0
    fault: str | None = None


class Server(ThreadingHTTPServer):
    """The running server; `faults` and `requests` may be read and changed while it serves.

    `faults` maps a shell pattern over the path without its first slash (`linux-64/numpy-*.conda`) to a fault; the first
    pattern that matches counts.
    """

    daemon_threads = True
    block_on_close = False  # a stalled answer must not hold up the end of a test

    def __init__(self, folder: Path, faults: Mapping[str, Fault]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder.resolve()
        self.faults = dict(faults)
        self.requests: list[Request] = []
        self.login: str | None = None  # the Authorization that pages and files ask for
        self.stalled = threading.Event()
        self._released = threading.Event()
        self._closing = threading.Event()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The channel's URL, without a slash at its end."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def release(self) -> None:
        """Let stalled answers go on, and later ones not stall."""
        self._released.set()

    def close(self) -> None:
        """Stop serving; connections that stall or trickle are cut."""
        self._closing.set()
        self._released.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that goes away in the middle is what the faults are for."""

    def _fault(self, path: str, method: str) -> Fault | None:
        """The fault for this request; counts it."""
        with self._lock:
            for pattern, fault in list(self.faults.items()):
                if fnmatch.fnmatchcase(path, pattern):
                    if method != "GET":
                        return fault if fault.kind in ("404", "flood") else None
                    if fault.times is not None and fault.hits >= fault.times:
                        return None
                    fault.hits += 1
                    return fault
        return None


@contextlib.contextmanager
def serve(folder: Path, faults: Mapping[str, Fault] | None = None) -> Iterator[Server]:
    """Serve `folder` on 127.0.0.1 and a free port while the context lasts."""
    server = Server(folder, faults or {})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes; waiting for the acknowledgement costs 40 ms
    server: Server

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Nothing: `Server.requests` is the log."""

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        fault = self.server._fault(path, self.command)
        row = Request(self.command, path, fault=fault.kind if fault else None)
        self.server.requests.append(row)
        file = self.server.folder / path
        if file.is_dir():  # an index: rich where it is
            file = next((f for f in (file / "index.json", file / "index.html") if f.is_file()), file)
        if path.startswith(("simple/", "files/")) and self.server.login not in (None, self.headers["Authorization"]):
            self._start(row, 401, 0)
        elif fault and fault.kind == "503-then-ok":
            self._start(row, 503, 0)
        elif (fault and fault.kind == "404") or ".." in PurePosixPath(path).parts or not file.is_file():
            self._start(row, 404, 0)
        else:
            data = file.read_bytes()
            flood = fault is not None and fault.kind in ("flood", "endless")
            kind = _KINDS.get(file.name, "application/octet-stream")
            if part := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
                first = int(part[1]) if part[1] else max(0, len(data) - int(part[2]))
                last = min(int(part[2]), len(data) - 1) if part[1] and part[2] else len(data) - 1
                self._start(row, 206, last + 1 - first, kind, part=f"bytes {first}-{last}/{len(data)}")
                data = data[first : last + 1]
            else:
                self._start(row, 200, None if flood else len(data), kind)
            if body:
                self._send(row, data, fault)

    def _start(
        self, row: Request, status: int, length: int | None, kind: str = "application/octet-stream", *, part: str = ""
    ) -> None:
        row.status = status
        self.send_response(status)
        if length is None:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(length))
        self.send_header("Content-Type", kind)
        self.send_header("Accept-Ranges", "bytes")
        if part:
            self.send_header("Content-Range", part)
        # A client that keeps answers must ask again: tests change files behind one URL.
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()

    def _send(self, row: Request, data: bytes, fault: Fault | None) -> None:
        server = self.server
        at = len(data) // 2 if fault is None or fault.at is None else min(fault.at, len(data))
        match fault.kind if fault else None:
            case "cut":
                self._write(row, data[:at])
                self._hang_up()
            case "corrupt":
                at = min(at, len(data) - 1)
                self._write(row, data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :] if data else data)
            case "stall":
                self._write(row, data[:at])
                server.stalled.set()
                server._released.wait()
                if server._closing.is_set():
                    self._hang_up()
                else:
                    self._write(row, data[at:])
            case "flood":
                self._write(row, data)
                for _ in range(300):
                    self._write(row, bytes(1 << 20))
                self._hang_up()
            case "endless":
                many = data * (1 + (1 << 20) // max(1, len(data)))
                with contextlib.suppress(OSError):  # the client's way out
                    while not server._closing.is_set():
                        self._write(row, many)
                self._hang_up()
            case "slow" if fault:
                self._trickle(row, data, fault.rate)
            case _:
                self._write(row, data)

    def _trickle(self, row: Request, data: bytes, rate: int) -> None:
        begun = time.monotonic()
        step = max(1, rate // 20)
        for start in range(0, len(data), step):
            self._write(row, data[start : start + step])
            due = begun + row.sent / rate
            if self.server._closing.wait(max(0.0, due - time.monotonic())):
                self._hang_up()
                return

    def _write(self, row: Request, data: bytes) -> None:
        self.wfile.write(data)
        row.sent += len(data)

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
