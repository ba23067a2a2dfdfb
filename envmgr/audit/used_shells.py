"""The login shells of users who have jobs: a directory service that lists no accounts (SSSD does not) tells of one that is named."""

from __future__ import annotations

from envmgr.errors import EnvmgrError
from envmgr.nodes import slurm_here, users_with_jobs
from envmgr.system.run import Runner

_SECONDS = 2.0  # it is asked before the nodes are
_MOST = 200  # users; one command line holds their names


def shells_of_jobs(runner: Runner, seconds: float) -> tuple[str, ...]:
    """`bash`, `zsh`, …: empty where there is no Slurm here, or nobody who answers in time. Looked up on this host."""
    limit = min(seconds, _SECONDS)
    if not slurm_here():
        return ()
    try:
        users = users_with_jobs(runner, timeout=limit)[:_MOST]
        # status 2: it does not know some of them
        said = runner.run(["getent", "passwd", *users], timeout=limit, check=False).stdout if users else ""
    except EnvmgrError:
        return ()
    fields = (line.split(":") for line in said.splitlines())
    return tuple(sorted({of[6].rpartition("/")[2] for of in fields if len(of) == 7 and of[6]}))
