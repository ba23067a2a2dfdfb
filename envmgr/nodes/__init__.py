"""Nodes: which there are, and one script run on many of them. Only this room imports ClusterShell.

ClusterShell is imported by the functions that need it. Programs on this controller (ssh, srun, sinfo, …) are found by
the caller's PATH, and run in a small environment.
"""

from __future__ import annotations

import os
import shutil

from envmgr.errors import EnvmgrError
from envmgr.system.run import clean_env

# What ssh and Slurm need of the caller: keys of an agent, Kerberos tickets, which cluster. Nothing that goes to a node:
# no LANG or LC_* (Debian's ssh sends them on), and not the variables of a job that we may run in.
_KEPT = ("SSH_AUTH_SOCK", "KRB5CCNAME", "XDG_RUNTIME_DIR", "SLURM_CONF", "SLURM_JWT", "PATH")


def tool(name: str) -> str:
    """Return the absolute path of `name`. Raises EnvmgrError `command-missing`."""
    found = shutil.which(name) or shutil.which(name, path=clean_env()["PATH"])
    if found is None:
        raise EnvmgrError(
            "command-missing", f"cannot run `{name}`", context="no such program", hint="is it installed and executable?"
        )
    return os.path.abspath(found)  # noqa: PTH100 - not resolved: a program may look at the name it is called by


def tool_env() -> dict[str, str]:
    kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
    return {key: value for key, value in clean_env().items() if key not in {"LANG", "LC_ALL", "TZ", "TMPDIR"}} | kept
