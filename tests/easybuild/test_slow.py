"""Python, MPICH and Open MPI from real source, mpi4py and ipyparallel on them, to jobs on two nodes. Minutes: `make test-slow`; Open MPI in `make soak`.

The prefix is always the same folder, and stays: an install whose digest has not changed is not built again on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from envmgr.system.files import shipped
from tests.helpers.cluster import Cluster
from tests.helpers.easybuild.workshop import make_workshop, real_sources
from tests.helpers.places import TESTS
from tests.helpers.slow_site import Lasting, two_nodes
from tests.helpers.waiting import DEADLINE
from tests.helpers.wheelhouse import Wheelhouse

pytestmark = pytest.mark.slow

PREFIX = Path(f"/var/tmp/envmgr-test-slow-{os.geteuid()}")
TWINS = TESTS / "easyconfigs"
# Entry -> the easyconfig that stands for the shipped one where only Debian's tarball can be had.
ENTRIES = {"python/3.11": None, "mpich/4.3": "MPICH-4.0.2.eb", "openmpi/4.1": "OpenMPI-4.1.4.eb"}

SUM = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  char name[MPI_MAX_PROCESSOR_NAME];
  int length;
  MPI_Get_processor_name(name, &length);
  printf("%d of %d on %s, sum %d\n", rank, size, name, sum);
  MPI_Finalize();
  return 0;
}
"""


MPICH, OPEN_MPI = "mpich/4.3", "openmpi/4.1"
MPI4PY = {MPICH: "mpi4py/4.1-mpich4.3", OPEN_MPI: "mpi4py/4.1-openmpi4.1"}
IPYPARALLEL = "ipyparallel/9.2"
SECOND = pytest.mark.soak  # what takes the second MPI


class Built(Lasting):
    def need(self, *entries: str) -> None:
        """Build what of them is not there, mpi4py on the MPI, and ipyparallel: before a cluster has seen the prefix, whose nodes are overlays."""
        self.ok("lock", *entries)
        shipped = [MPI4PY[entry] for entry in entries if entry in MPI4PY]
        done = self.run("build", *entries, *shipped, IPYPARALLEL, timeout=3000)
        assert done.code == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def slow() -> Iterator[Built]:
    """Python, MPICH, mpi4py and ipyparallel, built (or found), tested and published."""
    if PREFIX.exists() and PREFIX.is_symlink():
        pytest.fail(f"{PREFIX} is a link")
    real_sources("Python", "MPICH")
    made = make_workshop()
    box = Built(
        made.root, "", settings={"build_dir": "/tmp"}, lasting=PREFIX
    )  # paths of a build get into what is built: the same ones
    box.write_site()
    box.drop_unknown()
    shutil.copytree(TWINS, box.root / "easyconfigs", dirs_exist_ok=True)
    for entry, twin in ENTRIES.items():
        source, target = shipped("recipes") / entry, box.root / "recipes" / entry
        target.parent.mkdir(parents=True)
        shutil.copytree(source, target)
        shutil.copy(source.parent / "software.yaml", target.parent)
        if twin:
            recipe = yaml.safe_load((target / "recipe.yaml").read_text())
            recipe["input"]["easyconfig"] = twin
            (target / "recipe.yaml").write_text(json.dumps(recipe))
    box.need("python/3.11", MPICH)
    yield box
    shutil.rmtree(box.root)


@pytest.fixture(params=[MPICH, pytest.param(OPEN_MPI, marks=SECOND)])
def mpi(request: pytest.FixtureRequest, slow: Built) -> str:
    """The entry of an MPI, published; a test that asks for it runs with each."""
    entry: str = request.param
    if entry == OPEN_MPI:
        real_sources("OpenMPI")
        slow.need(OPEN_MPI)
    return entry


def test_a_second_run_does_nothing(slow: Built, mpi: str) -> None:
    assert "nothing to do" in slow.ok("build", "python/3.11", mpi).stdout


def test_every_install_is_what_its_manifest_says(slow: Built, mpi: str) -> None:
    assert slow.ok("verify", "python/3.11", mpi, "--format", "json").data["findings"] == []


def test_python_has_its_libraries(slow: Built) -> None:
    done = slow.shell(
        """
        module load python/3.11
        python -c 'import ssl, sqlite3, ctypes, sys; print(sys.version_info[:3], sys.prefix, ssl.OPENSSL_VERSION_INFO[0])'
        """
    )
    record = json.loads((PREFIX / "current/generation.json").read_text())
    install = PREFIX / record["entries"]["python/3.11"]["path"]  # others of earlier digests may lie beside it
    assert done.stdout.splitlines() == [f"(3, 11, 2) {install} 3"], done.stderr


