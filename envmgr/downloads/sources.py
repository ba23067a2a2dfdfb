"""Sources: the files that a build starts from, by their sha256, in the prefix's cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from envmgr.catalog.site import Site
from envmgr.downloads import Download
from envmgr.downloads.failures import worker_failure
from envmgr.downloads.fetch import DownloadSet
from envmgr.errors import EnvmgrError
from envmgr.store.prefix import Prefix
from envmgr.system.child import Event
from envmgr.system.shelltext import quote as quote_word


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file that a build starts from. `sha256` is 64 hex digits.

    `urls` are upstream's full URLs, in order of trial; empty for a vendor's installer that must be downloaded by hand.
    `folder` is EasyBuild's own place for it (`z/zlib`), or empty; `mirrored` are URLs in mirrors of a kind of their
    own. `said` and `hint` are added to the error if no place gives it. Raises ValueError for a bad file name.
    """

    name: str
    sha256: str
    urls: tuple[str, ...]
    folder: str
    mirrored: tuple[str, ...] = ()
    said: str = ""
    hint: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"{self.name}: `{self.sha256}` is not a sha256")
        folder = PurePosixPath(self.folder)
        outside = folder.is_absolute() or ".." in folder.parts  # it becomes a path in the cache
        if outside or self.name in ("", ".", "..") or re.search(r"[/\0]", self.name):
            raise ValueError(f"`{self.folder}/{self.name}` is not the place of a source")

    def cached(self, prefix: Prefix) -> Path:
        """Return its place in the cache, whether or not it is there."""
        return prefix.source_cache / self.sha256 / self.name


def source_places(file: SourceFile, site: Site) -> tuple[str, ...]:
    """Return the places of a source in the order to try: in each mirror by EasyBuild's layout, by name, by sha256; in
    its own mirrors; then upstream.
    """
    own = (f"{file.folder}/{file.name}", f"{file.folder}/extensions/{file.name}") if file.folder else ()
    below = (*own, file.name, f"{file.sha256}/{file.name}")
    mirrored = [f"{mirror}/{quote(path)}" for mirror in site.sources.mirrors for path in below]
    return (*mirrored, *file.mirrored, *(file.urls if site.sources.upstream else ()))


def source_set(files: Sequence[SourceFile], site: Site, label: str) -> DownloadSet:
    """Return the sources as downloads into `<prefix>/cache/sources`. `label` is the entry they are for.

    They are looked for in the site's mirrors, then upstream. A file in a folder is copied: other nodes and later builds
    need it. Errors are `source-missing` and `source-differs`, for all that cannot be had.
    """
    prefix = Prefix(site.prefix)
    known = {(f.sha256, f.name): f for f in files}

    def failure(event: Event, request: Mapping[str, Any]) -> EnvmgrError:
        if event["kind"] == "DownloadError":
            lost = [_Lost(known[f["sha256"], f["name"]], f["reasons"]) for f in event["failed"]]
            return _not_had(sorted(lost, key=lambda one: one.file.name), site, prefix, label)
        return worker_failure(event, request, label=label, mirrors="sources.mirrors", rows={})

    asked = tuple(Download(f.name, f.sha256, source_places(f, site)) for f in known.values())
    return DownloadSet(asked, prefix.source_cache, failure)


@dataclass(frozen=True, slots=True)
class _Lost:
    """A source that no place gave; `reasons` is (URL, kind, text) of each place, of the cache first if it has
    another.
    """

    file: SourceFile
    reasons: Sequence[Sequence[str]]

    @property
    def differs(self) -> bool:
        return any(kind in ("sha256", "damaged") for _, kind, _ in self.reasons)

    def lines(self, site: Site) -> Iterator[str]:
        yield f"sha256 {self.file.sha256}"
        yield from (f"{url}: {text}" for url, _, text in self.reasons)
        if not self.file.urls:
            yield "no URL gives it"
        elif not site.sources.upstream:
            yield from (f"{url}: not asked, sources.upstream is false" for url in self.file.urls)


def _not_had(lost: Sequence[_Lost], site: Site, prefix: Prefix, label: str) -> EnvmgrError:
    """Return one error for all of them: which, where they were looked for, and exactly where to put them. Wrong content
    comes first.
    """
    differing = [one.file.name for one in lost if one.differs]
    names = differing or [one.file.name for one in lost]
    verb = "is" if len(names) == 1 else "are"
    context: list[str] = []
    for one in lost:
        lines = one.lines(site)
        context += lines if len(lost) == 1 else [f"{one.file.name}:", *(f"  {line}" for line in lines)]
    hints = _what_to_do([one.file for one in lost], site, prefix, label, differs=bool(differing))
    return EnvmgrError(
        "source-differs" if differing else "source-missing",
        f"{label}: {', '.join(names)} {verb} {'not what the lock names' if differing else 'missing'}",
        context=[*context, *dict.fromkeys(one.file.said for one in lost if one.file.said)],
        hint="\n  ".join([*hints, *dict.fromkeys(one.file.hint for one in lost if one.file.hint)]),
    )


def _what_to_do(files: Sequence[SourceFile], site: Site, prefix: Prefix, label: str, *, differs: bool) -> Iterator[str]:
    it = "it" if len(files) == 1 else "them"
    if by_hand := [f.name for f in files if not f.urls]:
        what = "the vendor's installer" if len(by_hand) == 1 else "vendors' installers"
        rest = ", the rest on a machine that can" if len(by_hand) < len(files) else ""
        yield f"download {', '.join(by_hand)} by hand ({what}){rest}, then"
    elif differs:
        yield f"what lies there is damaged or was replaced: compare {it} with upstream's; of a good copy"
    else:
        yield f"download {it} on a machine that can, then"
    yield f"run `envmgr fetch {label} {' '.join('--file ' + quote_word(f'/path/to/{f.name}') for f in files)}`"
    folder = next((m for m in site.sources.mirrors if m.startswith("file://")), None)
    for file in files:
        path = f"{file.folder}/{file.name}" if file.folder else file.name
        if folder is None:
            yield f"or put it into a folder that sources.mirrors in site.yaml names, as {path}"
        else:
            yield f"or put it at {unquote(urlsplit(folder).path)}/{path}"
        yield f"or put it at {file.cached(prefix)}"
