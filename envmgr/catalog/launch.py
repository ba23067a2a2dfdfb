"""The way to start an entry's programs in a Slurm job, from the entry's packages. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Program = Literal["torchrun", "mpi", "python", "program"]

# The process-manager interface of an MPI, by its package's name in any ecosystem: what `srun --mpi=` must be. Source:
# Slurm, "MPI Users Guide"; Open MPI from 4.0 has PMIx, MPICH and those made of it have PMI-2.
_INTERFACES: Mapping[str, str] = {
    "openmpi": "pmix",
    "mpich": "pmi2",
    "mvapich": "pmi2",
    "mvapich2": "pmi2",
    "impi": "pmi2",
    "impi_rt": "pmi2",
    "intel-mpi": "pmi2",
    "psmpi": "pmi2",
}
_TORCH = frozenset({"torch", "pytorch"})


@dataclass(frozen=True, slots=True)
class Launch:
    """The program and its MPI. `mpi` is the word behind `srun --mpi=`; empty if this Slurm cannot start the entry's
    MPI, and `mpirun` must.
    """

    program: Program
    mpi: str


def launch_of(packages: Iterable[str], *, python: bool, plugins: Collection[str] | None = None) -> Launch:
    """Return how the entry's programs are launched.

    `packages` are the names of everything that is loaded; `plugins` are Slurm's for MPI, None if unknown. torchrun
    starts processes by itself, and a program without MPI does not use Slurm's plugins: both get `none`.
    """
    names = {name.lower() for name in packages}
    wanted = next((interface for name, interface in _INTERFACES.items() if name in names), "")
    if names & _TORCH:
        return Launch("torchrun", "none")
    if not wanted:
        return Launch("python" if python else "program", "none")
    return Launch("mpi", wanted if plugins is None or wanted in plugins else "")
