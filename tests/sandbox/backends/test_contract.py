"""Every backend whose builds are quick keeps the promises of the contract; tests/easybuild has the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.backend_promises import PROMISES, backends_of
from tests.helpers.backends import Scene, scene_module
from tests.helpers.standin.channel import Channel


@pytest.mark.always
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("name", backends_of("sandbox"))
def test_backend_keeps(name: str, promise: Callable[[Scene], None], tmp_path: Path, channel: Channel) -> None:
    with contextmanager(scene_module(name).open_scene)(tmp_path, channel) as scene:
        promise(scene)
