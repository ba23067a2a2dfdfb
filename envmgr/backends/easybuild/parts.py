"""The parts of an install that EasyBuild made: the software of its easyconfig, and its extensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from envmgr.backends.easybuild.lock import LockedItem
from envmgr.store.parts import Part


def item_parts(item: LockedItem, items: Sequence[LockedItem]) -> Iterator[Part]:
    """Yield the parts of one install of a lock with these items."""
    sources = {source.sha256 for source in item.sources}
    yield _part(
        item.key,
        [(each.name, each.version) for each in items],
        needs=item.depends,
        sha256=next(iter(sources)) if len(sources) == 1 else "",
    )
    for extension in item.extensions:
        name, _, version = extension.rpartition("/")
        yield Part(ecosystem="easybuild", name=name, version=version, build=item.key, key=extension, needs=(item.key,))


def _part(key: str, packages: Iterable[tuple[str, str]], **more: Any) -> Part:
    """Return the part without the toolchain and the suffix in its version: those name other packages of the lock, with
    their versions (`1.3.1-GCCcore-13.3.0`, `2.1.2-foss-2023a-CUDA-12.1.1`).
    """
    name, _, full = key.partition("/")
    places = (full.find(f"-{each}-{version.partition('-')[0]}") for each, version in packages)
    version = full[: min((place for place in places if place > 0), default=None)]
    build = full.removeprefix(version).removeprefix("-")
    return Part(ecosystem="easybuild", name=name, version=version, build=build, key=key, **more)