PIP_REFUSES = """\
error: pip cannot install packages in the module python/3.11: all users share it, and it never changes

For Python packages of your own:
  envmgr user create NAME --on python/3.11 PACKAGE
Without envmgr, until the cluster removes this install, while this module is loaded:
  python -m venv --system-site-packages ~/venvs/python-3.11
  ~/venvs/python-3.11/bin/python -m pip install PACKAGE
"""


@pytest.mark.parametrize("user", ["root", "games"])
def test_pip_22_of_the_shipped_python_refuses_and_its_two_lines_work(slow: Built, user: str) -> None:
    """That pip does not read the mark. Whoever runs the tests, and where that is root, an ordinary user as well."""
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if os.geteuid() == 0 else []
    init = slow.ok("shell-init", "bash").stdout
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        Wheelhouse(home).wheel("one")
        subprocess.run(["chmod", "-R", "a+rX", home], check=True)
        if become:
            shutil.chown(home, user)

        def said(command: str, entry: str = "python/3.11") -> tuple[int, str, str]:
            script = (
                f"{init}\nmodule load {entry} || exit 99\ntype -P python | grep -q '^{PREFIX}/' || exit 99\n{command}\n"
            )
            done = subprocess.run(
                [*become, "bash", "--noprofile", "--norc"],
                input=script,
                cwd=home,
                capture_output=True,
                text=True,
                check=False,
                env={"PATH": "/usr/bin:/bin", "HOME": folder, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{home}/files"},
            )
            return done.returncode, done.stdout, done.stderr

        assert said("python -m pip --version")[1].startswith("pip 22.3.1 ")
        for option in ("", "--user "):
            assert said(f"pip install {option}one") == (1, "", PIP_REFUSES)
            refused = said(f"python -m pip install {option}one")
            assert refused == (3, "", "ERROR: Could not find an activated virtualenv (required).\n")
            code, out, _ = said(f"python -m ensurepip {option}")
            assert (code, "Successfully" in out, out.count("Requirement already satisfied")) == (0, False, 2)
        assert not (home / ".local").exists()
        lines = "\n".join(PIP_REFUSES.splitlines()[-2:]).replace("PACKAGE", "one")
        assert said(f"set -e\n{lines}\n~/venvs/python-3.11/bin/python -c 'import one; one.main()'")[1].endswith(
            "one 1.0\n"
        )
        # What docs/recipe.md says that nothing stops: an entry of wheels on this Python has no pip, and ensurepip brings one.
        assert said("python -m ensurepip --user", MPI4PY[MPICH])[0] == 0
        assert (home / ".local").exists()
        assert said("python -c 'import pip'", MPI4PY[MPICH])[0] == 1
    assert slow.ok("verify", "python/3.11", MPI4PY[MPICH], "--format", "json").data["findings"] == []


def test_a_new_login_shell_compiles_and_runs_mpi(slow: Built, mpi: str) -> None:
    options = "--oversubscribe" if mpi == OPEN_MPI else ""
    done = slow.shell(
        f"""
        module load {mpi}
        cat >sum.c <<'END'\n{SUM}\nEND
        mpicc -o sum sum.c
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        mpirun {options} -n 2 ./sum
        """
    )
    said = sorted(line.partition(" on ")[0] + line.partition(",")[2] for line in done.stdout.splitlines())
    assert said == ["0 of 2 sum 1", "1 of 2 sum 1"], done.stdout + done.stderr


@SECOND
@pytest.mark.parametrize("mpi", [OPEN_MPI], indirect=True)
def test_two_of_a_family_are_not_loaded_together(slow: Built, mpi: str) -> None:
    done = slow.shell(f"module load {MPICH}; module load {mpi}; module -t list 2>&1; type -P mpicc")
    assert "mpich" not in done.stdout
    assert "/store/OpenMPI/4.1.4-" in done.stdout


@pytest.fixture(scope="module")
def nodes(slow: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two compute nodes that see the prefix at its own path."""
    with two_nodes(tmp_path_factory.mktemp("slow")) as cluster:
        yield cluster


def test_mpi_under_srun_on_two_nodes(slow: Built, nodes: Cluster, mpi: str) -> None:
    way = "pmix" if mpi == OPEN_MPI else "pmi2"
    init = slow.ok("shell-init", "bash").stdout
    folder = f"/home/alice/{mpi.replace('/', '-')}"
    nodes.write("login", f"{folder}/sum.c", SUM)
    script = f"{init}\nmodule load {mpi}\ncd {folder}\nmpicc -o sum sum.c && srun --mpi={way} -N 2 -n 2 ./sum\n"
    nodes.write("login", f"{folder}/run.sh", script)
    nodes.sh("login", f"chown -R alice {folder}", check=True)
    done = nodes.sh("login", f"bash {folder}/run.sh", user="alice")
    assert sorted(done.stdout.splitlines()) == ["0 of 2 on c1, sum 1", "1 of 2 on c2, sum 1"], done.stdout + done.stderr


def test_two_node_test_of_the_recipe_passes_in_one_job(nodes: Cluster, mpi: str) -> None:
    """The shipped test, by `envmgr test` on the cluster's login node, of the install that was built here."""
    nodes.write_site(prefix=str(PREFIX), catalogs=[])
    done = nodes.envmgr(["test", mpi, "--via", "slurm", "-N", "2", "--format", "json"], timeout=20 * DEADLINE)
    ends = {test["test"]: (test["status"], test["nodes"], test["detail"]) for test in done.data["tests"]}
    assert ends["two-nodes"] == ("passed", "c[1-2]", ""), done.stdout + done.stderr
    assert (done.data["count"], done.code) == (2, 0), done.stdout + done.stderr


def test_mpi4py_is_one_world_on_one_node_and_on_two(slow: Built, nodes: Cluster, mpi: str) -> None:
    """The shipped entry, from the public index, on the MPI that was built here."""
    entry = MPI4PY[mpi]
    here = slow.ok("test", entry, "--format", "json").data["tests"]
    assert {test["test"]: test["status"] for test in here} == {"mpirun": "passed", "two-nodes": "not-run"}

    nodes.write_site(prefix=str(PREFIX), catalogs=[])
    done = nodes.envmgr(["test", entry, "--via", "slurm", "-N", "2", "--format", "json"], timeout=20 * DEADLINE)
    assert done.code == 0, done.stdout + done.stderr
    ends = {test["test"]: (test["status"], test["nodes"], test["detail"]) for test in done.data["tests"]}
    assert ends["two-nodes"] == ("passed", "c[1-2]", ""), done.stdout + done.stderr


def test_ipyparallel_has_an_engine_on_each_of_two_nodes_of_a_job(slow: Built, nodes: Cluster) -> None:
    """The shipped entry, from the public index."""
    here = slow.ok("test", IPYPARALLEL, "--format", "json").data["tests"]
    assert {test["test"]: test["status"] for test in here} == {"two engines": "passed", "two-nodes": "not-run"}

    nodes.write_site(prefix=str(PREFIX), catalogs=[])
    done = nodes.envmgr(["test", IPYPARALLEL, "--via", "slurm", "-N", "2", "--format", "json"], timeout=20 * DEADLINE)
    assert done.code == 0, done.stdout + done.stderr
    ends = {test["test"]: (test["status"], test["nodes"], test["detail"]) for test in done.data["tests"]}
    assert ends["two-nodes"] == ("passed", "c[1-2]", ""), done.stdout + done.stderr


def test_mpi_under_mpirun_in_a_job(slow: Built, nodes: Cluster, mpi: str) -> None:
    init = slow.ok("shell-init", "bash").stdout
    folder = f"/home/alice/job-{mpi.replace('/', '-')}"
    job = f"#!/bin/bash\n{init}\nmodule load {mpi}\ncd {folder}\nmpicc -o sum sum.c && mpirun -n 2 ./sum\n"
    nodes.write("login", f"{folder}/sum.c", SUM)
    nodes.write("login", f"{folder}/job.sh", job)
    nodes.sh("login", f"chown -R alice {folder}", check=True)
    done = nodes.sh(
        "login", f"cd {folder} && sbatch --wait -N 2 --ntasks-per-node=1 -o out job.sh; cat out", user="alice"
    )
    found = [line for line in done.stdout.splitlines() if " of 2 on c" in line]
    assert sorted(found) == ["0 of 2 on c1, sum 1", "1 of 2 on c2, sum 1"], done.stdout + done.stderr
