"""A cluster without envmgr that has four kinds of trees: a real one of EasyBuild, hand-written ones, and ones in the shapes of Spack's and EESSI's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.drifts import Drift, foreign_drifts
from tests.helpers.foreign_scene import EESSI, KINDS, LOCAL, NO_SITE, SPACK, Foreign, make, tried
from tests.helpers.spack_tree import FOLDER, recorded

# One of each tree; `make soak SOAK=foreign_drifts` plays all.
HERE = {"eb-rebuild-died", "eessi-not-mounted"}


@pytest.fixture(scope="module")
def foreign(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    scene = make(tmp_path_factory.mktemp("foreign") / "lab", KINDS)
    yield scene
    scene.cluster.down()


def test_healthy_cluster_is_silent_and_a_baseline_holds_every_tree(foreign: Foreign) -> None:
    assert foreign.told("--save-baseline", "/root/trees.yaml", code=0) == []
    text = foreign.cluster.sh("login", "cat /root/trees.yaml", check=True).stdout
    for place in (
        "/opt/eb/modules/all/Mesh/3.1.lua:\n",
        f"{SPACK}/share/spack/lmod/linux-debian12-x86_64/Core/cmake/3.27.7.lua:\n",
        f"{EESSI}/versions/2023.06/software/linux/x86_64/generic/modules/all/OpenMPI/4.1.5-GCC-12.3.0.lua:\n",
    ):
        assert place in text, place


@pytest.mark.parametrize("drift", [each for each in foreign_drifts() if each.name in HERE], ids=lambda each: each.name)
def test_drift_that_was_written_blind_is_named_on_its_node(foreign: Foreign, drift: Drift) -> None:
    assert tried(drift, foreign).why == ()


ENDLESS = 'os.execute("sleep 60")\n'


def test_module_that_never_loads_is_told_and_holds_nothing_up(foreign: Foreign) -> None:
    folder = f"{LOCAL}/modulefiles/endless"
    for node in ("c1", "c2", "c3"):
        foreign.cluster.write(node, f"{folder}/1.0.lua", ENDLESS)
    try:
        told = foreign.told("--modules", "endless/1.0", "--check", "site-modules", code=1)
    finally:
        for node in ("c1", "c2", "c3"):
            foreign.cluster.sh(node, f"rm -r {folder}", check=True)
    assert told == [("error", "site-modules", "c[1-3]", "endless/1.0", "no end in 10 s")]


def test_adopt_tells_what_made_each_module(foreign: Foreign) -> None:
    argv = ["adopt", "--nodes", "c[1-3]", "--user", "alice", "--format", "json"]
    tree = f"{SPACK}/opt/spack"
    foreign.cluster.sh("login", f"mkdir -p {tree}/.spack-db {tree}/{FOLDER}", check=True)
    try:
        foreign.cluster.write("login", f"{tree}/.spack-db/index.json", recorded("index.json", tree))
        result = foreign.cluster.envmgr(argv, env=NO_SITE).data
    finally:
        foreign.cluster.sh("login", f"rm -r {tree}/.spack-db {tree}/bzip2", check=True)
    assert result["trees"] == [{"path": tree, "format": "spack", "entries": 1, "why": ""}]
    made = {f"{m['name']}/{m['version']}": (m["made_by"], m["entry"], m["root"]) for m in result["modules"]}
    assert made["Solver/2.0"] == ("EasyBuild", "", "/opt/eb/software/Solver/2.0")
    assert made["zlib/1.2.13"][0] == "EasyBuild"
    assert made["zlib/1.2.13"][1].startswith("zlib/")
    assert made["fftw/3.3.10"][0] in ("by hand", "Spack")  # two trees have it
    assert made["cmake/3.27.7"][:2] == ("Spack", "")
    assert made["hdf5/1.14.3"][0] == "Spack"  # in a folder that gcc/13.2.0 opens
    assert made["OpenMPI/4.1.5-GCC-12.3.0"][:2] == ("EESSI", "openmpi/4.1")
    assert made["blast/2.14"][0] == "by hand"
