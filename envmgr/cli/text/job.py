"""How a job script looks: the script itself, or where it went."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from envmgr.cli.render import out

if TYPE_CHECKING:
    from envmgr.commands.job import JobResult


def show_job(result: JobResult) -> None:
    if result.output is None:
        sys.stdout.write(result.text)
        return
    done = "would write" if result.dry_run else "wrote"
    out(f"{done} {result.output}: {result.entry} of generation {result.generation}; `sbatch {result.output}`")
