"""Licences that the site must have accepted: of everything in a lock, whatever its recipe calls it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from envmgr.backends.easybuild.input import eula_word
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem

_ANACONDA = "anaconda-terms"
_ANACONDA_NAMES = re.compile(r"(ana|mini)conda[0-9]*", re.IGNORECASE)
_ANACONDA_FILES = re.compile(r"(ana|mini)conda[0-9]*-.*\.sh", re.IGNORECASE)
_ANACONDA_HOSTS = ("repo.anaconda.com", "repo.continuum.io")
# Under an agreement of NVIDIA's, whether or not an easyblock asks for it. Source: docs.nvidia.com, the page of each.
_NVIDIA = frozenset({"cuda", "cudnn", "cusparselt", "cutensor", "tensorrt"})


def words_of(lock: EasyBuildLock) -> tuple[str, ...]:
    """The words that the site must have in `policies.licences`, each once."""
    found = [eula_word(name) for name in lock.accept_eula]
    for item in lock.items:
        found += _words(item)
    return tuple(dict.fromkeys(found))


def _words(item: LockedItem) -> Iterator[str]:
    yield from (eula_word(name) for name in item.eulas)
    if item.name.lower() in _NVIDIA:
        yield eula_word(item.name)
    if _ANACONDA_NAMES.fullmatch(item.name) or any(
        _from_anaconda(s.name, s.urls) for s in (*item.sources, *item.files)
    ):
        yield _ANACONDA


def _from_anaconda(name: str, urls: tuple[str, ...]) -> bool:
    hosts = ((urlsplit(url).hostname or "").lower() for url in urls)
    return _ANACONDA_FILES.fullmatch(name) is not None or any(host in _ANACONDA_HOSTS for host in hosts)
