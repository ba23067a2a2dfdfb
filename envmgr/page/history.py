"""Since when an entry is there, and what each generation changed: from the records, and from the page of an earlier
generation where the records before it may be gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.locks import diff_packages
from envmgr.errors import EnvmgrError, InputError
from envmgr.page import CATALOG, WWW
from envmgr.page.model import EntryChange, News, PagePackageChange, Since
from envmgr.publish.extras import GenerationContents
from envmgr.publish.records import PublishedEntry, read_record, read_specs
from envmgr.store.prefix import Prefix
from envmgr.system.untrusted_files import GENERATION, read_bytes

_NEWS = 30  # generations that a page has
_PACKAGES = 20  # changed packages of an entry

_Page = tuple[Mapping[str, Since], tuple[News, ...]]


@dataclass(frozen=True, slots=True)
class _Step:
    """A generation: its head, its entries, and the packages of each."""

    head: News
    entries: Mapping[str, PublishedEntry]
    packages: Mapping[str, Mapping[str, str]]


def read_history(prefix: Prefix, contents: GenerationContents) -> _Page:
    """Return when each entry came, and the generations from which this one was made, itself first."""
    head = News(number=contents.number, parent=contents.parent, created=contents.created, reason=contents.reason)
    steps = [_Step(head, contents.entries, {name: spec.packages for name, spec in contents.specs.items()})]
    since, news = dict[str, Since](), tuple[News, ...]()
    before: _Step | None = None
    while (number := steps[-1].head.parent) is not None and len(steps) < _NEWS:
        try:
            before = _read_step(prefix, number)
        except EnvmgrError:
            break
        if (page := _read_page(prefix.generation(number) / WWW / CATALOG)) is not None:
            since, news = dict(page[0]), page[1]
            break
        steps.append(before)
        before = None
    for step in reversed(steps):
        news = (_compared(step, before), *news)[:_NEWS]
        came = Since(generation=step.head.number, created=step.head.created, or_earlier=not news[0].compared)
        since = {name: since.get(name, came) for name in step.entries}
        before = step
    return since, news


def _read_step(prefix: Prefix, number: int) -> _Step:
    record, specs = read_record(prefix, number), read_specs(prefix, number)
    head = News(number=number, parent=record.parent, created=record.created, reason=record.reason)
    packages = {name: spec["spec"].get("packages", {}) for name, spec in specs.items()}
    return _Step(head, record.entries, packages)


def _read_page(path: Path) -> _Page | None:
    """Return what an earlier generation's page says; None if it has none, or one that cannot be read."""
    try:
        data = json.loads(read_bytes(path, GENERATION))
        since = {each["entry"]: Since.model_validate(each["since"]) for each in data["entries"]}
        return since, tuple(News.model_validate(each) for each in data["news"])
    except (OSError, InputError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _compared(step: _Step, before: _Step | None) -> News:
    """Return the generation's news against the one before; the first generation of all is compared with nothing."""
    if before is None and step.head.parent is not None:
        return step.head.model_copy(update={"compared": False})
    old = before.entries if before else {}
    return step.head.model_copy(
        update={
            "added": tuple(sorted(step.entries.keys() - old.keys())),
            "removed": tuple(sorted(old.keys() - step.entries.keys())),
            "changed": tuple(
                _change(name, step, before)
                for name in sorted(step.entries.keys() & old.keys())
                if before and step.entries[name] != old[name]
            ),
        }
    )


def _change(entry: str, step: _Step, before: _Step) -> EntryChange:
    if step.entries[entry].digest == before.entries[entry].digest:
        return EntryChange(entry=entry, change="module")
    changes = diff_packages(before.packages.get(entry, {}), step.packages.get(entry, {}))
    told = tuple(PagePackageChange(name=each.name, old=each.old, new=each.new) for each in changes[:_PACKAGES])
    return EntryChange(entry=entry, change="install", packages=told, more=max(0, len(changes) - _PACKAGES))
