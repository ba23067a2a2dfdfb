"""A conda recipe and its lock with a user's wheels: nothing is solved, and what conda brings is found by its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.conda.extend import extended
from envmgr.backends.conda.judging import faults_of
from envmgr.backends.conda.lock import ChannelSource, CondaLock, LockedPackage
from envmgr.backends.conda.lockfile import read_lock
from envmgr.backends.conda.models import CondaInput
from envmgr.errors import InputError
from envmgr.wheels.difference import Difference
from envmgr.wheels.locked import AddedWheels, LockedWheel, WheelSet

PLATFORM = "x86_64-manylinux_2_28"
SAID = {"channels": ["forge"], "specs": ["python", "python-tzdata", "six"]}


def package(name: str, version: str, *depends: str) -> LockedPackage:
    url = f"https://forge.invalid/noarch/{name}-{version}-0.conda"
    return LockedPackage(name, version, "0", 0, "noarch", url, "1" * 32, "2" * 64, depends)


def wheel(name: str, version: str = "1.0", *requires: str, index: str = "pypi") -> LockedWheel:
    file = f"{name}-{version}-py3-none-any.whl"
    url = f"index:{index}/{file}"
    return LockedWheel(name=name, version=version, file=file, sha256="3" * 64, index=index, requires=requires, url=url)


def difference(*wheels: LockedWheel, rows: tuple[str, ...], replaced: tuple[str, ...] = ()) -> Difference:
    own = WheelSet(python="3.11.7", platform=PLATFORM, uv="0.9", wheels=wheels)
    return Difference(rows, frozenset(replaced), own)


def base(said: Mapping[str, Any], *added: LockedWheel) -> CondaLock:
    own = AddedWheels(python="3.11.7", platform=PLATFORM, uv="0.8", wheels=added) if added else None
    packages = (
        package("python", "3.11.7"),
        package("python-tzdata", "2024a", "python >=3.8"),
        package("six", "1.17.0", "python"),
    )
    channels = (ChannelSource("forge", "https://forge.invalid", "channel", {}),)
    wanted = CondaInput.model_validate(said)
    return CondaLock("linux-64", wanted.digest(), packages, channels, wanted.all_virtual_packages(), "rattler", own)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An install: python-tzdata brings a distribution of another name, in another form of its version."""
    made = tmp_path / "install"
    info = made / "lib/python3.11/site-packages/tzdata-2024.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tzdata\nVersion: 2024.1\n")
    (made / "conda-meta").mkdir()
    for each in base(SAID).packages:
        files = [f"{info.relative_to(made)}/METADATA"] if each.name == "python-tzdata" else []
        record = {**each.to_json(), "files": files, "fn": each.file_name, "track_features": ""}
        (made / f"conda-meta/{each.name}.json").write_text(json.dumps(record))
    return made


def extend(
    said: dict[str, Any], lock: CondaLock, more: Difference, root: Path
) -> tuple[dict[str, Any], CondaLock, CondaInput]:
    given, files = extended(lock, CondaInput.model_validate(said), said, more, root)
    folder = root.parent / "recipe/1.0"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    wanted = CondaInput.model_validate(given)
    found = read_lock(folder)[0]
    assert found.recipe_digest == wanted.digest()
    assert found.packages == lock.packages
    return given, found, wanted


def test_wheels_come_beside_and_what_they_need_of_conda_is_found_by_its_files(root: Path) -> None:
    more = difference(wheel("dates", "1.0", "tzdata>=2024", "six"), rows=("dates",))
    given, found, wanted = extend(SAID, base(SAID), more, root)
    assert given == {**SAID, "pip": ["dates"], "indexes": ["pypi"]}
    assert found.added is not None
    assert found.added.assumed == {"tzdata": "python-tzdata 2024.1"}
    assert [*faults_of(found, wanted)] == []


def test_wheels_of_the_entry_stay_or_are_replaced_and_a_date_that_no_longer_holds_is_left_out(root: Path) -> None:
    said = {**SAID, "pip": ["old<2", "other[more]"], "indexes": ["house"], "exclude_newer": "2024-01-01"}
    lock = base(said, wheel("old", index="house"), wheel("other", index="house"))
    more = difference(wheel("old", "2.0"), wheel("extra"), rows=("other[else]", "old"), replaced=("old",))
    given, found, wanted = extend(said, lock, more, root)
    # Nothing asks for `extra` by a row that the lock has: an extra of a package elsewhere brought it.
    assert given["pip"] == ["other[more]", "other[else]", "old", "extra"]
    assert (given["indexes"], "exclude_newer" in given) == (["house", "pypi"], False)
    assert found.added is not None
    assert found.added.versions == {"extra": "1.0", "old": "2.0", "other": "1.0"}
    assert [*faults_of(found, wanted)] == []


def test_package_of_conda_is_not_replaced(root: Path) -> None:
    more = difference(wheel("six", "2.0"), rows=("six",), replaced=("six",))
    with pytest.raises(InputError, match="six comes as a package of conda's") as caught:
        extended(base(SAID), CondaInput.model_validate(SAID), SAID, more, root)
    assert caught.value.reference == "not-requestable"
