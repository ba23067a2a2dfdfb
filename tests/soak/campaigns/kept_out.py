"""Cases that CI leaves out for their time: of contradicting locks, losses, hidden GPUs, clusters of others, jobs and nodes that die, repairs, and
Python and MPICH from source.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.soak.suite import run_pytest

ROUNDS = 1
FILES = (
    "tests/sandbox/verbs/test_contradictions.py",
    "tests/sandbox/publish/test_lost_parts.py",
    "tests/cluster/audit/test_slurm.py",
    "tests/cluster/audit/test_software.py",
    "tests/cluster/audit/test_without_site.py",
    "tests/cluster/builds/test_slurm.py",
    "tests/cluster/builds/test_slurm_ends.py",
    "tests/cluster/smoke/test_several_nodes.py",
    "tests/cluster/audit/test_hidden_gpus.py",
    "tests/easybuild/test_again.py",
)


def play(seed: int, first: int, last: int) -> Iterator[str]:
    for _ in range(first, last + 1):
        cases = run_pytest("-n", "2", "--dist", "loadgroup", "-m", "soak", *FILES)
        yield f"{cases}; from source: {run_pytest('-m', 'slow and not soak', 'tests/easybuild')}"
