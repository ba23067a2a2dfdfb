"""The EasyBuild tests' fixtures, for conftest: the scene itself imports conftest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def workshop() -> Iterator[Any]:
    """A site for EasyBuild in a folder that the build user can reach."""
    from envmgr.system.files import remove_tree
    from tests.helpers.easybuild.workshop import make_workshop

    box = make_workshop()
    yield box
    box.clear()
    remove_tree(box.root)


@pytest.fixture(scope="module")
def _opened_shop(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.helpers.easybuild.slurm_workshop import open_shop

    yield from open_shop(cluster, tmp_path_factory)


@pytest.fixture
def shop(_opened_shop: Any) -> Iterator[Any]:
    """The test cluster with toys to build as Slurm jobs. Each test finds no job, no request, all gates open."""
    yield _opened_shop
    _opened_shop.clear()
