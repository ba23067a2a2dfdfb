"""Wheels beside conda packages: what packages bring by their names, and the items of a lock."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from envmgr.backends.conda.lock import ChannelSource, CondaLock, LockedPackage
from envmgr.backends.conda.lockfile import LOCK_NAME, SIDECAR_NAME, lock_texts, read_lock
from envmgr.backends.conda.models import CondaInput
from envmgr.backends.conda.pip import promised_distributions, require_python
from envmgr.catalog.locks import recipe_digest
from envmgr.errors import EnvmgrError, InputError
from envmgr.wheels.locked import AddedWheels, LockedWheel

URL = "https://example.org/channel"
PLACE = "https://files.example.org/one-1.0-py3-none-any.whl"


def package(
    name: str, version: str = "1.0", build: str = "py_0", depends: tuple[str, ...] = ("python",)
) -> LockedPackage:
    url = f"{URL}/noarch/{name}-{version}-{build}.conda"
    return LockedPackage(name, version, build, url, "1" * 32, "2" * 64, depends)


def lock(*wheels: LockedWheel, python: str = "3.11.7", assumed: dict[str, str] | None = None) -> CondaLock:
    added = AddedWheels(python=python, platform="x86_64-manylinux_2_28", uv="1", wheels=wheels, assumed=assumed or {})
    packages = (package("python", python, "0_cpython", ()), package("six"))
    return CondaLock("linux-64", "d" * 64, packages, (ChannelSource(URL, URL),), added if wheels else None)


def wheel(name: str = "one", **given: Any) -> LockedWheel:
    row = {"name": name, "version": "1.0", "file": f"{name}-1.0-py3-none-any.whl", "sha256": "3" * 64, "index": "own"}
    row |= {"url": f"index:own/{name}-1.0-py3-none-any.whl"}
    return LockedWheel.model_validate(row | given)


def write(folder: Path, made: CondaLock) -> Path:
    for name, text in lock_texts(made).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / LOCK_NAME


def change(path: Path, **fields: Any) -> None:
    """The pip item of a lock that lost its sidecar."""
    (path.parent / SIDECAR_NAME).unlink(missing_ok=True)
    data = yaml.safe_load(path.read_text())
    data["package"][-1].update(fields)
    path.write_text(yaml.safe_dump(data, sort_keys=False))


def test_packages_bring_distributions_by_their_names() -> None:
    found = promised_distributions(
        [
            package("six"),
            package("typing_extensions", "4.0"),
            package("pytorch", "2.1.2", depends=("python >=3.11", "libtorch")),
            package("matplotlib", "3.8", depends=("matplotlib-base", "python>=3.9")),
            package("matplotlib-base", "3.8.2"),
            package("Ruamel.Yaml", "0.18", depends=("python_abi 3.11.* *_cp311",)),
            package("zlib", depends=("libgcc",)),
            package("python_abi"),
            package("strange", "9e"),
            package("pytorch-cuda", "11.8"),
        ]
    )
    assert found == {
        "six": ("six", "1.0"),
        "typing-extensions": ("typing_extensions", "4.0"),
        "torch": ("pytorch", "2.1.2"),
        "matplotlib": ("matplotlib-base", "3.8.2"),
        "ruamel-yaml": ("Ruamel.Yaml", "0.18"),
    }


@pytest.mark.parametrize("build", ["73_pypy", "h1_1_cp313t", "0_graalpy", None])
def test_python_that_wheels_cannot_be_added_to(build: str | None) -> None:
    packages = [package("python", "3.13.0", build, ())] if build else [package("six")]
    with pytest.raises(EnvmgrError) as caught:
        require_python(packages)
    assert caught.value.reference == "pip-without-python"


def test_lock_with_wheels_reads_back_with_its_sidecar_and_has_the_same_identity_without(tmp_path: Path) -> None:
    made = lock(wheel("a", requires=("six",)), wheel("one", size=5), assumed={"six": "six 1.0"})
    path = write(tmp_path, made)
    assert read_lock(tmp_path)[0] == made
    (tmp_path / SIDECAR_NAME).unlink()
    bare = read_lock(tmp_path)[0]
    assert bare.identity() == made.identity()
    assert bare.added is not None
    assert [(w.name, w.index, w.url) for w in bare.added.wheels] == [
        (name, "own", f"index:own/{name}-1.0-py3-none-any.whl") for name in ("a", "one")
    ]
    assert (bare.added.python, path.read_text().count("manager: pip")) == ("3.11.7", 2)


def test_wheels_decide_the_identity_and_where_they_lie_does_not() -> None:
    own = lock(wheel())
    assert own.identity() != lock().identity()
    assert own.identity() == lock(wheel(index="", url=PLACE)).identity()
    assert own.identity() != lock(wheel(sha256="4" * 64)).identity()


def test_dependencies_of_an_item_are_those_of_its_platform() -> None:
    rows = ("Six>=1,<2", "old; python_version<'3'", "more; extra == 'all'", "win; sys_platform == 'win32'", "any", "??")
    data = yaml.safe_load(lock_texts(lock(wheel(requires=rows)))[LOCK_NAME])
    assert data["package"][-1]["dependencies"] == {"any": "*", "six": "<2,>=1"}


def test_name_of_a_package_and_a_wheel_are_told_apart() -> None:
    made = lock(wheel("six"), wheel("one"))
    assert made.describe() == {
        "python": "3.11.7 0_cpython",
        "six": "1.0 py_0",
        "one": "1.0 py3-none-any",
        "six (pip)": "1.0 py3-none-any",
    }


def test_item_of_another_tool_is_had_at_its_url(tmp_path: Path) -> None:
    path = write(tmp_path, lock(wheel()))
    change(path, name="One", url=f"{PLACE}?x#sha256=00")
    added = read_lock(tmp_path)[0].added
    assert added is not None
    assert [(w.name, w.file, w.index, w.url) for w in added.wheels] == [
        ("one", "one-1.0-py3-none-any.whl", "", f"{PLACE}?x#sha256=00")
    ]


@pytest.mark.parametrize(
    ("fields", "reference", "told"),
    [
        ({"url": "https://files.example.org/one-1.0.tar.gz"}, "lock-invalid", "the URL names no wheel of one 1.0"),
        ({"url": "git+https://example.org/one.git"}, "lock-invalid", "the URL names no wheel of one 1.0"),
        (
            {"url": "git+https://example.org/one-1.0-py3-none-any.whl"},
            "lock-invalid",
            "the URL names no wheel of one 1.0",
        ),
        ({"version": "2.0"}, "lock-invalid", "the URL names no wheel of one 2.0"),
        ({"name": "other"}, "lock-invalid", "the URL names no wheel of other 1.0"),
        ({"url": PLACE, "hash": {"md5": "1" * 32}}, "lock-unhashed", "one 1.0 has no sha256"),
        ({"hash": None}, "lock-invalid", "`name`, `version` and `url` must be texts, `hash` a mapping"),
        ({"manager": "npm"}, "lock-invalid", "manager `npm` is not supported"),
        ({"platform": "osx-64"}, "lock-invalid", "platform `osx-64` in a lock for linux-64"),
    ],
    ids=["sdist", "git", "git-wheel", "version", "name", "no-sha256", "no-hash", "manager", "platform"],
)
def test_items_that_are_refused(tmp_path: Path, fields: dict[str, Any], reference: str, told: str) -> None:
    path = write(tmp_path, lock(wheel()))
    change(path, **fields)
    with pytest.raises(InputError, match=re.escape(told)) as caught:
        read_lock(tmp_path)
    assert caught.value.reference == reference


def test_wheels_that_are_locked_twice_and_wheels_for_no_python(tmp_path: Path) -> None:
    path = write(tmp_path, lock(wheel()))
    change(path)
    data = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**data, "package": [*data["package"], data["package"][-1]]}))
    with pytest.raises(InputError, match="one is locked twice"):
        read_lock(tmp_path)
    path.write_text(yaml.safe_dump({**data, "package": data["package"][1:]}))
    with pytest.raises(InputError, match="wheels for no Python"):
        read_lock(tmp_path)


def test_digest_of_an_input_without_wheels_is_what_it_was_and_all_that_is_for_them_counts_with_them() -> None:
    plain = {"channels": ("c",), "specs": ("python 3.11.*",)}
    before = {
        **plain,
        "platform": "linux-64",
        "virtual_packages": {"__glibc": "2.28", "__linux": "4.18", "__unix": "0"},
    }
    assert CondaInput.model_validate(plain).digest() == recipe_digest("conda", before)
    assert CondaInput.model_validate({**plain, "pip": []}).digest() == recipe_digest("conda", before)
    more: list[dict[str, Any]] = [
        {"pip": ["one"]},
        {"pip": ["one", "two"]},
        {"pip": ["one"], "indexes": ["own"]},
        {"pip": ["one"], "exclude_newer": "2025-01-01"},
    ]
    found = {CondaInput.model_validate(plain | each).digest() for each in [{}, *more]}
    assert len(found) == 5
