"""One job of Slurm, also one that ended long ago: asked of slurmctld first, then of slurmdbd."""

from __future__ import annotations

import calendar
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.nodes import tool, tool_env
from envmgr.nodes.jobs import run_slurm, where_jobs_go
from envmgr.system.run import Runner
from envmgr.system.untrusted_files import ANYWHERE, Kind, read_bytes

JOB_NUMBER = re.compile(r"[1-9]\d*(_\d+)?")  # of job 0, scontrol shows all jobs
_STANDARD = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
_ACCOUNTED = {  # fields of sacct, by scontrol's names
    "JobName": "JobName",
    "UserId": "User",
    "SubmitTime": "Submit",
    "StartTime": "Start",
    "NodeList": "NodeList",
    "WorkDir": "WorkDir",
    "Line": "SubmitLine",
}
_CUT = "\x1f"  # between sacct's fields: names, paths and lines hold everything else
_KEPT = re.compile(r"^(ENVMGR_(?:PIN|\w+_DIGEST)|LOADEDMODULES)=(.*)$", re.MULTILINE)
_HEAD = re.compile(r"Batch Script for \S+\n-+\n")
_SCRIPT = Kind("script", 4 << 20)  # Slurm's own limit; see slurm.conf(5), max_script_size
_INSTEAD = "name the job's log instead: `envmgr why LOG`"


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job as Slurm kept it. Times are seconds since the epoch, None if it did not start.

    `nodes` is folded. `file` is the script's path, empty if it is not known; `script` is its text at submission, empty if
    Slurm did not keep it. `output` is the log's path. `environment` are envmgr's variables where it was submitted, as
    far as Slurm kept them.
    """

    number: str
    user: str
    submitted: float | None
    started: float | None
    nodes: str
    file: str
    output: str
    script: str
    environment: Mapping[str, str]

    @property
    def pin(self) -> int | None:
        """The generation that the submitting shell had chosen, which the job inherited; None if that is not known."""
        match = re.search(r"/generations/0*(\d{1,9})/?$", self.environment.get("ENVMGR_PIN", ""))
        return int(match[1]) if match else None


def find_job(number: str, site: Site, runner: Runner) -> PastJob:
    """Return the job. It asks only what an ordinary user may ask.

    Raises:
        EnvmgrError: `slurm-unavailable`, `no-job`.
    """
    if not all(map(shutil.which, ("scontrol", "sacct"))):
        raise EnvmgrError("slurm-unavailable", "this host does not have Slurm's commands", hint=_INSTEAD)

    def ask(*argv: str) -> str:
        done = run_slurm(runner, [tool(argv[0]), *where_jobs_go(site), *argv[1:]], env=tool_env() | _STANDARD)
        return "" if done.returncode else done.stdout

    said = ask("scontrol", "show", "job", number).split("\n\n")[0]  # of an array, the first one
    script = ask("scontrol", "write", "batch_script", number, "-") if said else ""
    # Paths may hold spaces: these have a line of their own.
    found = dict(re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", said))
    found |= dict(re.findall(r"^\s+(Command|WorkDir|StdOut)=(.*)$", said, re.MULTILINE))
    one = ("sacct", "-X", "-j", number)
    if not said:
        rows = ask(*one, "-P", "-n", f"--delimiter={_CUT}", "-o", ",".join(_ACCOUNTED.values())).splitlines()
        if not rows:
            said = "neither slurmctld nor slurmdbd has it"
            raise EnvmgrError("no-job", f"Slurm does not know job {number}", context=said, hint=_INSTEAD)
        found = dict(zip(_ACCOUNTED, rows[-1].split(_CUT), strict=False))
    script = (script or _HEAD.sub("", ask(*one, "--batch-script"), count=1)).strip()
    script = script if script.startswith("#!") else ""
    folder, line = found.get("WorkDir", ""), found.get("Line", "").split()
    # Slurm's accounting keeps no path of the script: it is the first word that is one.
    words = [found["Command"]] if "Command" in found else [word for word in line[1:] if not word.startswith("-")]
    file = next((str(path) for word in words if read_script(path := Path(folder, word)).startswith("#!")), "")
    default = ["-o", "slurm-%A_%a.out" if "_" in number else "slurm-%j.out"]
    asked = (_output(words) for words in (line, [*options_of(script or read_script(Path(file)))], default))
    array, _, index = number.partition("_")
    user = found.get("UserId", "").partition("(")[0]
    known = {"j": number, "A": array, "a": index or "0", "x": found.get("JobName", ""), "u": user, "%": "%"}
    name = re.sub(r"%([jAaxu%])", lambda match: known[match[1]], next(filter(None, asked)))
    return PastJob(
        number=number,
        user=user,
        submitted=_time(found.get("SubmitTime", "")),
        started=_time(found.get("StartTime", "")),
        nodes=re.sub(r"\(null\)|None assigned", "", found.get("NodeList", "")),
        file=file,
        output=found.get("StdOut") or str(Path(folder, name)),
        script=script,
        environment=dict(_KEPT.findall(ask(*one, "--env-vars"))),
    )


def _time(text: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def read_script(path: Path) -> str:
    """Return the text of a job script; empty if it cannot be read."""
    try:
        return read_bytes(path, _SCRIPT, tree=ANYWHERE).decode(errors="replace")
    except (OSError, InputError, ValueError):
        return ""


def options_of(script: str) -> Iterator[str]:
    """Yield the words of a script's `#SBATCH` lines, which end at its first command. Source: sbatch(1)."""
    for line in script.splitlines():
        if line.startswith("#SBATCH "):
            try:
                yield from shlex.split(line.removeprefix("#SBATCH "), comments=True)
            except ValueError:  # a quote that does not end
                yield line.removeprefix("#SBATCH ").strip()
        elif line.strip() and not line.startswith("#"):
            return


def _output(words: list[str]) -> str:
    """Return the log that `-o` or `--output` names, with its patterns; empty if none does. Source: sbatch(1)."""
    for word, after in pairwise([*words, ""]):
        if word in ("-o", "--output"):
            return after
        if match := re.match(r"--output=(.+)|-o([^-].*)", word):
            return match[1] or match[2]
    return ""
