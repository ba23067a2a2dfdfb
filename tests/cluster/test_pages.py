"""What README and the pages of docs show is typed on a real cluster, as it stands there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import Cluster
from tests.helpers.pages import Typist, to_type
from tests.helpers.places import CACHE
from tests.helpers.sandbox import PYTHON
from tests.helpers.standin.channel import cached_channel
from tests.helpers.standin.wheels import fetch_wheels, pins
from tests.helpers.wheelhouse import Wheelhouse

INDEX = """\
  wheels: {indexes: {pypi: {url: "file:///srv/index/simple"}}}
"""
SOLVE = "python -c 'import numpy; print(numpy.linalg.solve([[2, 1], [1, 3]], [3, 5]))'"
TEXTFILES = "/var/lib/prometheus/node-exporter"
TYPED = ("README.md", *(f"docs/{name}.md" for name in ("audit", "jobs", "monitoring", "node-setup", "recipe", "sources")))
NUMPY = next(pin for pin in pins() if pin.name == "numpy")


def spoken(text: str) -> str:
    """A page's text with the Python that tests have, and its numpy."""
    minor = NUMPY.version.rpartition(".")[0]
    text = text.replace("3.11", PYTHON).replace("cp311", f"cp{PYTHON.replace('.', '')}")
    return text.replace("1.26.4", NUMPY.version).replace("numpy==1.26.*", f"numpy=={minor}.*")


@pytest.fixture
def fresh(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster on which nobody ever heard of envmgr, apart from the program. A local index stands in for the public one."""
    cluster.put_envmgr_on_path()
    house = Wheelhouse(Path(f"/proc/{cluster.pid('login')}/root/srv/index"))
    fetch_wheels([NUMPY], CACHE / "wheels")
    house.add(*(CACHE / "wheels").glob(f"numpy-{NUMPY.version}-*"))
    yield cluster
    cluster.sh("login", "rm -rf /srv/index", check=True)


def test_quick_start_is_typed_from_nothing_to_a_job_and_back(fresh: Cluster) -> None:
    before = state(fresh)
    typist = Typist(fresh, spoken)
    for block in to_type("docs/quickstart.md"):
        typist.type(block)
        if any("envmgr init" in line for line in block.lines):  # the public index is not reachable from here
            fresh.sh("login", f"sed -i '/^backends:/a\\{INDEX.rstrip()}' /etc/envmgr/site.yaml", check=True)
        if "TaskProlog=" in str(block.lines):
            fresh.wait_idle()
    assert state(fresh) == before


def state(cluster: Cluster) -> dict[str, list[str]]:
    """What lies in /etc of every node, by sha256, and what the prefix has. Backups of passwd and the like are useradd's own."""
    script = r"""
        cd / && find etc cluster/sw usr/local/bin ! -name '*-' \( -type f -exec sha256sum {} + -o -printf '%p %l\n' \) | sort
        find run var/lib -name '*envmgr*'
    """
    return {node: cluster.sh(node, script).stdout.splitlines() for node in cluster.names}


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[Audited]:
    """A cluster as the pages have it: an entry of conda packages, one whose tests need two nodes, node-setup done."""
    made = Audited(cluster)
    cluster.put_envmgr_on_path()
    cluster.empty_prefix("rsw")
    cluster.write_site()
    cluster.recipe("pydata/1.0", ["python", f"numpy {NUMPY.version}"], tests=[{"name": "solve", "run": SOLVE}])
    two = {"name": "two-nodes", "needs": ["slurm"], "nodes": 2, "run": "srun hostname"}
    cluster.recipe("mpich/4.3", ["python"], tests=[two])
    made.envmgr("lock", "pydata/1.0", "mpich/4.3")
    made.envmgr("build", "pydata/1.0", "mpich/4.3")
    made.set_up("login,c[1-3]")
    made.task_prolog()
    cluster.sh("login", f"ln -sfn {cached_channel(CACHE).folder} /mnt/channel; mkdir -p {TEXTFILES}", check=True)
    cluster.write("login", "/home/alice/solve.py", "import numpy\n")
    yield made


@pytest.fixture
def as_before(lab: Audited) -> Iterator[Cluster]:
    """A page may change site and nodes."""
    files = "/etc/envmgr/site.yaml"
    lab.cluster.sh("login", f"cp {files} /root/kept", check=True)
    yield lab.cluster
    lab.cluster.sh("login", f"cp /root/kept {files}", check=True)
    lab.set_up("login,c[1-3]")
    lab.cluster.wait_idle()


@pytest.mark.parametrize(
    ("page", "sections"), [(page, ()) for page in TYPED] + [("docs/tour.md", ("Before and after a publish",))]
)
def test_page_is_typed_as_it_stands_there(as_before: Cluster, page: str, sections: tuple[str, ...]) -> None:
    found = to_type(page, *sections)
    assert found
    typist = Typist(as_before, spoken)
    for block in found:
        typist.type(block)


def test_tour_of_one_machine_is_typed_as_it_stands_there(lab: Audited) -> None:
    lab.cluster.sh("login", "mkdir -p /mnt/storage0", check=True)
    Typist(lab.cluster, spoken, "/mnt/storage0").type(*to_type("docs/tour.md", "On one machine"))
