"""Following of jobs to their ends: their output, Slurm's report on them, and the fate of jobs that depend on a failed
one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from envmgr.builds import Ensured
from envmgr.builds.schedule import Outcome
from envmgr.builds.slurm.ends import OWN_ENDS, job_end, lost_job, tail
from envmgr.builds.slurm.folder import BuildAnswer
from envmgr.builds.slurm.reasons import hint_of_waiting
from envmgr.builds.slurm.submit import QueuedBuild, detached
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.nodes.jobs import JobSeen, end_jobs, see_jobs, where_jobs_go
from envmgr.report import Reporter, Stage
from envmgr.store.manifest import read_manifest
from envmgr.system.run import Runner

_FIRST, _SLOWEST = 1.0, 3.0  # seconds between two looks at the queue: at first, and after a while
_BACK_OFF = 15.0  # and at most, when Slurm does not answer
_TICK = 0.2  # seconds
# Seconds that an answer may stay unseen after its job's end. Longer than an NFS client believes what it knows of a
# folder (acdirmax, 60 s), where the job has ended by itself; one that was killed has seldom an answer on its way.
_LATE, _SOON = 90.0, 5.0
_OWN_STATES = ("COMPLETED", "FAILED", "COMPLETING")  # of a job that Slurm did not end


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
        raise detached(list(watch.waiting.values()), site) from None
    return Outcome(watch.done, watch.failed, tuple(watch.left))


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
        self._warned: set[tuple[str, str]] = set()  # jobs, and the hints that were given for them

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
                build.seen = now
                if now is not None:
                    build.last = now
                    self._warn(build, now)
        self._next = time.monotonic() + self._pause

    def _warn(self, build: QueuedBuild, now: JobSeen) -> None:
        """Say once for each reason what a job waits for, if others' jobs are not all."""
        hint = "" if now.ended else hint_of_waiting(build.job, now.state, now.why, where_jobs_go(self._site))
        if hint and (build.job, hint) not in self._warned:
            self._warned.add((build.job, hint))
            self._reporter.say(
                f"{build.shown}: job {build.job} does not start by itself: {now.why or now.state}; {hint}"
            )

    def _judge(self, label: str, build: QueuedBuild) -> None:
        broken = build.needs & {*self.failed, *self.left}
        if broken:
            self._leave(label, build)
            return
        install, answer = build.work.item.install, build.folder.answer()
        if answer is not None and answer.job != build.job:
            answer = None
        if answer is not None and answer.error is not None:
            if build.missed is None:
                build.missed = time.monotonic()
            if not self._is_over(build) and time.monotonic() - build.missed <= _SOON:
                return  # Slurm may have ended it, and says so when it is over
            where = f"built by Slurm job {answer.job} on {answer.host}"
            error = answer.error.as_error(where, log=str(build.folder.output(build.job)))
            end = job_end(build, self._site, self._runner)
            if end.by_slurm:
                error.context, error.hint = (*error.context, end.words()), end.hint()
            self._fail(label, build, error)
        elif install.exists() and (answer is not None or self._is_over(build)):
            self._finish(label, build, answer)
        elif not self._is_over(build) or build.needs & self.waiting.keys():
            build.missed = None
        elif build.missed is None:
            end = job_end(build, self._site, self._runner)
            build.missed = time.monotonic()
            build.patience = _LATE if end.code in OWN_ENDS and end.state in _OWN_STATES else _SOON
        elif time.monotonic() - build.missed > build.patience:
            self._fail(label, build, lost_job(build, self._site, self._runner))

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
            said = tail(build.folder.output(build.job))
            texts.append(f"[{build.job}] {said[-1][:60] if said else build.shown}")
        if len(running) > 2:
            texts.append(f"{len(running) - 2} more run")
        if pending:
            reasons = ", ".join(sorted({t.seen.why for t in pending if t.seen is not None and t.seen.why}))
            texts.append(f"{len(pending)} wait ({reasons})")
        return "; ".join(texts)
