"""Files of an index: which of them has a sha256, and where it lies today, by one look at the page of each package.

Source: PEP 503 (`#sha256=…` of a link), PEP 691 and PEP 700 (JSON); credentials as uv takes them.
"""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote, urljoin, urlsplit

from envmgr.downloads.logins import netrc_login
from envmgr.downloads.web import Page, read_page
from envmgr.errors import InputError
from envmgr.system.run import Runner
from envmgr.system.untrusted_files import ANYWHERE, Kind, digest_of, parse_json
from envmgr.wheels.lockfile import LockedRow, file_of, is_file_of

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_AT_ONCE = 8
_TRIES = 3  # of a page, while the server says that it is busy
_LARGEST = 64 << 20  # bytes of a page
_MOST = 2_000_000  # keys and values of a page
_WHEEL = Kind("wheel", 1 << 40)
# Both take a time that grows only with the page, whatever it holds: `html.parser` does not.
_LINK = re.compile(r"""<a\s(?:[^<>"']|"[^"]*"|'[^']*')*>""", re.IGNORECASE)
_HREF = re.compile(r"""\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_FILE = re.compile(r"[A-Za-z0-9_.!+-]+\.(whl|tar\.gz|zip)")
_SUM = re.compile(r"sha256=([0-9a-fA-F]{64})")


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """A place of an index: its name in the site, and a URL, or the `file://` URL of a folder of wheels and sources."""

    index: str
    url: str

    @property
    def folder(self) -> Path | None:
        """The folder of files; None for a URL of pages, also if they lie in files."""
        parts = urlsplit(self.url)
        path = Path(unquote(parts.path))
        return path if parts.scheme == "file" and not has_pages(path) else None

    def page(self, name: str) -> str:
        """Return the page that lists the files of a package (normalised), or the folder."""
        return self.url if self.folder else f"{self.url.rstrip('/')}/{name}/"


def has_pages(folder: Path) -> bool:
    """Return whether an index in files has pages there, and not its wheels and sources themselves."""
    try:
        return folder.is_dir() and not any(p.name.endswith((".whl", ".tar.gz", ".zip")) for p in folder.iterdir())
    except PermissionError:  # uv then says what it lacks
        return False


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as a place lists it. `sha256` is empty, and `size` (bytes) None, if the place does not say."""

    file: str
    url: str
    sha256: str
    size: int | None


Listed = Sequence[ListedFile] | OSError | ValueError
"""The files of a package, none if the place does not know it; or why its page cannot be read."""


def look(
    rows: Iterable[LockedRow], place: IndexPlace, runner: Runner, environ: Mapping[str, str] = os.environ
) -> dict[str, Listed]:
    """Map the name of each row to the files that a place has of it. A place that does not answer is asked no more."""
    wanted = [*rows]
    names = [*dict.fromkeys(row.name for row in wanted)]
    if (folder := place.folder) is not None:
        try:
            files = {row: [*_in_folder(folder, row)] for row in wanted}
        except (OSError, InputError) as error:
            return dict.fromkeys(names, OSError(str(error)))
        return {name: [file for row in wanted if row.name == name for file in files[row]] for name in names}
    gone: list[OSError] = []

    def one(name: str) -> Listed:
        runner.raise_if_cancelled()
        if gone:
            return gone[0]
        try:
            return [*_files(_read(place, name, environ))]
        except FileNotFoundError:
            return ()
        except HTTPError as error:
            return () if error.code in (404, 410) else error
        except OSError as error:
            gone.append(error)
            return error
        # A page of another form than PEP 691's raises KeyError or TypeError.
        except (ValueError, KeyError, TypeError) as error:
            return ValueError(f"{place.page(name)}: {error or type(error).__name__}")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


def _in_folder(folder: Path, row: LockedRow) -> Iterator[ListedFile]:
    for path in sorted(folder.iterdir()):
        if _FILE.fullmatch(path.name) and is_file_of(row, path.name):
            yield ListedFile(path.name, path.as_uri(), digest_of(path, _WHEEL, tree=ANYWHERE), path.stat().st_size)


def _read(place: IndexPlace, name: str, environ: Mapping[str, str]) -> Page:
    """Raise the errors of `read_page`."""
    parts = urlsplit(place.page(name))
    if parts.scheme == "file":
        return read_page(f"{place.page(name)}index.html", most=_LARGEST)
    # No client takes a login from the URL: it goes into a header.
    page = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    login = login_of(place.index, place.url, environ)
    secrets = {"Authorization": f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"} if login else {}
    for left in reversed(range(_TRIES)):
        try:
            return read_page(page, most=_LARGEST, headers={"Accept": _ACCEPT}, secrets=secrets)
        except HTTPError as error:
            if error.code < 500 or not left:
                raise
    raise AssertionError("unreachable")


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


def _files(page: Page) -> Iterator[ListedFile]:
    if page.kind.endswith("json"):
        for row in parse_json(page.content, most=_MOST)["files"]:
            yield from _file(page, row["filename"], row["url"], str(row["hashes"].get("sha256", "")), row.get("size"))
        return
    # Names and sums are ASCII, so other bytes of the page do not matter.
    for link in _LINK.findall(page.content.decode(errors="replace")):
        if found := _HREF.search(link):
            url, _, fragment = html.unescape("".join(found.groups(""))).partition("#")
            sha256 = _SUM.fullmatch(fragment)
            yield from _file(page, file_of(url), url, sha256[1] if sha256 else "", None)


def _file(page: Page, file: str, url: str, sha256: str, size: int | None) -> Iterator[ListedFile]:
    there = urljoin(page.url, url)
    # A page on the network names no file of this machine.
    schemes = ("http", "https", "file") if page.url.startswith("file:") else ("http", "https")
    if _FILE.fullmatch(file) and urlsplit(there).scheme in schemes:
        yield ListedFile(file, there, sha256.lower(), size if isinstance(size, int) else None)
