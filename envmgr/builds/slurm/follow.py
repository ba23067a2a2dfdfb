"""Following of jobs to their ends: their output, Slurm's report on them, and the fate of jobs that depend on a failed
one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from envmgr.builds.install import Ensured
from envmgr.builds.schedule import Outcome
from envmgr.builds.slurm.folder import BuildAnswer
from envmgr.builds.slurm.submit import QueuedBuild, detached
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.nodes.jobs import end_jobs, job_facts, see_jobs
from envmgr.report import Reporter, Stage
from envmgr.store.manifest import read_manifest
from envmgr.system.run import Runner

_FIRST, _SLOWEST = 1.0, 3.0  # seconds between two looks at the queue: at first, and after a while
_BACK_OFF = 15.0  # and at most, when Slurm does not answer
_TICK = 0.2  # seconds
# Seconds that an answer may stay unseen after its job's end. Longer than an NFS client believes what it knows of a
# folder (acdirmax, 60 s), where the job has ended by itself; one that was killed has seldom an answer on its way.
_LATE, _SOON = 90.0, 5.0
_OWN_ENDS = ("0:0", "1:0", "2:0", "3:0", "4:0")  # exit codes of envmgr
_OWN_STATES = ("COMPLETED", "FAILED", "COMPLETING")  # of a job that Slurm did not end
_TAIL = 6  # lines


def follow(queued: Sequence[QueuedBuild], site: Site, runner: Runner, reporter: Reporter) -> Outcome:
    """Wait until every job has ended. A failure ends only what depends on it.

    While Slurm does not answer, this waits for it and still reads the jobs' output.

    Raises:
        Interrupted: by a signal; the jobs go on.
    """
    watch = _Watch(queued, site, runner, reporter)
    try:
        with reporter.stage("slurm build", total=len(queued), unit="items") as stage:
            watch.run(stage)
    except (KeyboardInterrupt, Interrupted):
        raise detached(list(watch.waiting.values())) from None
    return Outcome(watch.done, watch.failed, tuple(watch.left))


# Reasons for which a job waits until its user or an administrator changes it, or the partition. Source: squeue(1), JOB
# REASON CODES.
_STUCK = re.compile(
    r"Partition(TimeLimit|NodeLimit|Down|Inactive)|Invalid(Account|QOS)|(Account|QOS)NotAllowed|BadConstraints|JobHeld(User|Admin)|"
    r"(QOS|Assoc)\w*PerJob\w*|MaxCpuPerAccount"
)


class _Watch:
    def __init__(self, queued: Sequence[QueuedBuild], site: Site, runner: Runner, reporter: Reporter) -> None:
        self.waiting = {t.work.label: t for t in queued}
        self.done: dict[str, Ensured] = {}
        self.failed: dict[str, EnvmgrError] = {}
        self.left: list[str] = []
        self._total = len(queued)
        self._site, self._runner, self._reporter = site, runner, reporter
        self._pause = _FIRST
        self._next = 0.0
        self._silent = ""  # what stood in the way of the last look
        self._looked = False  # whether the last look was answered
        self._warned: set[str] = set()  # jobs of which it was said that they do not start by themselves

    def run(self, stage: Stage) -> None:
        while self.waiting:
            if time.monotonic() >= self._next:
                self._look()
                for label, build in list(self.waiting.items()):
                    self._judge(label, build)
                stage.update(self._total - len(self.waiting), detail=self._detail())
            self._runner.raise_if_cancelled()
            if self.waiting:
                time.sleep(_TICK)

    def _look(self) -> None:
        names = [t.folder.job_name for t in self.waiting.values()]
        try:
            seen = see_jobs(names, self._site, self._runner)
        except Interrupted:
            raise
        except EnvmgrError as error:
            if not self._silent:
                self._reporter.say(f"slurm: {error.message}; running jobs go on, still waiting")
            self._silent = error.message
            self._looked = False
            self._pause = min(_BACK_OFF, self._pause * 1.5)
        else:
            if self._silent:
                self._reporter.say("slurm: Slurm answers again")
                self._silent, self._pause = "", _FIRST
            self._looked = True
            self._pause = min(_SLOWEST, self._pause * 1.1)
            for build in self.waiting.values():
                now = seen.get(build.job)
                if now is not None and now.state == "RUNNING" and (build.seen is None or build.seen.state != "RUNNING"):
                    self._reporter.say(f"{build.shown}: job {build.job} runs on {now.nodes}")
                stuck = now is not None and now.state == "PENDING" and _STUCK.fullmatch(now.why)
                if now is not None and stuck and build.job not in self._warned:
                    self._warned.add(build.job)
                    self._reporter.say(
                        f"{build.shown}: job {build.job} does not start by itself: {now.why}; "
                        f"`scancel {build.job}`, then build with another --time, --cpus, --partition or --account"
                    )
                build.seen = now
        self._next = time.monotonic() + self._pause

    def _judge(self, label: str, build: QueuedBuild) -> None:
        broken = build.needs & {*self.failed, *self.left}
        if broken:
            self._leave(label, build)
            return
        install, answer = build.work.item.install, build.folder.answer()
        if answer is not None and answer.job != build.job:
            answer = None
        if answer is not None and answer.error is not None:
            where = f"built by Slurm job {answer.job} on {answer.host}"
            self._fail(label, build, answer.error.as_error(where, log=str(build.folder.output(build.job))))
        elif install.exists() and (answer is not None or self._is_over(build)):
            self._finish(label, build, answer)
        elif not self._is_over(build) or build.needs & self.waiting.keys():
            build.missed = None
        elif build.missed is None:
            facts = job_facts(build.job, self._site, self._runner)
            build.missed = time.monotonic()
            by_itself = facts.get("ExitCode") in _OWN_ENDS and facts.get("JobState") in _OWN_STATES
            build.patience = _LATE if by_itself else _SOON
        elif time.monotonic() - build.missed > build.patience:
            self._fail(label, build, self._lost(build))

    def _is_over(self, build: QueuedBuild) -> bool:
        """Return whether the job has ended, or is unknown to a Slurm that answers."""
        return self._looked and (build.seen is None or build.seen.ended)

    def _finish(self, label: str, build: QueuedBuild, answer: BuildAnswer | None) -> None:
        manifest = read_manifest(build.work.item.install.manifest)
        seconds = answer.seconds if answer is not None else 0.0
        self.done[label] = Ensured(build.work.item.install, True, manifest.facts, manifest.tree, seconds)
        del self.waiting[label]
        build.folder.remove()
        on = f" on {answer.host} in {answer.seconds:.1f} s" if answer is not None else ""
        count = self._total - len(self.waiting)
        self._reporter.say(f"{build.shown}: built by job {build.job}{on} ({count} of {self._total})")

    def _fail(self, label: str, build: QueuedBuild, error: EnvmgrError) -> None:
        if build.before:
            before = "it failed before this command began: run the same command again to build it"
            error.context = (*error.context, before)
        self.failed[label] = error
        del self.waiting[label]
        row = build.folder.row()
        if row is not None:  # it stays for other commands that wait for this job; the next submission clears it
            build.folder.write_row(row.model_copy(update={"told": True}))
        self._reporter.say(f"{build.shown}: failed: {error.message}")

    def _leave(self, label: str, build: QueuedBuild) -> None:
        """Cancel the job of a build that can no longer start; Slurm would also cancel it later."""
        del self.waiting[label]
        self.left.append(label)
        if not build.job or end_jobs([build.job], self._site):
            build.folder.remove()

    def _lost(self, build: QueuedBuild) -> EnvmgrError:
        """Return the error of a job that ended without a report: what Slurm knows, and the job's last output."""
        facts = job_facts(build.job, self._site, self._runner)
        state = facts.get("JobState", build.seen.state if build.seen else "")
        why = facts.get("Reason", build.seen.why if build.seen else "")
        node = facts.get("NodeList", build.seen.nodes if build.seen else "")
        log = build.folder.output(build.job)
        words = [
            f"Slurm: {state or 'it is gone'}",
            f"reason {why}" if why not in ("", "None") else "",
            f"exit code {facts['ExitCode']}" if "ExitCode" in facts else "",
            f"on {node}" if node not in ("", "(null)") else "",
        ]
        return EnvmgrError(
            "job-failed",
            f"the Slurm job of {build.work.item.install.entry} ended before it was built",
            context=[f"job {build.job}, {', '.join(word for word in words if word)}", *_tail(log, _TAIL)],
            log=str(log) if log.exists() else "",
            hint=_hint(state, why, facts),
        )

    def _detail(self) -> str:
        """Return the jobs that the build waits for: running ones with their last lines, and why the other ones do not
        run.
        """
        if self._silent:
            return "Slurm does not answer"
        running = [t for t in self.waiting.values() if t.seen is not None and t.seen.state in ("RUNNING", "COMPLETING")]
        pending = [t for t in self.waiting.values() if t.seen is not None and t.seen.state == "PENDING"]
        texts = []
        for build in running[:2]:
            said = _tail(build.folder.output(build.job), 1)
            texts.append(f"[{build.job}] {said[0][:60] if said else build.shown}")
        if len(running) > 2:
            texts.append(f"{len(running) - 2} more run")
        if pending:
            reasons = ", ".join(sorted({t.seen.why for t in pending if t.seen is not None and t.seen.why}))
            texts.append(f"{len(pending)} wait ({reasons})")
        return "; ".join(texts)


def _hint(state: str, why: str, facts: Mapping[str, str]) -> str:
    again = "the same command builds it again; what is finished is kept"
    if state.startswith(("TIMEOUT", "DEADLINE")):
        limit = facts.get("TimeLimit", "")
        return f"give it more time with --time{f' (it had {limit})' if limit else ''}; what is finished is kept"
    if state.startswith("OUT_OF_MEMORY"):
        return "give it more memory (--mem=… in transport.slurm_options of site.yaml), or fewer --cpus"
    if state.startswith(("NODE_FAIL", "BOOT_FAIL")):
        return f"the node failed: {again}"
    if why.startswith("Dependency"):
        return "Slurm gave it up with a job that it waited for; the same command sends it again"
    if state.startswith("CANCELLED"):
        return f"the job was cancelled: {again}"
    return f"see the log; is the prefix mounted there, and this Python installed? Then {again}"


def _tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of a job's output, with their ends only; empty if there is no such file."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        text = file.read().decode("utf-8", "replace")
        return [line.strip()[:200] for line in text.splitlines() if line.strip()][-lines:]
    return []
