"""Answers of servers that no file comes from."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from envmgr.downloads import Download, cached_file
from envmgr.downloads.logins import with_login
from envmgr.downloads.transfer import Bounds, NotHad, take_file
from envmgr.errors import InputError


class Redirects(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", self.path)
        self.end_headers()


def test_redirects_without_end_are_the_places_fault_and_not_the_disks(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}/x"
        wanted = Download("x", "0" * 64, (place,))
        with pytest.raises(NotHad) as raised:
            take_file(wanted, tmp_path, Bounds(2, 60, 0), copy=True, tick=lambda _: None, say=lambda _: None)
        server.shutdown()
    assert raised.value.reasons == [(place, "refused", f"{place}: more than 10 redirects")]
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(("content", "why"), [(None, "No such file or directory"), ("{", "it is not JSON")])
def test_file_of_logins_that_cannot_be_read_is_named(tmp_path: Path, content: str | None, why: str) -> None:
    path = tmp_path / "logins.json"
    if content:
        path.write_text(content)
    with pytest.raises(InputError) as raised:
        with_login("http://127.0.0.1/x", {"RATTLER_AUTH_FILE": str(path)})
    assert raised.value.render() == (
        f"error[file-unreadable]: cannot read the logins in {path}\n  {why}\n\n"
        "hint: let RATTLER_AUTH_FILE name a JSON file with rattler's logins that you can read, or unset it"
    )


def test_file_is_found_in_the_cache_by_its_sha256(tmp_path: Path) -> None:
    assert cached_file(tmp_path, "b" * 64) is None
    folder = tmp_path / ("b" * 64)
    folder.mkdir()
    (folder / ".six.part").touch()
    assert cached_file(tmp_path, "b" * 64) is None
    (folder / "six-1.16.0-py3-none-any.whl").touch()
    assert cached_file(tmp_path, "b" * 64) == folder / "six-1.16.0-py3-none-any.whl"
