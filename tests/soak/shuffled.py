"""A plugin of pytest: the tests of a file in an order of chance, and the files, too. $ENVMGR_TEST_ORDER is the seed."""

from __future__ import annotations

import os
import random
from itertools import groupby
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The same order in every worker: xdist needs that. Files stay together: what a module's fixtures make is made once."""
    chance = random.Random(os.environ["ENVMGR_TEST_ORDER"])
    files: list[tuple[Path, list[pytest.Item]]] = [
        (path, list(of)) for path, of in groupby(items, lambda item: item.path)
    ]
    chance.shuffle(files)
    for _, of in files:
        chance.shuffle(of)
    items[:] = [item for _, of in files for item in of]
