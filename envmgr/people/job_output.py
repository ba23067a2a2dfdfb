"""The output file of a job: the lines in which a script of `envmgr job` has written what was loaded."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import InputError
from envmgr.system.untrusted_files import ANYWHERE, Kind, open_untrusted, why_unreadable
from envmgr.wording import one_line

_END = 8 << 20  # bytes at the beginning, and as many at the end, that are read of an output
_OUTPUT = Kind("job's output", 1 << 62)
_LINE = re.compile(
    rb"^envmgr: ([\w.+-]+/[\w.+-]+), generation (\d{1,9}), digest ([0-9a-f]{8}), on \S+\r?$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class JobLoad:
    """A module that a job loaded, with the first 8 digits of its digest."""

    entry: str
    generation: int
    digest: str


def read_job_output(path: Path) -> tuple[tuple[JobLoad, ...], int]:
    """Return the loads that an output names, and the uid of its owner. Of an entry's several lines the last one counts.

    A line that is cut does not count. Raises InputError `job-output` if the file cannot be read, or has no such line.
    """
    try:
        with open_untrusted(path, _OUTPUT, tree=ANYWHERE) as descriptor:
            status = os.fstat(descriptor)
            ends = (os.pread(descriptor, _END, at) for at in (0, max(_END, status.st_size - _END)))
            lines = _LINE.findall(b"\n".join(ends))
    except (OSError, InputError, ValueError) as error:
        said = f"cannot read the job's output {one_line(path)}"
        hint = "name the file that the job's output went to, or the number of a generation"
        raise InputError("job-output", said, context=one_line(why_unreadable(error)), hint=hint) from None
    loads = {entry: JobLoad(entry.decode(), int(number), digest.decode()) for entry, number, digest in lines}
    if not loads:
        raise InputError(
            "job-output",
            f"{one_line(path)} does not say what the job loaded",
            context="it has no line `envmgr: ENTRY, generation NUMBER, digest DIGEST, on NODES`",
            hint="scripts that `envmgr job` prints write this line; for another job, compare generations: "
            "`envmgr history` lists them",
        )
    return tuple(loads.values()), status.st_uid
