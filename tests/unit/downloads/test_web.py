from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.error import HTTPError

import pytest

from envmgr.downloads.transfer import Room, TooLarge
from envmgr.downloads.web import open_url, read_page
from envmgr.wheels import metadata
from tests.helpers.standin.server import Server
from tests.helpers.wheelhouse import Wheelhouse


class Hostile(BaseHTTPRequestHandler):
    """What the path says: /endless, /drip (headers), /to?URL, /bomb."""

    over = Event()

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        what, _, place = self.path[1:].partition("?")
        if what == "drip":
            self.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
            while not self.over.wait(0.05):
                self.wfile.write(b"x")
            return
        self.send_response(302 if what == "to" else 200)
        if what == "to":
            self.send_header("Location", place)
        if what == "bomb":
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if what == "bomb":
            self.wfile.write(gzip.compress(bytes(1 << 20)))
        while what == "endless":
            self.wfile.write(bytes(1 << 16))


@pytest.fixture
def url() -> Iterator[str]:
    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # the client hung up

    Hostile.over.clear()
    with Quiet(("127.0.0.1", 0), Hostile) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        Hostile.over.set()
        server.shutdown()


def test_page_without_end_is_not_read_to_it(url: str) -> None:
    with pytest.raises(ValueError, match=f"{url}/endless is larger than 1000000 bytes"):
        read_page(f"{url}/endless", most=1_000_000)


def test_page_whose_headers_never_end_is_given_up(url: str) -> None:
    with pytest.raises(TimeoutError, match=f"{url}/drip took more than 1 s"):
        read_page(f"{url}/drip", most=1000, longest=1)


def test_page_is_not_unpacked(url: str) -> None:
    assert len(read_page(f"{url}/bomb", most=10_000).content) < 10_000


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:text/plain", "gopher://127.0.0.1"])
def test_redirect_leads_to_no_other_scheme(url: str, place: str) -> None:
    with pytest.raises((OSError, ValueError)):
        read_page(f"{url}/to?{place}", most=1000)
    with pytest.raises(ValueError, match="only http"):
        open_url(place)


def test_redirect_in_a_circle_ends(url: str) -> None:
    with pytest.raises(OSError, match="redirect"):
        read_page(f"{url}/to?{url}/to", most=1000)


def test_connection_is_kept_for_the_next_page(tmp_path: Path) -> None:
    """Also after an error, and by several threads: a name server is not asked for each page."""
    (tmp_path / "page").write_text("text")
    opened: list[object] = []

    class Counted(Server):
        def finish_request(self, request: object, client_address: object) -> None:
            opened.append(client_address)
            super().finish_request(request, client_address)  # type: ignore[arg-type]

    server = Counted(tmp_path, {})
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        for _ in range(5):
            assert read_page(f"{server.url}/page", most=100).content == b"text"
            with pytest.raises(HTTPError, match="404"):
                read_page(f"{server.url}/none", most=100)
        with ThreadPoolExecutor(4) as pool:
            assert {*pool.map(lambda _: read_page(f"{server.url}/page", most=100).content, range(40))} == {b"text"}
    finally:
        server.close()
    assert len(opened) <= 5


def test_secret_goes_to_no_other_host(tmp_path: Path) -> None:
    seen: list[str | None] = []

    class Other(Hostile):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            super().do_GET()

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as there, ThreadingHTTPServer(("127.0.0.1", 0), Other) as here:
        for each in (here, there):
            Thread(target=each.serve_forever, daemon=True).start()
        place = f"http://localhost:{there.server_port}/"
        read_page(f"http://127.0.0.1:{here.server_port}/to?{place}", most=100, secrets={"Authorization": "Basic eA=="})
        for each in (here, there):
            each.shutdown()
    assert seen == ["Basic eA==", None]


def test_redirect_goes_by_the_proxy_of_its_own_host(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Proxy(Hostile):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['Host']} {self.headers['Proxy-Authorization']}")
            self.path = "/page"
            super().do_GET()

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("http_proxy", f"http://u:%C3%A4@127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        read_page(f"{url}/to?http://outside.invalid/file", most=100)
        proxy.shutdown()
    assert asked == ["http://outside.invalid/file outside.invalid Basic dTrDpA=="]


@pytest.mark.parametrize("body", [True, False])
def test_connection_that_the_server_ends(body: bool) -> None:
    """A kept one is asked again, and a body that ends early is an OSError."""
    asked: list[str] = []

    class Ends(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            if len(asked) == 2 and not body:
                self.close_connection = True
                return
            self.send_response(200)
            self.send_header("Content-Length", "9" if body else "4")
            self.end_headers()
            self.wfile.write(b"text")
            self.close_connection = body

    with ThreadingHTTPServer(("127.0.0.1", 0), Ends) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}/x"
        if body:
            with pytest.raises(OSError, match=f"127.0.0.1:{server.server_port}: "):
                read_page(place, most=100)
        else:
            assert [read_page(place, most=100).content for _ in range(2)] == [b"text", b"text"]
            assert len(asked) == 3
        server.shutdown()


def test_refused_connection_is_said_in_the_words_of_the_system() -> None:
    with pytest.raises(OSError, match=r"^127.0.0.1:1: Connection refused$"):
        read_page("http://127.0.0.1:1/x", most=100)


def test_file_that_is_no_regular_one_or_too_large_is_no_page(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(1001))
    for path in (Path("/dev/zero"), tmp_path / "large"):
        with pytest.raises(ValueError, match=re.escape(str(path))):
            read_page(path.as_uri(), most=1000)


def test_metadata_of_a_wheel_is_read_up_to_a_size(tmp_path: Path) -> None:
    house = Wheelhouse(tmp_path)
    bomb = house.wheel("bomb", files={"bomb-1.0.dist-info/x": ""}, requires=["x" * 1000] * 20_000)
    with pytest.raises(ValueError, match=f"larger than {metadata._LARGEST} bytes"):
        metadata.metadata_in(bomb)


@pytest.mark.parametrize("fault", ["data", "password", "method", "size"])
def test_metadata_of_a_damaged_wheel_is_a_fault_of_the_wheel(tmp_path: Path, fault: str) -> None:
    wheel = tmp_path / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a-1.0.dist-info/METADATA", "Name: a\nVersion: 1.0\n" * 50)
    content = bytearray(wheel.read_bytes())
    entry, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    match fault:
        case "data":
            at = 30 + len("a-1.0.dist-info/METADATA")
            content[at : at + 4] = b"\xff" * 4
        case "password":
            content[6] |= 1
            content[entry + 8] |= 1
        case "method":
            content[8] = content[entry + 10] = 93
        case _:
            content[end + 12 : end + 16] = b"\xf0\xff\xff\xff"
    wheel.write_bytes(content)
    with pytest.raises(zipfile.BadZipFile):
        metadata.metadata_in(wheel)


def test_room_ends_where_what_must_stay_free_begins(tmp_path: Path) -> None:
    Room(tmp_path, 0).take(1)
    with pytest.raises(TooLarge, match="are to stay free"):
        Room(tmp_path, 1 << 60).take(1)
