"""The fixtures that tests of every tier may ask for; README.md tells what each gives."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.places import CACHE
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel, cached_channel

pytest_plugins = [
    "tests.helpers.long_tests",
    "tests.helpers.cluster.fixtures",
    "tests.helpers.audit_scene",
    "tests.helpers.image_scene",
    "tests.helpers.easybuild.fixtures",
]


# A shell that starts pytest in the background has it ignore Ctrl-C, and all that it starts: tests interrupt what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test` tells each `make` below it that it is a child, which then says where it goes: tests read what a first one says.
for _name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
    os.environ.pop(_name, None)

# The one profile of the property tests: how long an example takes depends on the machine and says nothing.
settings.register_profile("envmgr", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("envmgr")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No limit of time for what takes minutes by itself."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(scope="session")
def channel() -> Channel:
    """The stand-in channel as a folder, built once for all tests and sessions."""
    return cached_channel(CACHE)


@pytest.fixture
def sandbox(tmp_path: Path, channel: Channel) -> Iterator[Sandbox]:
    """A site whose channel is the stand-in folder."""
    box = Sandbox(tmp_path, str(channel.folder))
    box.write_site()
    yield box
    box.clear()


@pytest.fixture
def make_sandbox(tmp_path: Path) -> Iterator[Callable[[str, str], Sandbox]]:
    """Several sandboxes: `make_sandbox(name, mirror)`."""
    made: list[Sandbox] = []

    def make(name: str, mirror: str) -> Sandbox:
        (tmp_path / name).mkdir()
        made.append(Sandbox(tmp_path / name, mirror))
        made[-1].write_site()
        return made[-1]

    yield make
    for box in made:
        box.clear()
