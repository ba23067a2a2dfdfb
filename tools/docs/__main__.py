"""`python -m tools.docs ZENSICAL [FOLDER]`: make the documentation in FOLDER/site, by the program ZENSICAL; build/docs without FOLDER.

Broken links and anchors, pages that the navigation does not have, and parts that a browser would load from another host are errors.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.docs.references import command_reference, error_reference

ROOT = Path(__file__).resolve().parents[2]
_CONFIG = Path(__file__).with_name("zensical.toml")
_TAKEN = ("*.md", "docs/**/*", "contrib/**/*", "[!.]*/README.md")
# What a browser loads by itself, by the element that names it; a reader follows the other links.
_LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "object": "data",
    "embed": "src",
}


def main(zensical: str, folder: Path) -> int:
    """Return 0, or 1 after a line for each fault."""
    stage(folder)
    faults = [*orphans(folder)]
    words = [zensical, "build", "--clean", "--strict"]
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True, env={"NO_COLOR": "1"})
    if done.returncode:
        said = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
        faults.append(said.partition("Traceback (most recent call last)")[0].strip())
    faults += [f"{page}: {fault}" for page, fault in strangers(folder / "site")]
    sys.stdout.write("".join(f"{fault}\n" for fault in faults) or f"{folder / 'site' / 'index.html'}\n")
    return bool(faults)


def stage(folder: Path) -> None:
    """Copy the pages to `folder`, under the names that their links use, and write the references beside them."""
    shutil.rmtree(folder, ignore_errors=True)
    for pattern in _TAKEN:
        for path in ROOT.glob(pattern):
            if path.is_file():
                place = folder / "pages" / path.relative_to(ROOT)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
    docs = folder / "pages/docs"
    (docs / "command-reference.md").write_text(command_reference(), encoding="utf-8")
    (docs / "error-reference.md").write_text(error_reference((docs / "errors.md").read_text("utf-8")), encoding="utf-8")
    shutil.copyfile(_CONFIG, folder / _CONFIG.name)


def orphans(folder: Path) -> Iterator[str]:
    """Yield what is wrong between the pages and the navigation."""
    pages = {str(path.relative_to(folder / "pages")) for path in (folder / "pages").rglob("*.md")}
    listed = [*_listed(tomllib.loads((folder / _CONFIG.name).read_text("utf-8"))["project"]["nav"])]
    yield from (f"{page}: the navigation does not have it" for page in sorted(pages.difference(listed)))
    yield from (f"{page}: the navigation has it, and there is no such page" for page in listed if page not in pages)


def _listed(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, list | dict):
        for each in nav if isinstance(nav, list) else nav.values():
            yield from _listed(each)


def strangers(site: Path) -> Iterator[tuple[str, str]]:
    """Yield page and fault: what comes from another host, and links to files that are not there."""
    for path in sorted(site.rglob("*.html")):
        reader = _Links()
        reader.feed(path.read_text("utf-8"))
        for link, loaded in reader.found:
            parts, page = urlsplit(link), str(path.relative_to(site))
            # The page 404 is shown for any path.
            places = [path.parent / unquote(parts.path), *[site / parts.path.lstrip("/")] * (path.name == "404.html")]
            if loaded and (parts.scheme not in {"", "data"} or parts.netloc):
                yield page, f"a browser would load {link}"
            elif not parts.scheme and not parts.netloc and not any(place.exists() for place in places):
                yield page, f"{link} is not there"
    for path in sorted(site.rglob("*.css")):
        for link in re.findall(r"(?:url\(|@import\s*)['\"]?((?:https?:)?//[^'\")\s]+)", path.read_text("utf-8")):
            yield str(path.relative_to(site)), f"a browser would load {link}"


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if link := given.get(_LOADED.get(tag, "href")):
            self.found.append((link, tag in _LOADED and given.get("rel") != "canonical"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]) if sys.argv[2:] else ROOT / "build/docs"))
