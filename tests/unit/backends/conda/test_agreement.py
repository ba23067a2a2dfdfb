"""A sidecar that says something else than the lock that people review."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.conda.lock import ChannelSource, CondaLock, LockedPackage
from envmgr.backends.conda.lockfile import LOCK_NAME, SIDECAR_NAME, lock_texts, read_lock
from envmgr.errors import InputError

URL = "https://example.org/channel"
EVIL = f"{URL}/linux-64/zlib-1.3-evil_5.conda"
Attack = Callable[[dict[str, Any], str], str]
"""Changes the sidecar; returns the text of the lock."""


def package(name: str, **changes: Any) -> LockedPackage:
    base = {"name": name, "version": "1.3", "build": "h1_5", "build_number": 5, "subdir": "linux-64", "md5": "1" * 32}
    base |= {"url": f"{URL}/linux-64/{name}-1.3-h1_5.conda", "sha256": "2" * 64, "depends": ("libc >=2", "xz")}
    return LockedPackage(**{**base, **changes})


def write(folder: Path) -> None:
    lock = CondaLock(
        "linux-64",
        "d" * 64,
        (package("xz", depends=()), package("zlib")),
        (ChannelSource("c", URL, "channel", {}),),
        {},
        "rattler 0",
    )
    for name, text in lock_texts(lock).items():
        (folder / name).write_text(text)


def named_twice(data: dict[str, Any], text: str) -> str:
    data["packages"][0] = data["packages"][1]
    return text


def in_a_block_of_the_metadata(data: dict[str, Any], text: str) -> str:
    data["packages"][1] |= {"url": EVIL, "sha256": "e" * 64, "build": "evil_5"}
    hidden = f"  custom_metadata:\n    note: |\n      url: {EVIL}\n      sha256: {'e' * 64}\n"
    return text.replace("  custom_metadata:\n", hidden)


def of_the_first(**fields: Any) -> Attack:
    def change(data: dict[str, Any], text: str) -> str:
        data["packages"][0] |= fields
        return text

    return change


def of_the_sidecar(**fields: Any) -> Attack:
    def change(data: dict[str, Any], text: str) -> str:
        data |= fields
        return text

    return change


def swapped_sums(data: dict[str, Any], text: str) -> str:
    """Each sum stands somewhere in the lock."""
    data["packages"][0]["md5"] = "3" * 32
    return text + f"# md5: {'3' * 32}\n"


ATTACKS: dict[str, Attack] = {
    "a package named twice drops another": named_twice,
    "url and sum in a block of the metadata": in_a_block_of_the_metadata,
    "sum in a comment": swapped_sums,
    "another sha256": of_the_first(sha256="e" * 64),
    "another version": of_the_first(version="1.4"),
    "another build": of_the_first(build="h2_5"),
    "another dependency": of_the_first(depends=["evil"]),
    "one package less": lambda data, text: data["packages"].pop() and text,
    "one package more": lambda data, text: data["packages"].append(data["packages"][0]) or text,
    "another platform": of_the_sidecar(platform="linux-aarch64"),
    "another recipe": of_the_sidecar(recipe_digest="e" * 64),
    "another channel": of_the_sidecar(
        channels=[{"name": "c", "url": "https://evil.example", "kind": "channel", "repodata": {}, "note": ""}]
    ),
    "noarch, which the installer goes by": of_the_first(noarch="python"),
    "a folder of packages outside": of_the_first(python_site_packages_path="../../etc"),
    "another subdir": of_the_first(subdir="osx-64"),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_sidecar_that_says_something_else_than_the_lock_is_refused(tmp_path: Path, attack: Attack) -> None:
    write(tmp_path)
    assert [p.name for p in read_lock(tmp_path)[0].packages] == ["xz", "zlib"]
    data = json.loads((tmp_path / SIDECAR_NAME).read_text())
    text = attack(data, (tmp_path / LOCK_NAME).read_text())
    (tmp_path / LOCK_NAME).write_text(text)
    (tmp_path / SIDECAR_NAME).write_text(json.dumps({**data, "lock_sha256": hashlib.sha256(text.encode()).hexdigest()}))
    with pytest.raises(InputError) as caught:
        read_lock(tmp_path)
    assert caught.value.reference == "lock-invalid"
    assert SIDECAR_NAME in caught.value.message
