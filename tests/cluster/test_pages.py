"""What README and the pages of docs show is typed on a real cluster, as it stands there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from envmgr.system.yamlfile import dump_yaml
from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.site import SITE
from tests.helpers.pages import NUMPY, TYPED, Typist, spoken, to_type
from tests.helpers.places import CACHE
from tests.helpers.standin.channel import cached_channel

SOLVE = "python -c 'import numpy; print(numpy.linalg.solve([[2, 1], [1, 3]], [3, 5]))'"
TEXTFILES = "/var/lib/prometheus/node-exporter"
# Pages whose blocks need nothing but the scene. The tour's other sections need other scenes.
PLAIN = [
    (page, () if page != "docs/tour.md" else ("Before and after a publish",))
    for page, file in TYPED.items()
    if file == "tests/cluster/test_pages.py" and page != "docs/signing.md"
]


@pytest.fixture(scope="module")
def lab(own_cluster: Cluster) -> Audited:
    """A cluster as the pages have it: an entry of conda packages, one whose tests need two nodes, node-setup done."""
    cluster = own_cluster
    made = Audited(cluster)
    cluster.put_envmgr_on_path()
    cluster.empty_prefix("rsw")
    cluster.write_site()
    cluster.write("login", SITE, dump_yaml(json.loads(cluster.sh("login", f"cat {SITE}").stdout), width=120))
    cluster.recipe("pydata/1.0", ["python", f"numpy {NUMPY.version}"], tests=[{"name": "solve", "run": SOLVE}])
    two = {"name": "two-nodes", "needs": ["slurm"], "nodes": 2, "run": "srun hostname"}
    cluster.recipe("mpich/4.3", ["python"], tests=[two])
    made.envmgr("lock", "pydata/1.0", "mpich/4.3")
    made.envmgr("build", "pydata/1.0", "mpich/4.3")
    made.set_up("login,c[1-3]")
    made.task_prolog()
    cluster.sh("login", f"ln -sfn {cached_channel(CACHE).folder} /mnt/channel; mkdir -p {TEXTFILES}", check=True)
    cluster.write("login", "/home/alice/solve.py", "import numpy\n")
    return made


@pytest.fixture
def as_before(lab: Audited) -> Iterator[Cluster]:
    """A page may change site and nodes."""
    lab.cluster.sh("login", f"cp {SITE} /root/kept", check=True)
    yield lab.cluster
    lab.cluster.sh("login", f"cp /root/kept {SITE}", check=True)
    lab.set_up("login,c[1-3]")
    lab.task_prolog()


@pytest.mark.parametrize(("page", "sections"), PLAIN)
def test_page_is_typed_as_it_stands_there(as_before: Cluster, page: str, sections: tuple[str, ...]) -> None:
    found = to_type(page, *sections)
    assert found
    typist = Typist(as_before, spoken)
    for block in found:
        typist.type(block)


def test_tour_of_one_machine_is_typed_as_it_stands_there(lab: Audited) -> None:
    lab.cluster.sh("login", "mkdir -p /mnt/storage0", check=True)
    Typist(lab.cluster, spoken, "/mnt/storage0").type(*to_type("docs/tour.md", "On one machine"))


def test_site_begins_to_sign_and_accepts_a_gap_as_the_page_types_it(lab: Audited, as_before: Cluster) -> None:
    begin, sign, gap = to_type("docs/signing.md")
    flips = len(list((as_before.host_prefix / "flips").glob("*.json")))

    def here(text: str) -> str:
        text = text.replace("generation 42: flip 118", f"generation {lab.generation}: flip {flips + 1}")
        text = text.replace("flip 118,", f"flip {flips + 1},")
        text = text.replace("generation 2: flip 4", f"generation {lab.generation}: flip {flips + 3}")
        return text.replace("there is no flip 2", f"there is no flip {flips + 1}")

    typist = Typist(as_before, here)
    typist.type(begin)
    typist.type(sign)
    lab.envmgr("sign")
    as_before.sh("fs1", f"rm /export/sw/flips/{flips + 1:06}.json*", check=True)
    typist.type(gap)
