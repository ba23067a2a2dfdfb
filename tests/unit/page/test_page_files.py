"""The page's files: all of a recipe is text in them, and nothing leads to another host."""

from __future__ import annotations

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.helpers.page_scene import ODD, SCRIPT, PageScene, rich

ATOM = "{http://www.w3.org/2005/Atom}"


class Elements(HTMLParser):
    """The elements of a page, with the attributes of each, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    scene = PageScene(tmp_path, "lab & <Söhne>")
    return scene.rendered(rich(scene))


def test_a_description_with_a_script_stays_text(files: dict[str, str]) -> None:
    page = Elements(files["index.html"])
    assert [attributes for tag, attributes in page.found if tag == "script"] == [{}]  # its own
    assert SCRIPT in page.text
    assert ODD.replace("\u202e", "\\u202e") in page.text
    assert "\u202e" not in "".join(files.values())


def test_no_address_leads_out_of_the_page_but_home_pages(files: dict[str, str]) -> None:
    for tag, attributes in Elements(files["index.html"]).found:
        for name in ("href", "src", "action", "srcset", "data", "style"):
            value = attributes.get(name) or ""
            assert not re.match(r"[a-z]+:|//", value), (tag, value)  # `javascript:` of a recipe is no link
        assert not [name for name in attributes if name.startswith("on")]


def test_the_policy_has_the_hash_of_the_style_and_the_script_alone(files: dict[str, str]) -> None:
    text = files["index.html"]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    for kind, element in (("style-src", "style"), ("script-src", "script")):
        content = re.search(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        assert content is not None
        digest = base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode()
        assert f"{kind} &#39;sha256-{digest}&#39;;" in policy[1]
    assert policy[1].startswith("default-src &#39;none&#39;;")


def test_the_page_has_a_language_landmarks_and_a_name_for_each_field(files: dict[str, str]) -> None:
    found = Elements(files["index.html"]).found
    tags = [tag for tag, _ in found]
    assert dict(found)["html"]["lang"] == "en"
    assert {"header", "nav", "main", "footer", "search", "h1", "h2"} <= {*tags}
    labels = {attributes.get("for") for tag, attributes in found if tag == "label"}
    assert {attributes["id"] for tag, attributes in found if tag == "input"} <= labels
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(ids) == len({*ids})


def test_no_entry_is_a_page_too(tmp_path: Path) -> None:
    files = PageScene(tmp_path).rendered(PageScene(tmp_path).contents(1, None, {}))
    assert "This generation has no entries." in files["index.html"]
    assert "0 entries of 0 names" in files["index.html"]
    assert "No entry changed." in files["index.html"]
    ET.fromstring(files["feed.xml"])


def test_the_feed_is_atom_with_ids_that_stay(tmp_path: Path) -> None:
    scene = PageScene(tmp_path, "lab & <Söhne>")
    scene.keep(rich(scene))
    path = scene.install("odd/1", {"<b>&amp;\x0b": "1"})
    second = scene.contents(2, 1, {"odd/1": (path,)})
    feeds = [(tmp_path / "generations/0001/www/feed.xml").read_text(), scene.rendered(second)["feed.xml"]]
    ids: list[list[str]] = []
    for text in feeds:
        feed = ET.fromstring(text)
        assert feed.tag == f"{ATOM}feed"
        entries = feed.findall(f"{ATOM}entry")
        for each in (feed, *entries):  # what RFC 4287 demands of both: 4.1.1, 4.1.2
            found = [each.findall(f"{ATOM}{name}") for name in ("id", "title", "updated")]
            assert [len(rows) for rows in found] == [1, 1, 1]
            assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", found[0][0].text or "")
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found[2][0].text or "")
        assert feed.findtext(f"{ATOM}author/{ATOM}name") == "envmgr of lab & <Söhne>"
        assert feed.findtext(f"{ATOM}updated") == entries[0].findtext(f"{ATOM}updated")
        ids.append([each.findtext(f"{ATOM}id") or "" for each in (feed, *entries)])
    assert len({*ids[1]}) == 3
    assert ids[1][0] == ids[0][0]
    assert ids[1][2] == ids[0][1]  # the generation is the same entry in a later feed
    content = ET.fromstring(feeds[1]).findtext(f"{ATOM}entry/{ATOM}content") or ""
    assert [tag for tag, _ in Elements(content).found] == ["ul", "li", "b", "li", "b", "li", "b", "li", "b"]
