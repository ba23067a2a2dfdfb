"""The clusters that tests share: one of each kind a session, made at first use. A test leaves it as it found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import Cluster
from tests.cluster.cluster import Share
from tests.cluster.needs import reason_to_skip

KINDS: dict[str, Share] = {"cluster": "bind", "sshfs_cluster": "sshfs", "nfs_cluster": "nfs"}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of one shared cluster run in one worker (`--dist loadgroup`): not every worker boots every kind."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        asked = {*getattr(item, "fixturenames", ()), *map(str, callspec.params.values() if callspec else ())}
        kinds = sorted(KINDS.keys() & asked)
        if kinds:
            item.add_marker(pytest.mark.xdist_group(kinds[0]))


@pytest.fixture(scope="session")
def cluster_possible() -> None:
    """Skips where there can be no cluster, saying why."""
    if reason := reason_to_skip():
        pytest.skip(reason)


def _cluster(factory: pytest.TempPathFactory, name: str) -> Iterator[Cluster]:
    cluster = Cluster(factory.mktemp(name) / "lab", share=KINDS[name])
    cluster.up()
    yield cluster
    cluster.down()


@pytest.fixture(scope="session")
def cluster(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three compute nodes, the prefix bound into each: no cache, no hang."""
    yield from _cluster(tmp_path_factory, "cluster")


@pytest.fixture(scope="session")
def sshfs_cluster(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The prefix over sshfs, read-only on compute nodes."""
    yield from _cluster(tmp_path_factory, "sshfs_cluster")


@pytest.fixture(scope="session")
def nfs_cluster(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The prefix over real NFSv3."""
    yield from _cluster(tmp_path_factory, "nfs_cluster")
