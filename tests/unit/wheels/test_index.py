"""Pages and folders of an index: which file has a sum, and where it lies."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from envmgr.downloads.web import Page
from envmgr.system.run import Runner
from envmgr.wheels.index import IndexPlace, ListedFile, _files, look
from envmgr.wheels.lockfile import LockedRow
from tests.helpers.standin.server import Fault, serve
from tests.helpers.wheelhouse import Wheelhouse


def row(name: str, version: str = "1.0") -> LockedRow:
    return LockedRow(name=name, version=version, sha256="0" * 64)


@pytest.mark.parametrize("place", ["pages", "pages in files", "folder"])
def test_files_of_a_package_are_listed_with_their_sums(tmp_path: Path, place: str) -> None:
    """A page in files is HTML, and says no size. A folder has the files of just that version."""
    house = Wheelhouse(tmp_path)
    wheel, sdist = house.wheel("one", "2.0"), house.sdist("one", "2.0")
    if place == "folder":
        house.wheel("one", "1.0")
    rows = [row("one", "2"), row("absent")]
    with serve(tmp_path) as server:
        home = {"pages": server.url, "pages in files": tmp_path.as_uri(), "folder": tmp_path.as_uri()}[place]
        url = house.files.as_uri() if place == "folder" else f"{home}/simple"
        found = look(rows, IndexPlace("house", url), Runner())
    sized = place != "pages in files"
    files = [
        ListedFile(
            path.name,
            f"{home}/files/{path.name}",
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_size if sized else None,
        )
        for path in (wheel, sdist)
    ]
    assert {name: [*each] for name, each in found.items() if not isinstance(each, Exception)} == {
        "one": files,
        "absent": [],
    }


def test_place_that_is_gone_is_asked_once_and_a_busy_one_again(tmp_path: Path) -> None:
    rows = [row(f"name{number}") for number in range(50)]
    found = look(rows, IndexPlace("gone", "http://127.0.0.1:9/simple"), Runner())
    assert {str(each) for each in found.values()} == {"127.0.0.1:9: Connection refused"}
    house = Wheelhouse(tmp_path)
    house.wheel("one")
    with serve(tmp_path) as server:
        server.faults["simple/one/"] = Fault("503-then-ok")
        (listed,) = look([row("one")], IndexPlace("house", f"{server.url}/simple"), Runner()).values()
    assert not isinstance(listed, Exception)
    assert [each.file for each in listed] == ["one-1.0-py3-none-any.whl"]


@pytest.mark.parametrize(
    "content",
    [b"[" * 1_000_000, b'{"files": ' * 100_000, b'{"files": [' + b"1," * 3_000_000 + b"1]}", b"9" * 100_000],
    ids=["lists", "maps", "values", "number"],
)
def test_hostile_json_of_an_index_is_a_fault_of_the_page(content: bytes) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        [*_files(Page("http://x/a/", "application/vnd.pypi.simple.v1+json", content))]


def test_links_of_a_page_are_read_as_indexes_write_them() -> None:
    text = f"""<!DOCTYPE html><A HREF="../a-1.whl#sha256={"A" * 64}" data-requires-python=">=3.8">a</A> <a\nhref='b%2B1.whl'>b</a>
    <a data-x="1 > 0" href=/c.zip#sha256=11>c</a><a href="file:///etc/d.whl">d</a><abbr href="no.whl"><a name="none">"""
    assert [*_files(Page("http://x/y/a/", "text/html", text.encode()))] == [
        ListedFile("a-1.whl", "http://x/y/a-1.whl", "a" * 64, None),
        ListedFile("b+1.whl", "http://x/y/a/b%2B1.whl", "", None),
        ListedFile(
            "c.zip", "http://x/c.zip", "", None
        ),  # its sum is none, and a page on the network names no file here
    ]


@pytest.mark.parametrize(
    "text", ["<a ", '<a "', "<a '\"", "<a href=", "<!--", "</", "<a " + 'x="\'" ' * 9, "<![CDATA["]
)
def test_links_of_a_hostile_page_take_time_that_grows_with_it_alone(text: str) -> None:
    """Else this would take hours."""
    content = (text * ((4 << 20) // len(text))).encode()
    assert [*_files(Page("http://x/a/", "text/html", content))] == []
