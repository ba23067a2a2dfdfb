"""One job of Slurm, also one that ended long ago: asked of slurmctld first, then of slurmdbd."""

from __future__ import annotations

import calendar
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.nodes import tool, tool_env
from envmgr.nodes.jobs import run_slurm, where_jobs_go
from envmgr.system.run import Runner

JOB_NUMBER = re.compile(r"\d+(_\d+)?")
_STANDARD = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
_FIELDS = ("JobIDRaw", "JobName", "User", "State", "Submit", "Start", "NodeList", "WorkDir", "SubmitLine")
_CUT = "\x1f"  # between sacct's fields: names, paths and lines hold everything else
_KEPT = re.compile(r"^(ENVMGR_(?:PIN|GENERATION|\w+_DIGEST)|LOADEDMODULES)=(.*)$", re.MULTILINE)
_HEAD = re.compile(r"Batch Script for \S+\n-+\n")
_SCRIPT = 4 << 20  # bytes of a script that are looked at: Slurm's own limit


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job as Slurm kept it. Times are seconds since the epoch, None if it did not start.

    `nodes` is folded. `file` is the script's path, empty if it is not known; `script` is its text at submission, None if
    Slurm did not keep it. `output` is the log's path, empty if not known. `environment` are envmgr's variables where it
    was submitted, None if Slurm did not keep them. `kept` says who answered: slurmctld or slurmdbd.
    """

    number: str
    name: str
    user: str
    state: str
    submitted: float | None
    started: float | None
    nodes: str
    folder: str
    file: str
    output: str
    kept: str
    script: str | None = None
    environment: Mapping[str, str] | None = None


def find_job(number: str, site: Site, runner: Runner) -> PastJob:
    """Return the job. It asks only what an ordinary user may ask.

    Raises:
        EnvmgrError: `slurm-unavailable`, `no-job`.
    """
    if not all(map(shutil.which, ("scontrol", "sacct"))):
        hint = "name the job's log instead: `envmgr why LOG`; or run it where `sacct` is"
        raise EnvmgrError("slurm-unavailable", "this host does not have Slurm's commands", hint=hint)
    job = _living(number, site, runner)
    script = None if job is None else _ask(["scontrol", "write", "batch_script", number, "-"], site, runner)
    job, why = (job, "") if job is not None else _ended(number, site, runner)
    if job is None:
        raise EnvmgrError(
            "no-job",
            f"Slurm does not know job {number}",
            context=why,
            hint="name the job's log instead: `envmgr why LOG`",
        )
    if not script:  # one row for each job: `-X`
        script = _HEAD.sub("", _ask(["sacct", "-X", "-j", number, "--batch-script"], site, runner), count=1)
    kept = dict(_KEPT.findall(_ask(["sacct", "-X", "-j", number, "--env-vars"], site, runner)))
    script = script.strip("\n") + "\n" if script.strip().startswith("#!") else None
    job = replace(job, script=script, environment=kept or None)
    return job if job.output else replace(job, output=next(_outputs(job), ""))


def _ask(argv: list[str], site: Site, runner: Runner) -> str:
    """Return what a command prints; empty where it fails."""
    try:
        done = run_slurm(runner, [tool(argv[0]), *where_jobs_go(site), *argv[1:]], env=tool_env() | _STANDARD)
    except EnvmgrError:
        return ""
    return "" if done.returncode else done.stdout


def _living(number: str, site: Site, runner: Runner) -> PastJob | None:
    """Return a job that slurmctld still knows; of an array without an index, the first one."""
    said = _ask(["scontrol", "show", "job", number], site, runner).split("\n\n")[0]
    # Paths may hold spaces: these have a line of their own.
    lines = dict(re.findall(r"^\s+(Command|WorkDir|StdOut)=(.*)$", said, re.MULTILINE))
    words = dict(re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", said))
    if "JobId" not in words:
        return None
    file = lines.get("Command", "")
    return PastJob(
        number=number,
        name=words.get("JobName", ""),
        user=words.get("UserId", "").partition("(")[0],
        state=words.get("JobState", ""),
        submitted=_time(words.get("SubmitTime", "")),
        started=_time(words.get("StartTime", "")),
        nodes=words.get("NodeList", "").replace("(null)", ""),
        folder=lines.get("WorkDir", ""),
        file=file if file.startswith("/") and Path(file).is_file() else "",
        output=lines.get("StdOut", ""),
        kept="slurmctld",
    )


def _ended(number: str, site: Site, runner: Runner) -> tuple[PastJob | None, str]:
    """Return the newest job of this number that slurmdbd has, or why it says nothing."""
    argv = ["-X", "-P", "-n", f"--delimiter={_CUT}", "-j", number, "-o", ",".join(_FIELDS)]
    done = run_slurm(runner, [tool("sacct"), *where_jobs_go(site), *argv], env=tool_env() | _STANDARD)
    rows = [row for line in done.stdout.splitlines() if len(row := line.split(_CUT)) == len(_FIELDS)]
    if not rows:
        return None, done.stderr.strip() or "neither slurmctld nor slurmdbd has it"
    _, name, user, state, submitted, started, nodes, folder, line = rows[-1]
    job = PastJob(
        number=number,
        name=name,
        user=user,
        state=state,
        submitted=_time(submitted),
        started=_time(started),
        nodes=nodes.replace("None assigned", ""),
        folder=folder,
        file="",
        output="",
        kept="slurmdbd",
    )
    return replace(job, file=_file(line, folder), output=next(_named(line.split(), job), "")), ""


def _time(text: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def _file(line: str, folder: str) -> str:
    """Return the script that a line of sbatch names: its first word that is a script. slurmdbd keeps no path of it."""
    for word in line.split()[1:]:
        if not word.startswith("-") and is_script(path := Path(folder, word)):
            return str(path)
    return ""


def is_script(path: Path) -> bool:
    """Return whether a file begins as sbatch demands it."""
    return read_script(path).startswith("#!")


def read_script(path: Path) -> str:
    """Return the text of a job script; empty if it cannot be read."""
    from envmgr.system.untrusted_files import ANYWHERE, Kind, read_bytes

    try:
        return read_bytes(path, Kind("script", _SCRIPT), tree=ANYWHERE).decode(errors="replace")
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


def _outputs(job: PastJob) -> Iterator[str]:
    """Yield where a job's log may be: as its script says, at submission or now, else Slurm's default."""
    yield from _named([*options_of(job.script or read_script(Path(job.file)))] if job.script or job.file else [], job)
    yield from _named(["-o", "slurm-%A_%a.out" if "_" in job.number else "slurm-%j.out"], job)


def _named(words: list[str], job: PastJob) -> Iterator[str]:
    """Yield the path that `-o` or `--output` gives the log. Source: sbatch(1), "filename pattern"."""
    for word, after in pairwise([*words, ""]):
        value = word.partition("=")[2] if word.startswith("--output=") else after if word in ("-o", "--output") else ""
        value = value or (word[2:] if re.match(r"-o[^-]", word) else "")
        if value:
            array, _, index = job.number.partition("_")
            known = {"j": job.number, "A": array, "a": index or "0", "x": job.name, "u": job.user, "%": "%"}
            yield str(Path(job.folder, re.sub(r"%([jAaxu%])", lambda match: known[match[1]], value)))
            return
