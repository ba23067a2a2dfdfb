"""The clusters that tests share: one of each kind a session, made at first use. After each test its programs and jobs are ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.cluster.cluster import Share
from tests.helpers.cluster.needs import reason_to_skip

# Of these, the tests of a file run in one worker: they share a cluster, or one path that a process of another would be seen to use.
ONE_WORKER = ("tests/cluster/",)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup`, the tests of a file below `ONE_WORKER` run in one worker, as each boots the clusters, and sets them up, for
    itself.

    By the file, not by `xdist_group` marks: with pytest 9.2 xdist 3.8 does not see them (it sets the attribute `_nodeid`).
    """
    from xdist.scheduler import LoadGroupScheduling

    class ByClusterFile(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", maxsplit=1)[0]
            return file if file.startswith(ONE_WORKER) else super()._split_scope(nodeid)

    return ByClusterFile(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.fixture(scope="session")
def cluster_possible() -> None:
    """Skips where there can be no cluster, saying why."""
    if reason := reason_to_skip():
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def _clean_scene(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test leaves on a cluster, one that failed above all, is ended before the next test."""
    yield
    given = [getattr(value, "cluster", value) for value in (request.node.funcargs or {}).values()]
    for cluster in {id(value): value for value in given if isinstance(value, Cluster)}.values():
        if cluster.running():
            cluster.clear()


def _cluster(factory: pytest.TempPathFactory, name: str, share: Share) -> Iterator[Cluster]:
    cluster = Cluster(factory.mktemp(name) / "lab", share=share)
    cluster.up()
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def own_cluster(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster like `cluster` for the tests of one file, which find it as new and need not leave it so."""
    yield from _cluster(tmp_path_factory, "own_cluster", "bind")


@pytest.fixture(scope="session")
def cluster(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three compute nodes, the prefix bound into each: no cache, no hang."""
    yield from _cluster(tmp_path_factory, "cluster", "bind")


@pytest.fixture(scope="session")
def sshfs_cluster(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The prefix over sshfs, read-only on compute nodes."""
    yield from _cluster(tmp_path_factory, "sshfs_cluster", "sshfs")


@pytest.fixture(scope="session")
def nfs_cluster(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The prefix over real NFSv3."""
    yield from _cluster(tmp_path_factory, "nfs_cluster", "nfs")
