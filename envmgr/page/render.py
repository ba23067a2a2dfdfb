"""The files of a page, from its data: `index.html`, `catalog.json`, `feed.xml`. Templates, styles and the script are files
beside this one; nothing of a recipe gets into a page unescaped, and no page names another host.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envmgr.catalog.names import sort_key
from envmgr.page import CATALOG, FEED, INDEX
from envmgr.page.model import PageEntry, PageGeneration
from envmgr.wording import LINES, and_more, counted, escaped

if TYPE_CHECKING:
    import jinja2

_HERE = Path(__file__).parent


def render_page(catalog: PageGeneration) -> Iterator[tuple[str, bytes]]:
    """Yield the page's files, but its locks: the path below the page, and the content. Deterministic."""
    environment = _environment()
    style, script = (_HERE.joinpath(name).read_text(encoding="utf-8").strip() for name in ("page.css", "page.js"))
    text = environment.get_template("index.html.j2").render(
        catalog=catalog,
        software=[(name, _newest_first(each)) for name, each in groupby(catalog.entries, key=lambda entry: entry.name)],
        of_install={entry.parts[0]: entry.entry for entry in reversed(catalog.entries)},
        style=_safe(style),
        script=_safe(script),
        policy=content_policy(style, script),
    )
    yield INDEX, text.encode()
    yield CATALOG, json.dumps(catalog.model_dump(mode="json"), separators=(",", ":")).encode() + b"\n"
    yield FEED, environment.get_template("feed.xml.j2").render(catalog=catalog).encode()


def content_policy(style: str, script: str) -> str:
    """Return the page's Content-Security-Policy: its own style and script, and what lies beside it."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def _environment() -> jinja2.Environment:
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_visible,
    )
    found.filters |= {"few": _few, "counted": counted, "urn": _urn, "when": _when, "wanted": _wanted}
    return found


def _safe(text: str) -> Any:
    import markupsafe

    return markupsafe.Markup(text)  # noqa: S704 - files of this folder


def _visible(value: Any) -> Any:
    """Return a text without characters that act unseen, some of which XML cannot have either."""
    return escaped(value, LINES) if type(value) is str else value


def _newest_first(entries: Iterable[PageEntry]) -> list[PageEntry]:
    return sorted(entries, key=lambda entry: sort_key(entry.version), reverse=True)


def _few(values: tuple[str, ...]) -> str:
    return and_more(values, 5)


def _when(created: str) -> str:
    """Return a record's time as people read it."""
    return f"{created[:10]} {created[11:16]} UTC"


def _urn(catalog: PageGeneration, news: Any) -> str:
    """Return the id of a feed's entry, the same in each later page of the site. Source: RFC 4287, 4.2.6."""
    return (
        uuid.uuid5(uuid.NAMESPACE_OID, f"envmgr {catalog.site} {news.number} {news.created}").urn
        if news
        else (uuid.uuid5(uuid.NAMESPACE_OID, f"envmgr {catalog.site}").urn)
    )


def _wanted(entry: PageEntry) -> list[str]:
    """Return what a node must have for an entry, one line each."""
    requires, gpu = entry.requires, entry.gpu
    told = {
        "glibc {} or later": requires.glibc,
        "CPU of {} or better": requires.cpu_level,
        "NVIDIA driver {} or later": requires.nvidia_driver,
    }
    if gpu is not None:
        told |= {
            "CUDA {}": gpu.cuda,
            "code for GPUs of compute capability: {}": ", ".join(gpu.codes or ("that is not known",)),
            "driver {} or later runs its code": "" if gpu.runs_from == requires.nvidia_driver else gpu.runs_from,
            "drivers from {} on compile for its CUDA at run time": gpu.compiles_from,
            "cuda-compat {}": gpu.compat,
        }
    return [text.format(value) for text, value in told.items() if value]
