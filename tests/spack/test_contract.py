"""The Spack backend keeps the promises of the contract, with a real Spack."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.backend_promises import PROMISES, backends_of
from tests.helpers.backends import Scene, scene_module
from tests.helpers.real_spack import changed_files
from tests.helpers.standin.channel import Channel

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("name", backends_of("spack"))
def test_backend_keeps(name: str, promise: Callable[[Scene], None], tmp_path: Path, channel: Channel) -> None:
    before = changed_files()
    with contextmanager(scene_module(name).open_scene)(tmp_path, channel) as scene:
        promise(scene)
    assert changed_files() == before
