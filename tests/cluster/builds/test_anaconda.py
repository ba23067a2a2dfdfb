"""Anaconda on a cluster: by its licence only, and a user's own conda environment in a job. The installer is a stand-in of kilobytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree, shipped
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.site import SITE, settings
from tests.helpers.easybuild.vendor_installers import add_standins

ENTRY = "anaconda/2023.09"
HOME = Path("/home/alice/conda-job")
JOB = """\
#!/bin/bash
{init}
module load {entry}
conda activate mine
echo "$(uname -n) $CONDA_DEFAULT_ENV $CONDA_PREFIX $(type -P python)"
python -c 'import numpy; print(numpy.dot([1, 2], [3, 4]))'
module unload anaconda
echo "${{CONDA_PREFIX-none}}" "$(type -t conda || echo gone)"
"""


@pytest.fixture
def lab(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """The shipped recipe, locked for the stand-in's checksum, on a site that has accepted no licence."""
    cluster.empty_prefix(owner="rsw")
    (easyconfig,) = add_standins(tmp_path / "easyconfigs", tmp_path / "mirror", "Anaconda3-2023.09-0.eb")
    shutil.copytree(tmp_path / "mirror", cluster.host_prefix / "mirror", dirs_exist_ok=True)
    write_site(cluster)
    cluster.write("login", SITE.parent / easyconfig.relative_to(tmp_path), easyconfig.read_text())
    recipes = shipped("recipes")
    for name in (f"{ENTRY}/recipe.yaml", "anaconda/software.yaml"):
        cluster.write("login", SITE.parent / "recipes" / name, (recipes / name).read_text())
    cluster.exec("login", ["chown", "-R", "rsw:", SITE.parent / "recipes"], check=True)
    done = cluster.envmgr(["lock", ENTRY])
    assert done.code == 0, done.stderr
    yield cluster
    for path in (cluster.host_prefix / "mirror", *cluster.host_prefix.glob("store/Anaconda3")):
        remove_tree(path)
    cluster.sh("login", f"rm -rf {SITE.parent}/recipes/anaconda {SITE.parent}/easyconfigs {HOME} /home/alice/.conda")


def write_site(cluster: Cluster, *licences: str) -> None:
    policies = {**settings(cluster.compute)["policies"], "licences": list(licences)}
    sources = {"mirrors": ["/cluster/sw/mirror"], "upstream": False}
    cluster.write_site(easyconfigs=["easyconfigs"], sources=sources, policies=policies)


def test_users_own_environment_runs_in_a_job_once_the_site_has_accepted_the_terms(lab: Cluster) -> None:
    refused = lab.envmgr(["build", ENTRY])
    assert (refused.code, "licence-not-acknowledged" in refused.stderr, "anaconda-terms" in refused.stderr) == (
        3,
        True,
        True,
    )
    write_site(lab, "anaconda-terms")
    done = lab.envmgr(["build", ENTRY])
    assert done.code == 0, done.stdout + done.stderr

    init = lab.envmgr(["shell-init", "bash"]).stdout
    made = f"{init}\nmodule load {ENTRY} && conda create --yes --name mine python"
    lab.sh("login", made, user="alice", check=True)
    lab.write("login", HOME / "job.sh", JOB.format(init=init, entry=ENTRY))
    lab.exec("login", ["chown", "-R", "alice:", HOME], check=True)
    send = f"cd {HOME} && sbatch --wait -w c2 -o job.out job.sh >&2; cat job.out"
    done = lab.sh("login", send, user="alice")
    own = "/home/alice/.conda/envs/mine"
    assert done.stdout.splitlines() == [f"c2 mine {own} {own}/bin/python", "11", "none gone"], done.stdout + done.stderr
