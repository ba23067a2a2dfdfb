"""The command of a job, as a person typed it: a script, which the entry's launcher starts, or a program, which runs as
it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.wording import one_line

_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.[0-9]+)?)?")
# Modules that start processes themselves. Source: the manuals of PyTorch, accelerate, DeepSpeed and mpi4py.
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "accelerate.", "deepspeed", "mpi4py")
_SHOWN = 80  # characters


@dataclass(frozen=True, slots=True)
class JobCommand:
    """A command. `words` follow the launcher if it is a `script`, and are the whole command if not. `python` is the
    interpreter that was typed before a script, with its option `-u`; empty without one.
    """

    words: tuple[str, ...]
    script: bool
    python: tuple[str, ...] = ()

    @property
    def own_python(self) -> str:
        """The interpreter if it was typed with its folder, such as that of a virtual environment."""
        return self.python[0] if self.python and "/" in self.python[0] else ""

    def why(self, launcher: str) -> str:
        """Return the comment of the job script: what `launcher` starts, empty if nothing does, and the reason."""
        if not self.script or not launcher:
            return f"`{one_line(self.words[0], _SHOWN)}` is a program: it runs as it is, once for each task"
        what = f"module {self.words[1]}" if self.words[0] == "-m" else self.words[0]
        return f"`{one_line(what, _SHOWN)}` is a script: {launcher} starts it"


def read_command(command: Sequence[str]) -> JobCommand:
    """Return what was typed: `train.py`, `python train.py`, `python -m package`, `/venv/bin/python train.py`, or a
    program.
    """
    first, *rest = command
    if first.endswith(".py"):
        return JobCommand(tuple(command), script=True)
    if not _PYTHON.fullmatch(first):
        return JobCommand(tuple(command), script=False)
    # torchrun itself adds `-u`. A script behind any other option of Python needs that option, and torchrun takes none.
    words = rest[1:] if rest[:1] == ["-u"] else rest
    module = len(words) > 1 and words[0] == "-m" and not words[1].startswith(_LAUNCHERS)
    if module or (words and words[0].endswith(".py")):
        return JobCommand(tuple(words), script=True, python=tuple(command[: len(command) - len(words)]))
    return JobCommand(tuple(command), script=False)


def own_environment(variable: str | None, envmgr: str) -> Path | None:
    """Return the virtual environment that a shell's `VIRTUAL_ENV` names; None without one, and for that of envmgr."""
    return None if not variable or Path(variable).resolve() == Path(envmgr).resolve() else Path(variable)
