"""The page in headless Chromium, as people use it: search, keys, colours, widths; and that it asks no other host."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from envmgr.page.render import render_page
from tests.helpers.page_scene import SCRIPT, PageScene, rich
from tests.helpers.waiting import DEADLINE

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

STATUS = {
    "schema_version": 1,
    "generation": 1,
    "written": "2026-11-20T12:34:56Z",
    "entries": {
        "torch/2.1": {
            "digest": "",
            "gate": [{"group": "<i>gpu</i>", "nodes": "c[1-3]", "verdict": "too-old", "reason": "driver 450 is older", "seen": "2026-11-19T01:02:03Z"}],
            "tests": [{"test": "trains", "nodes": "c1", "status": "passed", "time": "2026-11-18T01:02:03Z"}],
        },
        "python/3.11": {"digest": "of another install", "gate": [], "tests": [{"test": "starts", "nodes": "c9", "status": "failed", "time": "2026-11-18T01:02:03Z"}]},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=DEADLINE * 1000)
        yield made
        made.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    scene = PageScene(tmp_path_factory.mktemp("browser"))
    contents = rich(scene)
    digest = contents.entries["torch/2.1"].digest
    status: Any = json.loads(json.dumps(STATUS))
    status["entries"]["torch/2.1"]["digest"] = digest
    return {**dict(render_page(scene.catalog(contents)[0])), "status.json": json.dumps(status).encode()}


@pytest.fixture(scope="module")
def url(files: Mapping[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("www")
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    made = context.new_page()
    made.set_default_timeout(DEADLINE * 1000)
    made.goto(url, wait_until="networkidle")
    yield made
    context.close()


def shown(page: Page) -> list[str]:
    return [str(each.get_attribute("id")) for each in page.locator(".software:visible").all()]


@pytest.mark.always
def test_search_finds_names_words_and_packages_inside(page: Page) -> None:
    assert shown(page) == ["python", "torch"]
    for words, names, count, hits in (
        ("TORCH", ["torch"], "1 of 3 entries", []),
        ("python", ["python"], "2 of 3 entries", []),
        ("3.10", ["python"], "1 of 3 entries", []),
        ("hello", ["torch"], "1 of 3 entries", []),
        ("numpy", ["torch"], "1 of 3 entries", ["torch/2.1 has numpy 1.26.4 py311"]),
        ("tests ZLIB", ["python"], "2 of 3 entries", ["python/3.11 has zlib 1.3 h1", "python/3.10 has zlib 1.3 h1"]),
        ("gcc", ["torch"], "1 of 3 entries", ["torch/2.1 has gcc 12"]),
        ("gcc zlib", [], "0 of 3 entries", []),
        ("nothing-like-it", [], "0 of 3 entries", []),
        ("", ["python", "torch"], "", []),
    ):
        page.fill("#query", words)
        assert (shown(page), page.inner_text("#count"), page.locator(".hits").all_inner_texts()) == (names, count, hits)


@pytest.mark.always
def test_keys_alone_are_enough(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.type("numpy/")  # a slash in the field is a slash
    assert page.input_value("#query") == "numpy/"
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('details').id") == "torch"
    assert page.locator("#torch").evaluate("each => each.open")
    page.keyboard.press("Enter")
    assert not page.locator("#torch").evaluate("each => each.open")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Escape")
    assert (page.input_value("#query"), shown(page)) == ("", ["python", "torch"])
    assert page.evaluate("document.activeElement.id") == "query"


@pytest.mark.always
def test_a_script_of_a_recipe_is_text_and_no_other_host_is_asked(browser: Browser, url: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(url, wait_until="networkidle")
    page.fill("#query", "<script>")
    page.locator("#torch > summary").click()
    assert page.title() == "Software of lab"
    assert SCRIPT in page.inner_text("#torch > summary")
    assert {each.removeprefix(url) for each in asked} <= {"", "status.json", "favicon.ico"}
    assert [each for each in said if "favicon" not in each and "404" not in each] == []
    # The policy holds: what is injected runs nowhere, and a foreign host is not even asked.
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=http://192.0.2.1/x onerror=document.title=1>')"
    )
    page.wait_for_function("() => true")
    assert any("Content Security Policy" in each for each in said), said
    assert page.title() == "Software of lab"
    context.close()


@pytest.mark.always
def test_what_nodes_answered_is_shown_of_the_install_that_is_published(page: Page) -> None:
    page.wait_for_selector("text=What nodes answered: as of 2026-11-19 01:02 UTC.")
    page.goto(f"{page.url}#torch/2.1")
    page.reload(wait_until="networkidle")
    rows = [row.inner_text().split("\t") for row in page.locator("[id='torch/2.1'] .status tr").all()]
    assert rows == [
        ["Group", "Nodes", "Verdict", "Seen"],
        ["<i>gpu</i>", "c[1-3]", "too-old: driver 450 is older", "2026-11-19 01:02 UTC"],
        ["Test", "Nodes", "Result", "Run"],
        ["trains", "c1", "passed", "2026-11-18 01:02 UTC"],
    ]
    assert page.locator("[id='python/3.11'] .status").is_hidden()


def test_a_status_that_knows_nothing_is_no_answer(browser: Browser, url: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    empty: Any = json.loads(json.dumps(STATUS))
    for each in empty["entries"].values():
        each |= {"gate": [], "tests": []}
    page.route("**/status.json", lambda route: route.fulfill(json=empty))
    page.goto(url, wait_until="networkidle")
    assert "All here is as of the publish." in page.inner_text("header")
    context.close()


def test_without_status_and_without_javascript_all_else_is_there(browser: Browser, files: Mapping[str, bytes], tmp_path: Path) -> None:  # fmt: skip
    (tmp_path / "index.html").write_bytes(files["index.html"])
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{tmp_path}/index.html")
    assert page.locator("#find").is_hidden()  # a field that would do nothing
    assert "All here is as of the publish." in page.inner_text("header")
    page.locator("#torch > summary").click()
    assert "module load torch/2.1" in page.inner_text("#torch")
    page.get_by_text("2 packages", exact=True).locator("visible=true").click()
    assert "numpy 1.26.4 py311" in page.inner_text("#torch")
    context.close()


def test_a_link_to_an_entry_opens_it(page: Page) -> None:
    page.locator("#torch > summary").click()
    page.get_by_role("link", name="python/3.11").first.click()
    assert page.locator("[id='python/3.11']").is_visible()
    page.fill("#query", "torch")
    page.evaluate("location.hash = '#python/3.10'")
    page.wait_for_selector("[id='python/3.10']:visible")


def luminance(colour: str) -> float:
    """Source: WCAG 2.2, relative luminance."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


_COLOURS = """() => [...document.querySelectorAll('body *')].filter(each => each.checkVisibility() && [...each.childNodes].some(
  child => child.nodeType === 3 && child.data.trim())).map(each => {
    let under = each, back;
    do { back = getComputedStyle(under).backgroundColor; under = under.parentElement; } while (under && back.endsWith(', 0)'));
    if (back.endsWith(', 0)')) back = getComputedStyle(document.documentElement).backgroundColor;
    return [each.tagName + '.' + each.className, getComputedStyle(each).color, back];
})"""


@pytest.mark.always
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 360])
def test_contrast_and_width(browser: Browser, url: str, scheme: Any, width: int) -> None:
    """WCAG AA: 4.5 for all text; and nothing is wider than the window, with all of it opened."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 700})
    page = context.new_page()
    page.goto(url, wait_until="networkidle")
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    page.fill("#query", "numpy")
    page.fill("#query", "n")
    found = page.evaluate(_COLOURS)
    assert len(found) > 50
    for what, text, back in found:
        light, dark = sorted((luminance(text), luminance(back)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (what, text, back)
    assert (luminance(page.evaluate("getComputedStyle(document.documentElement).backgroundColor")) < 0.1) == (scheme == "dark")  # fmt: skip
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
