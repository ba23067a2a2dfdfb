"""Which files of an index come with a sha256: asked of its own pages, for uv computes the one that is lacking from what it is sent.

Source: PEP 503 (`#sha256=…` of a link), PEP 691 (`hashes` of a file); credentials as uv takes them.
"""

from __future__ import annotations

import base64
import json
import netrc
import os
import re
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.system.run import Runner

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_AT_ONCE = 8
_PIECE = 1 << 16  # bytes
_LIMIT = 60.0  # seconds for a page
_STALL = 10.0  # seconds without a byte


@dataclass(frozen=True, slots=True)
class Listed:
    """A file, as the index (its name in the site) at `url` lists it on the page of `name` (normalised)."""

    index: str
    url: str
    name: str
    file: str

    @property
    def page(self) -> str:
        return f"{self.url.rstrip('/')}/{self.name}/"


def sha256_told(
    files: Sequence[Listed], runner: Runner, environ: Mapping[str, str] = os.environ
) -> dict[Listed, bool | str]:
    """Whether its index tells a sha256 of each; why that was not seen, where its page cannot be read."""

    def one(listed: Listed) -> bool | str:
        runner.raise_if_cancelled()
        try:
            return _look(listed, environ)
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            return str(error) or type(error).__name__

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(files, pool.map(one, files), strict=True))


def _look(listed: Listed, environ: Mapping[str, str]) -> bool | str:
    told = _files(*_read(listed, environ)).get(listed.file)
    return f"{listed.page} lists it no more" if told is None else told


def _read(listed: Listed, environ: Mapping[str, str]) -> tuple[str, bytes]:
    """The content type of its page, and the page. OSError, ValueError."""
    parts = urlsplit(listed.page)
    if parts.scheme == "file":
        return "text/html", (Path(unquote(parts.path)) / "index.html").read_bytes()
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"no page that can be read: {listed.page}")
    page = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    request = urllib.request.Request(page, headers={"Accept": _ACCEPT})  # noqa: S310 - http(s), seen above
    for key, value in _login(listed, environ).items():
        request.add_unredirected_header(key, value)  # a redirect may lead to another host
    ends, pieces = time.monotonic() + _LIMIT, []
    with urllib.request.urlopen(request, timeout=_STALL) as answer:  # noqa: S310
        while piece := answer.read1(_PIECE):
            pieces.append(piece)
            if time.monotonic() > ends:
                raise TimeoutError(f"{page} took more than {_LIMIT:.0f} s")
        return answer.headers.get_content_type(), b"".join(pieces)


def environment_key(index: str) -> str:
    """The beginning of the names of the variables in which uv finds the login of an index. Source: uv's documentation, "Package indexes"."""
    return f"UV_INDEX_{re.sub('[^A-Z0-9]', '_', index.upper())}"


def login_of(index: str, url: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """User and password of the URL, else of the environment, else of `.netrc`."""
    parts, key = urlsplit(url), environment_key(index)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user:
        user, password = environ.get(f"{key}_USERNAME", ""), environ.get(f"{key}_PASSWORD", "")
    if not user:
        try:
            found = netrc.netrc(environ.get("NETRC")).authenticators(parts.hostname or "")
        except (OSError, netrc.NetrcParseError):
            found = None
        user, password = (found[0] or "", found[2] or "") if found else ("", "")
    return (user, password) if user else None


def _login(listed: Listed, environ: Mapping[str, str]) -> dict[str, str]:
    found = login_of(listed.index, listed.url, environ)
    text = base64.b64encode(":".join(found or ()).encode()).decode()
    return {"Authorization": f"Basic {text}"} if found else {}


def _files(kind: str, content: bytes) -> dict[str, bool]:
    """File -> whether a sha256 stands beside it."""
    if kind.endswith("json"):
        rows: list[dict[str, Any]] = json.loads(content)["files"]
        return {row["filename"]: "sha256" in row["hashes"] for row in rows}
    links = _Links()
    links.feed(content.decode(errors="replace"))
    return links.files


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bool] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a" and (href := dict(attrs).get("href")):
            parts = urlsplit(href)
            self.files[unquote(parts.path).rpartition("/")[2]] = parts.fragment.startswith("sha256=")
