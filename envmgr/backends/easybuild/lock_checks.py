"""Checks of a lock: whether it still answers its recipe, and which CUDA and licences it brings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from envmgr.backends.easybuild.easyconfigs import changed_since
from envmgr.backends.easybuild.lock import (
    DEFAULT_CONTENTS,
    DEFAULT_FILES,
    LOCK_NAME,
    EasyBuildLock,
    LockedItem,
    locked_versions,
)
from envmgr.backends.easybuild.settings import EASYBUILD, FIELDS, SETTINGS, EasyBuildInput, eula_word, said_by, said_now
from envmgr.catalog.gpus import short_cuda
from envmgr.catalog.lock_checks import LockFacts
from envmgr.catalog.locks import require_answer, stale_lock
from envmgr.catalog.names import Entry
from envmgr.catalog.settings import quoted
from envmgr.catalog.site import Site

_TOOLKITS = ("CUDA", "CUDAcore")
# EasyBuild's word in a version suffix: `8.9.2.26-CUDA-12.1.1`.
_FOR_CUDA = re.compile(r"-CUDA-([0-9]{1,3})\.")
_MAJOR = re.compile(r"([0-9]{1,3})(\.|$)")

_ANACONDA = "anaconda-terms"
_ANACONDA_NAMES = re.compile(r"(ana|mini)conda[0-9]*", re.IGNORECASE)
_ANACONDA_FILES = re.compile(r"(ana|mini)conda[0-9]*-.*\.sh", re.IGNORECASE)
_ANACONDA_URL = re.compile(r"\w+://([^/]*@)?repo\.(anaconda\.com|continuum\.io)[:/]", re.IGNORECASE)
# Under an agreement of NVIDIA's, whether or not an easyblock asks for it. Source: docs.nvidia.com, the page of each.
_NVIDIA = frozenset({"cuda", "cudnn", "cusparselt", "cutensor", "tensorrt"})


def require_fresh(lock: EasyBuildLock, wanted: EasyBuildInput, entry: Entry, folder: Path, site: Site) -> None:
    """Raise EnvmgrError `lock-stale` for a lock that does not answer its recipe, its easyconfigs or the site's GPUs."""
    path, packages = folder / LOCK_NAME, locked_versions(lock)
    require_answer(entry, path, packages, wanted.digest(), lock.recipe)
    stale = partial(stale_lock, entry, path, packages)
    if differing := differing_from_recipe(lock, wanted):
        raise stale(differing)
    if changed := [text for item in lock.items for text in changed_since(item, site)]:
        raise stale(changed, "is older than its easyconfigs")
    if differing := differing_from_now(lock, wanted, site):
        keep = ", ".join(f"`{each}: {quoted(said)}`" for each, said in said_by(lock).items() if said)
        more = f"; or, to keep its GPUs, say {keep} under `input` of the recipe" if keep else ""
        raise stale(differing[1:], f"is for other GPUs than now: {differing[0]}", more)


def differing_from_recipe(lock: EasyBuildLock, wanted: EasyBuildInput) -> list[str]:
    """Return where a lock that records the recipe's digest differs from the recipe all the same: it was edited."""
    rows = (
        ("easyconfig", wanted.easyconfig, lock.items[-1].easyconfig),
        ("easybuild", wanted.easybuild, lock.framework),
        ("rpath", wanted.rpath, lock.rpath),
        ("filter_deps", ", ".join(wanted.filter_deps), ", ".join(lock.filter_deps)),
        ("accept_eula", ", ".join(wanted.accept_eula), ", ".join(lock.accept_eula)),
        *(
            (f"unhashed.{source.name}", wanted.unhashed.get(source.name, ""), source.unhashed)
            for item in lock.items
            for source in (*item.sources, *item.files)
            if source.unhashed
        ),
    )
    differing = (
        f"{name}: the recipe says {said or 'nothing'}, the lock {locked or 'nothing'}"
        for name, said, locked in rows
        if said != locked
    )
    return [*_unreleased(lock), *differing]


def _unreleased(lock: EasyBuildLock) -> Iterator[str]:
    """Yield where the version that envmgr knows itself has other files than those that were released."""
    if lock.framework != EASYBUILD or not lock.easybuild_files:
        return
    if lock.easybuild_sha256 != DEFAULT_CONTENTS:
        released, locked = DEFAULT_CONTENTS[:8], lock.easybuild_sha256[:8]
        yield f"easybuild_sha256: EasyBuild {EASYBUILD} was released as {released}…, the lock says {locked}…"
    for file in lock.easybuild_files:
        if not file.builds and file not in DEFAULT_FILES:
            yield f"easybuild_files: {file.name} was released with another sha256"


def differing_from_now(lock: EasyBuildLock, wanted: EasyBuildInput, site: Site) -> list[str]:
    """Return the settings of GPUs that items ask for and that the lock has with other values than now."""
    asked = {setting for item in lock.items for setting in item.asks}
    locked, now = said_by(lock), said_now(wanted, site)
    return [
        f"{'input.' + setting if getattr(wanted, setting) else FIELDS[setting]} says "
        f"{', '.join(now[setting]) or 'nothing'}, the lock {', '.join(locked[setting]) or 'nothing'}"
        for setting in SETTINGS
        if setting in asked and now[setting] != locked[setting]
    ]


def lock_facts(lock: EasyBuildLock) -> LockFacts:
    """Return what is judged of a lock: the CUDA of its closure, and what is made for which."""
    majors: dict[str, list[str]] = {}
    for item in lock.items:
        own = _MAJOR.match(item.version) if item.name in _TOOLKITS else None
        for major in sorted({own[1]} if own else {*_FOR_CUDA.findall(item.version)}):
            majors.setdefault(major, []).append(f"{item.name} {item.version}")
    toolkit = next((version for name in _TOOLKITS if (version := version_of(lock, name))), None)
    compat = short_cuda((version_of(lock, "CUDAcompat") or "").partition("-")[0])
    return LockFacts(short_cuda(toolkit) or ("" if majors else None), majors, compat=compat or "")


def version_of(lock: EasyBuildLock, name: str) -> str | None:
    """Return the version of that software in the closure; None without it."""
    return next((item.version for item in lock.items if item.name == name), None)


def licence_words(lock: EasyBuildLock) -> tuple[str, ...]:
    """Return the words that the site must have in `policies.licences`, each once."""
    found = [eula_word(name) for name in lock.accept_eula]
    for item in lock.items:
        found += _words(item)
    return tuple(dict.fromkeys(found))


def _words(item: LockedItem) -> Iterator[str]:
    yield from (eula_word(name) for name in item.eulas)
    if item.name.lower() in _NVIDIA:
        yield eula_word(item.name)
    files = (*item.sources, *item.files)
    if _ANACONDA_NAMES.fullmatch(item.name) or any(_from_anaconda(each.name, each.urls) for each in files):
        yield _ANACONDA


def _from_anaconda(name: str, urls: tuple[str, ...]) -> bool:
    return _ANACONDA_FILES.fullmatch(name) is not None or any(map(_ANACONDA_URL.match, urls))
