"""`make docs`: what is wrong is an error, and in a real Chromium the site asks no other host, finds words, and has light and dark."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import CACHE, ROOT
from tests.helpers.verbs import VERBS
from tests.helpers.waiting import DEADLINE
from tools.docs.references import errors_in_code

ZENSICAL = CACHE / "zensical/bin/zensical"
pytestmark = [
    pytest.mark.skipif(not ZENSICAL.exists(), reason="`make docs` was not run here"),
    pytest.mark.xdist_group("docs"),
]


def make(root: Path, folder: Path) -> tuple[int, str]:
    """`make docs`, of the pages of `root`."""
    words = [sys.executable, "-m", "tools.docs", str(ZENSICAL), str(folder)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, timeout=DEADLINE)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "made"
    assert make(ROOT, folder) == (0, f"{folder}/site/index.html\n")
    return folder / "site"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.always
def test_references_have_every_verb_and_every_error(site: Path) -> None:
    verbs = (site / "docs/command-reference.html").read_text("utf-8")
    assert [verb for verb in VERBS if f'id="envmgr-{verb.replace(" ", "-")}"' not in verbs] == []
    errors = (site / "docs/error-reference.html").read_text("utf-8")
    assert len(errors_in_code()) > 100
    assert [name for name in errors_in_code() if f'<h2 id="{name}">' not in errors] == []


def test_what_is_wrong_is_an_error_and_all_of_it_is_said(tmp_path: Path) -> None:
    for name in ("docs", "contrib", "recipes", "easyconfigs", "tests", "tools", "envmgr"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns(".cache", "__pycache__"))
    for path in ROOT.glob("*.md"):
        shutil.copy(path, tmp_path)
    (tmp_path / "docs/lost.md").write_text("# Lost\n")
    with (tmp_path / "docs/gpu.md").open("a") as page:
        page.write(
            '\n[a](nowhere.md) [b](site.md#nothing) [c](../contrib/none.sh)\n\n<img src="https://example.org/x.png">\n'
        )
    (tmp_path / "docs/speed.md").unlink()
    code, said = make(tmp_path, tmp_path / "made")
    assert code == 1
    for fault in (
        "docs/lost.md: the navigation does not have it",
        "docs/speed.md: the navigation has it, and there is no such page",
        "page does not exist",
        "nothing",
        "docs/gpu.html: ../contrib/none.sh is not there",
        "docs/gpu.html: a browser would load https://example.org/x.png",
    ):
        assert fault in said


@pytest.mark.always
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium")
def test_chromium_asks_no_other_host_and_finds_words(address: str) -> None:
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        for name in ("index", "docs/command-reference", "docs/easybuild", "docs/errors"):
            page.goto(f"{address}/{name}.html")
            page.wait_for_load_state("networkidle")
        page.keyboard.press("Control+k")
        page.keyboard.type("lock-stale")
        page.locator("a[href*='error-reference.html']", has_text="lock-stale").first.wait_for()
        page.keyboard.press("Enter")
        page.wait_for_url("**/*lock-stale*")
        for theirs, ours in (("dark", "slate"), ("light", "default")):
            with browser.new_context(color_scheme=theirs) as context:
                reader = context.new_page()
                reader.goto(f"{address}/index.html")
                reader.locator(f"body[data-md-color-scheme={ours}]").wait_for()
        browser.close()
    assert faults == []
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith((f"{address}/", "data:", "blob:"))] == []
