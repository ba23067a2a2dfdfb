"""The stand-in channel: the same bytes twice, with their hashes, of wheels that are what the lock names."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.helpers.places import CACHE
from tests.helpers.standin.channel import Channel, build_channel, cached_channel
from tests.helpers.standin.package import StandinError
from tests.helpers.standin.wheels import Pin, fetch_wheels
from tests.helpers.wheelhouse import Wheelhouse


@pytest.fixture(scope="session")
def channel() -> Channel:
    return cached_channel(CACHE)


def test_records_carry_hashes_of_files(channel: Channel) -> None:
    for name, record in channel.records.items():
        data = (channel.folder / name).read_bytes()
        assert record["size"] == len(data)
        assert record["sha256"] == hashlib.sha256(data).hexdigest()
        assert record["md5"] == hashlib.md5(data).hexdigest()
        assert record["timestamp"] > 0


def test_build_gives_same_bytes_twice(tmp_path: Path) -> None:
    some = {"hello-prefix", "six", "left", "python"}
    digests = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        build_channel(folder, wheels=CACHE / "wheels", packages=some)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        digests.append([(str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).digest()) for path in files])
    assert len(digests[0]) == len(some) + 2
    assert digests[0] == digests[1]


def test_wheel_of_other_bytes_than_the_lock_names_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, wheels = Wheelhouse(tmp_path / "index"), tmp_path / "wheels"
    house.wheel("six", "1.17.0")
    for name, value in (("CONFIG_FILE", os.devnull), ("INDEX_URL", house.simple.as_uri())):
        monkeypatch.setenv(f"PIP_{name}", value)
    six = Pin("six", "1.17.0")
    with pytest.raises(StandinError):
        fetch_wheels([six], wheels)
    assert list(wheels.glob("*.whl")) == []
    (real,) = fetch_wheels([six], CACHE / "wheels")
    house.add(real)
    assert [path.name for path in fetch_wheels([six], wheels)] == [real.name]
    with pytest.raises(StandinError, match=r"has no six 1\.16\.0"):
        fetch_wheels([Pin("six", "1.16.0")], wheels)
