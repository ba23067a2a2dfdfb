"""The site that the tests of builds share."""

from __future__ import annotations

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, RUNS, locked


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    """Two locked entries; nothing is built."""
    locked(sandbox, "hello/1.0", HELLO, tests=RUNS)
    locked(sandbox, "other/1.0", ["hello-activate"])
    return sandbox
