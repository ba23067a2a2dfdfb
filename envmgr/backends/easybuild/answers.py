"""Where a lock of easyconfigs says something else than its recipe, or than what EasyBuild released: it was edited. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.backends.easybuild.input import EASYBUILD, EasyBuildInput
from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.backends.easybuild.released import CONTENTS, FILES


def differing_from_recipe(lock: EasyBuildLock, wanted: EasyBuildInput) -> list[str]:
    """Where a lock that records the recipe's digest says something else than the recipe all the same: it was edited."""
    rows = (
        ("easyconfig", wanted.easyconfig, lock.items[-1].easyconfig),
        ("easybuild", wanted.easybuild, lock.framework),
        ("rpath", wanted.rpath, lock.rpath),
        ("filter_deps", ", ".join(wanted.filter_deps), ", ".join(lock.filter_deps)),
        ("accept_eula", ", ".join(wanted.accept_eula), ", ".join(lock.accept_eula)),
    )
    reasons = [
        (f"unhashed.{source.name}", wanted.unhashed.get(source.name, ""), source.unhashed)
        for item in lock.items
        for source in (*item.sources, *item.files)
        if source.unhashed
    ]
    return [
        *_unreleased(lock),
        *(
            f"{name}: the recipe says {said or 'nothing'}, the lock {locked or 'nothing'}"
            for name, said, locked in (*rows, *reasons)
            if said != locked
        ),
    ]


def _unreleased(lock: EasyBuildLock) -> Iterator[str]:
    """Of the version that envmgr knows itself: its files are those that were released."""
    if lock.framework != EASYBUILD or not lock.easybuild_files:
        return
    if lock.easybuild_sha256 != CONTENTS:
        yield f"easybuild_sha256: EasyBuild {EASYBUILD} was released as {CONTENTS[:8]}…, the lock says {lock.easybuild_sha256[:8]}…"
    for file in lock.easybuild_files:
        if not file.builds and file not in FILES:
            yield f"easybuild_files: {file.name} was released with another sha256, or lies elsewhere"
