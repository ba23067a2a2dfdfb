"""Files of an index that have a sha256, by the index's own pages. uv computes a missing sum from the bytes that it
gets.

Source: PEP 503 (`#sha256=…` of a link), PEP 691 (`hashes` of a file); credentials as uv takes them.
"""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.downloads.logins import netrc_login
from envmgr.downloads.web import Page, read_page
from envmgr.system.run import Runner
from envmgr.system.untrusted_files import parse_json

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_AT_ONCE = 8
_LARGEST = 64 << 20  # bytes of a page
_MOST = 2_000_000  # keys and values of a page
# Both take a time that grows only with the page, whatever it holds: `html.parser` does not.
_LINK = re.compile(r"""<a\s(?:[^<>"']|"[^"]*"|'[^']*')*>""", re.IGNORECASE)
_HREF = re.compile(r"""\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file, as the index (its name in the site) at `url` lists it on the page of `name` (normalised)."""

    index: str
    url: str
    name: str
    file: str

    @property
    def page(self) -> str:
        return f"{self.url.rstrip('/')}/{self.name}/"


def sha256_listed(
    files: Sequence[ListedFile], runner: Runner, environ: Mapping[str, str] = os.environ
) -> dict[ListedFile, bool | str]:
    """Map each file to True if its index gives a sha256 of it; to a text that says why, if its page cannot be read."""

    def one(listed: ListedFile) -> bool | str:
        runner.raise_if_cancelled()
        try:
            found = _files(_read(listed, environ)).get(listed.file)
        # A page of another form than PEP 691's raises KeyError or TypeError.
        except (OSError, ValueError, KeyError, TypeError) as error:
            return str(error) or type(error).__name__
        return f"{listed.page} lists it no more" if found is None else found

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(files, pool.map(one, files), strict=True))


def _read(listed: ListedFile, environ: Mapping[str, str]) -> Page:
    """Raise the errors of `read_page`."""
    parts = urlsplit(listed.page)
    if parts.scheme == "file":
        return read_page(f"{listed.page}index.html", most=_LARGEST)
    # No client takes a login from the URL: it goes into a header.
    page = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    login = login_of(listed.index, listed.url, environ)
    secrets = {"Authorization": f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"} if login else {}
    return read_page(page, most=_LARGEST, headers={"Accept": _ACCEPT}, secrets=secrets)


def login_variables(index: str) -> tuple[str, str]:
    """Return the variables in which uv finds the login of an index. Source: uv's documentation, "Package indexes"."""
    key = re.sub("[^A-Z0-9]", "_", index.upper())
    return f"UV_INDEX_{key}_USERNAME", f"UV_INDEX_{key}_PASSWORD"


def login_of(index: str, url: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return user and password from the URL, else from the environment, else from `.netrc`."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user:
        user, password = (environ.get(variable, "") for variable in login_variables(index))
    return (user, password) if user else netrc_login(parts.hostname or "", environ)


def _files(page: Page) -> dict[str, bool]:
    """Map each file of a page to True if a sha256 stands beside it."""
    if page.kind.endswith("json"):
        rows: list[dict[str, Any]] = parse_json(page.content, most=_MOST)["files"]
        return {row["filename"]: "sha256" in row["hashes"] for row in rows}
    # Names and sums are ASCII, so other bytes of the page do not matter.
    links = _LINK.findall(page.content.decode(errors="replace"))
    places = (urlsplit(html.unescape("".join(found.groups("")))) for link in links if (found := _HREF.search(link)))
    return {unquote(place.path).rpartition("/")[2]: place.fragment.startswith("sha256=") for place in places}
