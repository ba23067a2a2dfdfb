"""The contexts that an audit knows: the ways in which users reach software."""

from __future__ import annotations

from collections.abc import Sequence

from envmgr.catalog.names import nearest
from envmgr.errors import InputError
from envmgr.probe.model import ShellContext
from envmgr.wording import did_you_mean

CONTEXTS = (
    ShellContext("bash-login", "ssh", "bash-login", "a login shell: `ssh NODE`, then a prompt"),
    ShellContext(
        "bash-interactive",
        "ssh",
        "bash-interactive",
        "a bash at a terminal that is no login shell: `bash`, a terminal of a desktop",
        accounts=("user",),
    ),
    ShellContext("bash-ssh", "ssh", "bash", "a command over ssh: `ssh NODE command`"),
    ShellContext("csh", "ssh", "csh", "csh or tcsh over ssh, where a node has it"),
    ShellContext("zsh", "ssh", "zsh", "a login zsh, where an account of the node has it", accounts=("user",)),
    ShellContext("sbatch-bash", "slurm", "bash", "`#!/bin/bash`, submitted from a login shell", "ALL"),
    ShellContext("sbatch-bash-login", "slurm", "bash-login", "`#!/bin/bash -l`, submitted from a login shell", "ALL"),
    ShellContext("sbatch-sh", "slurm", "sh", "`#!/bin/sh` that sources Lmod's init/sh", "ALL"),
    ShellContext("sbatch-wrap", "slurm", "wrap", "`sbatch --wrap COMMAND`: a `#!/bin/sh` that sources nothing", "ALL"),
    ShellContext("srun-bash", "slurm", "bash", "a task of `srun` in a job", "ALL", step=True),
    ShellContext("srun-pty", "slurm", "bash-interactive", "`srun --pty bash`", "ALL", step=True),
    ShellContext("sbatch-bash-none", "slurm", "bash", "`#!/bin/bash`, submitted with --export=NONE", "NONE"),
    ShellContext(
        "sbatch-bash-login-none", "slurm", "bash-login", "`#!/bin/bash -l`, submitted with --export=NONE", "NONE"
    ),
    ShellContext("sbatch-sh-none", "slurm", "sh", "`#!/bin/sh` that sources init/sh, with --export=NONE", "NONE"),
    ShellContext("sbatch-wrap-none", "slurm", "wrap", "`sbatch --wrap COMMAND`, with --export=NONE", "NONE"),
    ShellContext("srun-bash-none", "slurm", "bash", "a task of `srun` in a job with --export=NONE", "NONE", step=True),
)


def choose_contexts(names: Sequence[str], ways: Sequence[str]) -> tuple[ShellContext, ...]:
    """The named contexts, or all of `ways`. Raises InputError `unknown-context`, also for one of a way that is not asked."""
    known = {c.name: c for c in CONTEXTS}
    for name in names:
        if name not in known:
            close = nearest(name, known)
            raise InputError(
                "unknown-context",
                f"there is no context `{name}`",
                hint=did_you_mean(close, f"known: {', '.join(known)}"),
            )
        if known[name].way not in ways:
            raise InputError(
                "unknown-context",
                f"`{name}` is reached by {known[name].way}, which is not asked",
                hint=f"--via {known[name].way}, or --via both",
            )
    return tuple(c for c in CONTEXTS if c.way in ways and (not names or c.name in names))
