"""The error of a job that ended without a result: what Slurm says, the last words of the job, and a log that exists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envmgr.builds.slurm.reasons import AGAIN, JobEnd
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.nodes.jobs import JobOptions, ask_a_node, forgets_after, job_facts
from envmgr.nodes.slurm import in_words, node_states, why_no_step
from envmgr.system.run import Runner
from envmgr.system.shelltext import assign, script_text
from envmgr.system.usernames import own_name

if TYPE_CHECKING:
    from envmgr.builds.slurm.submit import QueuedBuild

_TAIL = 6  # lines
_READ = 65536  # bytes of the output's end in which the job says which log it kept
_KEPT = re.compile(r" log was kept as (/.+)")
_BEGUN = re.compile(r" log (?:of the build of \S+ )?is (/.+), until the build ends")
OWN_ENDS = ("0:0", "1:0", "2:0", "3:0", "4:0")  # exit codes of envmgr
_NOT_OPENED = "0:53"  # exit code of a job whose output Slurm could not open, or whose folder it could not enter


def job_end(build: QueuedBuild, site: Site, runner: Runner) -> JobEnd:
    """Return what Slurm says of the job, or said when it was last seen."""
    if facts := job_facts(build.job, site, runner):
        return JobEnd.of(facts)
    last = build.last if build.last is not None and build.last.ended else None
    return JobEnd() if last is None else JobEnd(last.state, last.why, "", last.nodes)


def lost_job(build: QueuedBuild, site: Site, runner: Runner) -> EnvmgrError:
    """Return the error of a job that ended without an answer."""
    end = job_end(build, site, runner)
    output = build.folder.output(build.job)
    said, log, gone = _last_words(output)
    context = [f"job {build.job}, {end.words()}", *_where(build, end, site, runner)]
    hint = end.hint()
    own = next((number for number, line in enumerate(said) if line.startswith("error[")), None)
    if own is not None and end.state == "FAILED" and end.code in OWN_ENDS:
        # The node could not write the answer, but what it would have said is in the output.
        told = [line.removeprefix("hint: ") for line in said[own:] if line.startswith("hint: ")]
        said = [line for line in said[own:] if not line.startswith("hint: ")]
        found, better = _asked(end, build, site, runner)
        context += found
        hint = better or (f"{told[0]}; then {AGAIN}" if told else hint)
    elif end.code == _NOT_OPENED:
        found, better = _asked(end, build, site, runner)
        context += ["Slurm could not open the job's output there", *found]
        hint = better or hint
    elif end.code.startswith("127:") and said:
        hint = f"install envmgr under the same path on every node, or name other nodes with --partition; {AGAIN}"
    context += [line[:200] for line in said[-_TAIL:]]
    if not output.exists():
        context.append(f"the job left no output{'' if end.started else ': it did not begin'}")
    elif log:
        context.append(f"its output: {output}")
    elif gone:
        context.append(f"the build's log was not kept: it was {gone} on {end.node or 'its node'}")
    return EnvmgrError(
        "job-failed",
        f"the Slurm job of {build.work.item.install.entry} ended before it was built",
        context=context,
        log=log or (str(output) if output.exists() else ""),
        hint=hint,
    )


def _last_words(output: Path) -> tuple[list[str], str, str]:
    """Return the end of a job's output, the log that its build kept, and the log that went with the node's folder."""
    lines = tail(output, _READ)
    kept = [path for line in lines if (found := _KEPT.search(line)) and Path(path := found[1]).exists()]
    begun = [found[1] for line in lines if (found := _BEGUN.search(line))]
    words = [line for line in lines if not _KEPT.search(line) and not _BEGUN.search(line)]
    return words, kept[-1] if kept else "", begun[-1] if begun else ""


def _where(build: QueuedBuild, end: JobEnd, site: Site, runner: Runner) -> list[str]:
    """Return what is wrong with the node by now, and since when Slurm may not know the job."""
    lines = []
    if end.node:
        with suppress(EnvmgrError):
            states = node_states(runner)
            if end.node in states and why_no_step(states, end.node):
                lines.append(f"{end.node} is {in_words(states[end.node])}")
    if not end.state:
        seconds = forgets_after(site, runner)
        lines.append(f"Slurm forgets ended jobs {f'after {seconds}' if seconds else 'some minutes later'} (MinJobAge)")
        if build.last is not None:
            on = f" on {build.last.nodes}" if build.last.nodes else ""
            lines.append(f"it was last seen {build.last.state.lower()}{on}")
    return lines


def _asked(end: JobEnd, build: QueuedBuild, site: Site, runner: Runner) -> tuple[list[str], str]:
    """Ask the node why nothing can be written there; return that, and the hint, empty if it does not say."""
    prefix, folder = site.prefix, build.folder.output(build.job).parent
    script = assign(prefix=str(prefix), folder=str(folder)) + script_text(__file__, "node.sh")
    lines = ask_a_node(["/bin/sh", "-c", script], JobOptions(), site, runner, node=end.node).splitlines()
    if lines[-1:] != ["asked"]:
        return [f"{end.node} does not answer now"], ""
    if not lines[:-1]:
        return [f"by now {end.node} can write {folder}"], AGAIN if end.code == _NOT_OPENED else ""
    (why,) = lines[:-1]
    fixes = {"not there": f"mount {prefix} on {end.node}", "Read-only": f"mount {prefix} on {end.node} with `rw`"}
    fix = next((fix for word, fix in fixes.items() if word in why), f"let {own_name()} write there on {end.node}")
    return [f"{end.node}: {why}"], f"{fix}; {AGAIN}"


def tail(path: Path, size: int = 4096) -> Sequence[str]:
    """Return the last lines of a job's output, within `size` bytes; empty if there is no such file."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        text = file.read().decode("utf-8", "replace")
        return [line.strip() for line in text.splitlines() if line.strip()]
    return []
