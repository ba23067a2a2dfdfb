"""Which files of an index come with a sha256: asked of its own pages, for uv computes the one that is lacking from what it is sent.

Source: PEP 503 (`#sha256=…` of a link), PEP 691 (`hashes` of a file); credentials as uv takes them.
"""

from __future__ import annotations

import base64
import html
import netrc
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.downloads.web import Page, read_page
from envmgr.system.run import Runner
from envmgr.system.untrusted_files import parse_json

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_AT_ONCE = 8
_LARGEST = 64 << 20  # bytes of a page
_MOST = 2_000_000  # keys and values of one
# Both take time that grows with the page alone, whatever it holds: `html.parser` does not.
_LINK = re.compile(r"""<a\s(?:[^<>"']|"[^"]*"|'[^']*')*>""", re.IGNORECASE)
_HREF = re.compile(r"""\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)


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
    told = _files(_read(listed, environ)).get(listed.file)
    return f"{listed.page} lists it no more" if told is None else told


def _read(listed: Listed, environ: Mapping[str, str]) -> Page:
    """Raises as `read_page` does."""
    parts = urlsplit(listed.page)
    if parts.scheme == "file":
        return read_page(f"{listed.page}index.html", most=_LARGEST)
    page = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return read_page(page, most=_LARGEST, headers={"Accept": _ACCEPT}, secrets=_login(listed, environ))


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


def _files(page: Page) -> dict[str, bool]:
    """File -> whether a sha256 stands beside it."""
    if page.kind.endswith("json"):
        rows: list[dict[str, Any]] = parse_json(page.content, most=_MOST)["files"]
        return {row["filename"]: "sha256" in row["hashes"] for row in rows}
    links = _LINK.findall(page.content.decode(errors="replace"))
    places = (urlsplit(html.unescape("".join(found.groups("")))) for link in links if (found := _HREF.search(link)))
    return {unquote(place.path).rpartition("/")[2]: place.fragment.startswith("sha256=") for place in places}
