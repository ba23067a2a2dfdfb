"""Wheels beside conda packages: what packages bring by their names, and their lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.conda.lock import ChannelSource, CondaLock, LockedPackage
from envmgr.backends.conda.lockfile import LOCK_NAME, SIDECAR_NAME, lock_texts, read_lock
from envmgr.backends.conda.models import CondaInput
from envmgr.backends.conda.pip import promised_distributions, require_python
from envmgr.catalog.locks import recipe_digest
from envmgr.errors import EnvmgrError
from envmgr.wheels.lockfile import WHEELS_LOCK, LockedRow, LockedWheels

URL = "https://example.org/channel"
PLACE = "https://files.example.org/one-1.0-py3-none-any.whl"


def package(
    name: str, version: str = "1.0", build: str = "py_0", depends: tuple[str, ...] = ("python",)
) -> LockedPackage:
    url = f"{URL}/noarch/{name}-{version}-{build}.conda"
    return LockedPackage(name, version, build, url, "1" * 32, "2" * 64, depends)


def lock(*rows: LockedRow, recipe: str = "d" * 64) -> CondaLock:
    added = LockedWheels(recipe=recipe, python="3.11.7", platform="x86_64-manylinux_2_28", rows=rows)
    packages = (package("python", "3.11.7", "0_cpython", ()), package("six"))
    return CondaLock("linux-64", "d" * 64, packages, (ChannelSource(URL, URL),), added if rows else None)


def row(name: str = "one", sha256: str = "3" * 64, url: str | None = None) -> LockedRow:
    return LockedRow(name=name, version="1.0", sha256=sha256, url=url)


def write(folder: Path, made: CondaLock) -> Path:
    for name, text in lock_texts(made).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / LOCK_NAME


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


def test_wheels_are_a_file_of_their_own(tmp_path: Path) -> None:
    """It counts for the recipe that it was locked for: one that is left from an earlier recipe does not."""
    made = lock(row("a"), row("one", url=PLACE))
    path = write(tmp_path, made)
    assert [*lock_texts(made)] == [WHEELS_LOCK, SIDECAR_NAME, LOCK_NAME]
    assert "manager: pip" not in path.read_text()
    assert (tmp_path / WHEELS_LOCK).read_text().splitlines()[-2:] == [
        f"a==1.0 --hash=sha256:{'3' * 64}",
        f"one @ {PLACE} --hash=sha256:{'3' * 64}",
    ]
    found, sha256 = read_lock(tmp_path)
    assert found == made
    write(tmp_path, lock(row("a")))
    assert read_lock(tmp_path)[1] != sha256
    write(tmp_path, lock(row("a"), recipe="e" * 64))
    assert read_lock(tmp_path)[0].added is None


def test_wheels_decide_the_identity_and_where_they_lie_does_not() -> None:
    own = lock(row())
    assert own.identity() != lock().identity()
    assert own.identity() == lock(row(url=PLACE)).identity()
    assert own.identity() != lock(row(sha256="4" * 64)).identity()


def test_name_of_a_package_and_a_wheel_are_told_apart() -> None:
    assert lock(row("six"), row("one")).describe() == {
        "python": "3.11.7 0_cpython",
        "six": "1.0 py_0",
        "one": "1.0 33333333",
        "six (pip)": "1.0 33333333",
    }


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
