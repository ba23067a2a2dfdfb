"""Submitting jobs: a job that is under way is found again, the rest is sent, under one lock."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import envmgr
from envmgr.builds import BuildJob
from envmgr.builds.schedule import Work
from envmgr.builds.slurm.folder import JobFolder, JobRow, read_job_row
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.nodes.jobs import JobOptions, JobSeen, end_jobs, see_jobs, send_job, where_jobs_go
from envmgr.report import Reporter
from envmgr.store.jobtable import held_installs
from envmgr.store.prefix import Prefix
from envmgr.system.locks import file_lock, try_file_lock
from envmgr.system.run import Runner
from envmgr.system.safe_paths import remove_below
from envmgr.system.shelltext import assign, script_text
from envmgr.system.usernames import own_name
from envmgr.wording import shortened, utc_now

_KEPT = 86400.0  # seconds


@dataclass(slots=True)
class QueuedBuild:
    """An item that is waited for, and its job. `needs` are labels among the other queued builds; without a `job` it was
    not sent.

    `before`: the job had ended before we came. `seen` is what Slurm said at the last look, `last` what it
    said when it last knew the job, `missed` since when (monotonic) the job
    has ended without an answer, `patience` how many seconds an answer is waited for then.
    """

    work: Work
    folder: JobFolder
    needs: frozenset[str]
    job: str = ""
    attached: bool = False
    before: bool = False
    seen: JobSeen | None = None
    last: JobSeen | None = None
    missed: float | None = None
    patience: float = 0.0

    @property
    def shown(self) -> str:
        """`gcc/13.2-1a2b3c4d`."""
        return self.work.label.removeprefix("store/")

    def result(self) -> BuildJob:
        return BuildJob(self.work.label, self.job, tuple(sorted(self.needs)), self.attached)


@dataclass(frozen=True, slots=True)
class Submitter:
    """Takes builds for Slurm. `recipes` are the folders of the recipes, by entry: their locks are sent along."""

    site: Site
    options: JobOptions
    recipes: Mapping[str, Path]
    runner: Runner
    reporter: Reporter

    def look(self, work: Sequence[Work]) -> list[QueuedBuild]:
        """Return what `submit` would do: queued builds without a job are those that it would send. Changes nothing.

        Raises:
            EnvmgrError: `slurm-unavailable`.
        """
        queued = self._queued(work)
        seen = see_jobs([t.folder.job_name for t in queued], self.site, self.runner)
        for build in queued:
            build.job, build.before = _under_way(build.folder, seen)
            build.attached = bool(build.job)
        return queued

    def submit(self, work: Sequence[Work]) -> list[QueuedBuild]:
        """Send one job for each, what it needs first; what others or an earlier run have under way is followed instead.

        Raises:
            EnvmgrError: `slurm-unavailable`, `job-refused`; nothing that was sent stays then. Interrupted, with what
                stays.
        """
        prefix = Prefix(self.site.prefix)

        def waiting(holder: str) -> None:
            self.reporter.say(f"slurm: waiting for {holder}, which submits builds")

        sent: list[QueuedBuild] = []
        try:
            with file_lock(prefix.locks / "slurm-submit.lock", on_wait=waiting, check=self.runner.raise_if_cancelled):
                queued = self.look([w for w in work if not w.item.install.exists()])
                by_label = {t.work.label: t for t in queued}
                fresh: set[str] = set()
                for build in queued:
                    if build.job and not (build.needs & fresh):
                        self._attach(build)
                        continue
                    below = [by_label[label] for label in sorted(build.needs)]
                    if any(t.before or not t.job for t in below):
                        build.job = ""  # an install below it has failed: that is reported first
                        continue
                    if build.job:  # it waits for a job that is gone
                        end_jobs([build.job], self.site)
                    self._send(build, [t.job for t in below], by_label)
                    sent.append(build)
                    fresh.add(build.work.label)
                return queued
        except (KeyboardInterrupt, Interrupted):
            raise detached(sent, self.site) if sent else Interrupted() from None
        except EnvmgrError:
            if end_jobs([t.job for t in sent], self.site):
                for build in sent:
                    build.folder.remove()
            raise

    def _queued(self, work: Sequence[Work]) -> list[QueuedBuild]:
        labels = {w.label for w in work}
        needs = {w.label: {i.relative for i in (*w.item.needs, *w.item.build_needs)} - {w.label} for w in work}
        return [QueuedBuild(w, JobFolder(w.item.install), frozenset(needs[w.label] & labels)) for w in work]

    def _attach(self, build: QueuedBuild) -> None:
        row = build.folder.row()
        if row is None or row.job != build.job:  # its submitter died before it could write it down
            build.folder.write_row(self._row(build))
        if not build.before:
            self.reporter.say(f"{build.shown}: Slurm job {build.job} is under way already; following it")

    def _send(self, build: QueuedBuild, after: Sequence[str], made: Collection[str]) -> None:
        folder = build.folder
        folder.write(build.work, self.recipes[str(build.work.lock.entry)], self.site, envmgr.__version__, made)
        script = (
            "#!/bin/sh\n" + assign(python=sys.executable, request=str(folder.request)) + script_text(__file__, "job.sh")
        )
        try:
            name, output, options = folder.job_name, folder.output("%j"), self.options
            build.job = send_job(
                name, script, output=output, after=after, options=options, site=self.site, runner=self.runner
            )
            build.attached = build.before = False
            folder.write_row(self._row(build))
        except EnvmgrError as error:
            if not isinstance(error, Interrupted):  # else Slurm may have it: the next run finds it by its name
                end_jobs([build.job] if build.job else [], self.site)
                folder.remove()
            raise
        waits = f", after {' '.join(after)}" if after else ""
        self.reporter.say(f"{build.shown}: Slurm job {build.job}{waits}")

    def _row(self, build: QueuedBuild) -> JobRow:
        return JobRow(
            job=build.job,
            item=build.work.label,
            user=own_name(),
            host=socket.gethostname(),
            submitted=utc_now(),
            options=tuple(self.options.words()),
        )


def sweep(site: Site, runner: Runner) -> None:
    """Remove folders of jobs that no build needs: reported failures and lost jobs a day later, and jobs whose install
    is there.

    Folders of jobs that a living build follows stay, and those of jobs that Slurm still has, or may have.
    """
    prefix = Prefix(site.prefix)
    if not prefix.slurm_jobs.is_dir():
        return
    with try_file_lock(prefix.locks / "slurm-submit.lock") as free:
        if not free:
            return  # another submitter writes such folders now
        try:
            followed = held_installs(prefix, renew=True)
        except EnvmgrError:  # a run of another envmgr follows what it does not tell us
            return
        doubtful: dict[str, Path] = {}
        for path in prefix.slurm_jobs.iterdir():
            with suppress(OSError, EnvmgrError):  # in another format: for the envmgr that wrote it
                told, stays = _judge(path, prefix, followed)
                if told:
                    remove_below(prefix.root, path)
                elif not stays:
                    doubtful[f"envmgr-{path.name}"] = path
        with suppress(EnvmgrError):  # no Slurm that answers: they may be under way
            alive = {job.name for job in see_jobs(list(doubtful), site, runner).values() if not job.ended}
            for name, path in doubtful.items():
                if name not in alive:
                    with suppress(OSError):
                        remove_below(prefix.root, path)
    runner.raise_if_cancelled()


def _judge(path: Path, prefix: Prefix, followed: Collection[str]) -> tuple[bool, bool]:
    """Return whether a job's folder can go, and whether it has to stay; if neither, it goes unless Slurm has the
    job.
    """
    if path.stat().st_uid != os.geteuid():
        return False, True  # of whose jobs we do not know
    age = time.time() - max(p.stat().st_mtime for p in (path, *path.glob("*.json")))
    row = read_job_row(path / "slurm.json")
    if row is not None and row.told:
        return age > _KEPT, True
    if row is None or row.item in followed:
        return False, row is not None or age <= _KEPT
    return False, age <= _KEPT and not prefix.install_at(row.item).exists()


def detached(queued: Sequence[QueuedBuild], site: Site) -> Interrupted:
    """Return the message for a user who leaves: the jobs stay, and those that are held need a release."""
    jobs = [t for t in queued if t.job]
    error = Interrupted()
    error.message = f"detached: {len(jobs)} Slurm {'job goes' if len(jobs) == 1 else 'jobs go'} on"
    error.context = tuple(shortened([f"{t.job} {t.shown}{_state(t.seen)}" for t in jobs]))
    held = [t.job for t in jobs if t.seen is not None and t.seen.state == "PENDING" and "Held" in t.seen.why]
    where = where_jobs_go(site)
    hints = [f"the same command comes back to {_them(jobs)}, and publishes at the end"]
    if held:
        hints.append(f"`{' '.join(['scontrol', *where, 'release', *held])}` lets {_them(held)} start")
    hints.append(f"`{' '.join(['scancel', *where, *(t.job for t in jobs)])}` ends {_them(jobs)}")
    error.hint = "; ".join(hints)
    return error


def _them(jobs: Sequence[object]) -> str:
    return "it" if len(jobs) == 1 else "them"


def _state(seen: JobSeen | None) -> str:
    if seen is None:
        return ""
    return f", {seen.state.lower()}" + (f" on {seen.nodes}" if seen.nodes else f" ({seen.why})" if seen.why else "")


def _under_way(folder: JobFolder, seen: Mapping[str, JobSeen]) -> tuple[str, bool]:
    """Return the number of the item's job, and whether it ended with a failure that no build has reported; empty for
    none.

    A job is also known by its name, because the row is written only after Slurm has accepted it.
    """
    row, answer = folder.row(), folder.answer()
    alive = [n for n, job in seen.items() if job.name == folder.job_name and not job.ended]
    if alive and (answer is None or answer.job not in alive):
        return max(alive, key=lambda n: int(n.partition("_")[0])), False
    if row is None or row.told:
        return "", False
    if answer is not None and answer.job == row.job and answer.error is not None:
        return row.job, True
    last = seen.get(row.job)
    # A cancelled job was cancelled on purpose; a job that Slurm has forgotten has nothing to report.
    if last is not None and last.ended and not last.state.startswith(("CANCELLED", "COMPLETED", "REVOKED")):
        return row.job, True
    return "", False
