"""A lock of easyconfigs that was edited: its fields are the recipe's, and EasyBuild's files those that were released."""

from __future__ import annotations

from typing import Any

import pytest

from envmgr.backends.easybuild.lock import DEFAULT_CONTENTS, DEFAULT_FILES, EasyBuildLock
from envmgr.backends.easybuild.lock_checks import differing_from_recipe
from envmgr.backends.easybuild.settings import EasyBuildInput

WANTED = EasyBuildInput(easyconfig="toy-1.eb", unhashed={"toy.tar.gz": "its authors publish none"})
SOURCE = {"name": "toy.tar.gz", "sha256": "0" * 64, "unhashed": "its authors publish none"}
FIRST = {**DEFAULT_FILES[0].model_dump(), "sha256": "0" * 64}


def lock(source: dict[str, Any] | None = None, **fields: Any) -> EasyBuildLock:
    item = {"name": "toy", "version": "1", "easyconfig": "toy-1.eb", "origin": "catalog", "sha256": "0" * 64}
    made = {"recipe": WANTED.digest(), "framework": "5.4.1", "easyblocks": "5.4.1", "rpath": False}
    made |= {"easybuild_sha256": DEFAULT_CONTENTS, "easybuild_files": [file.model_dump() for file in DEFAULT_FILES]}
    return EasyBuildLock.model_validate(
        {**made, "items": [{**item, "sources": [{**SOURCE, **(source or {})}]}], **fields}
    )


def test_lock_as_it_was_written_differs_in_nothing() -> None:
    assert differing_from_recipe(lock(), WANTED) == []
    assert differing_from_recipe(lock(easybuild_files=[], easybuild_sha256="0" * 64), WANTED) == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"rpath": True}, "rpath: the recipe says nothing, the lock True"),
        ({"filter_deps": ["M4"]}, "filter_deps: the recipe says nothing, the lock M4"),
        ({"accept_eula": ["CUDA"]}, "accept_eula: the recipe says nothing, the lock CUDA"),
        (
            {"source": {"unhashed": "why not"}},
            "unhashed.toy.tar.gz: the recipe says its authors publish none, the lock why not",
        ),
        (
            {"source": {"name": "other.tar.gz"}},
            "unhashed.other.tar.gz: the recipe says nothing, the lock its authors publish none",
        ),
        (
            {"easybuild_sha256": "0" * 64},
            f"easybuild_sha256: EasyBuild 5.4.1 was released as {DEFAULT_CONTENTS[:8]}…, the lock says 00000000…",
        ),
        (
            {"easybuild_files": [FIRST, *(file.model_dump() for file in DEFAULT_FILES[1:])]},
            "easybuild_files: easybuild_framework-5.4.1.tar.gz was released with another sha256",
        ),
    ],
)
def test_field_that_was_changed_is_told(fields: dict[str, Any], told: str) -> None:
    assert differing_from_recipe(lock(**fields), WANTED) == [told]
