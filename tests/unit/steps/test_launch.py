"""How an entry's programs are started: by what is in it, and what Slurm has."""

from __future__ import annotations

import pytest

from envmgr.steps.job_text import Launch, launch_of

ALL = frozenset({"none", "pmi2", "pmix", "pmix_v4"})


@pytest.mark.parametrize(
    ("packages", "python", "launch"),
    [
        (["zlib"], False, Launch("program", "none")),
        (["python", "numpy"], True, Launch("python", "none")),
        (["MPICH", "GCCcore"], False, Launch("mpi", "pmi2")),
        (["openmpi", "libpmix"], False, Launch("mpi", "pmix")),
        (["impi"], False, Launch("mpi", "pmi2")),
        (["mpi4py", "OpenMPI", "Python"], True, Launch("mpi", "pmix")),
        (["pytorch", "python", "openmpi"], True, Launch("torchrun", "none")),
        (["torch"], True, Launch("torchrun", "none")),
        (["torchvision", "openmpi-mpicc", "mpich-external"], False, Launch("program", "none")),
    ],
)
def test_program_and_interface_follow_from_the_packages(packages: list[str], python: bool, launch: Launch) -> None:
    assert launch_of(packages, python=python) == launch_of(packages, python=python, plugins=ALL) == launch


def test_mpi_for_which_slurm_has_no_plugin_is_started_by_mpirun() -> None:
    assert launch_of(["OpenMPI"], python=False, plugins={"none", "pmi2"}) == Launch("mpi", "")
    assert launch_of(["MPICH"], python=False, plugins={"none", "pmi2"}) == Launch("mpi", "pmi2")
    assert launch_of(["torch"], python=True, plugins=set()) == Launch("torchrun", "none")
