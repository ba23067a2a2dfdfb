"""`envmgr why`: what changed since a job ran, or since a day or a generation. It changes nothing, and reads only what
every user may read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from envmgr.commands import Context, published_record, require_published
from envmgr.commands.why_changes import (
    KINDS,
    Tree,
    WhyChange,
    default_change,
    entry_change,
    hardware_changes,
    script_changes,
    tree_of,
    user_change,
)
from envmgr.commands.why_then import CLOCKS, Loaded, current_between, from_slurm, local, moment, when_current
from envmgr.errors import EnvmgrError, InputError
from envmgr.nodes.past_jobs import JOB_NUMBER, PastJob, find_job, read_script
from envmgr.people.job_log import JobLog, read_log
from envmgr.people.places import user_places
from envmgr.publish.flips import flips
from envmgr.report import Result
from envmgr.store.node_facts import read_node_facts
from envmgr.store.prefix import SHORT
from envmgr.system.untrusted_files import why_unreadable
from envmgr.system.usernames import own_name
from envmgr.wording import one_line

_NEVER = "your own programs and data, modules that are not envmgr's, the nodes' operating system"
_POLICIES = "what the site's policies and envmgr's templates changed in the text of modules"
_NOT_KEPT = (
    "the job's script: Slurm did not keep it for you (`AccountingStoreFlags=job_script,job_env` in slurm.conf, and an "
    "account of yours in slurmdbd, keep it)"
)
_WHAT = "`envmgr why JOB`, `envmgr why LOG`, or `envmgr why --since 2026-11-01 [ENTRY]`"


@dataclass(frozen=True, slots=True)
class WhyResult(Result):
    """The changes since a job. `job` is Slurm's number, `started` the time of this host's clock; both are empty if unknown.

    `loaded` is what the job loaded, as far as it is known; with `--since` it is empty. `generation` is what it loaded
    that from, and `either` are the generations that it may have been, where only times tell. `now` is the current one.
    `changes` have the likeliest cause first.
    """

    schema: ClassVar[str] = "envmgr.why/1"
    job: str
    user: str
    started: str
    nodes: str
    log: str
    loaded: tuple[Loaded, ...]
    generation: int | None
    either: tuple[int, ...]
    now: int
    changes: tuple[WhyChange, ...]
    notes: tuple[str, ...]
    not_looked_at: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """The things that are known so far. `at` is when the job started, or the day; seconds since the epoch."""

    ctx: Context
    flips: Sequence[Mapping[str, Any]]
    now: Tree
    at: float | None = None
    job: PastJob | None = None
    log: JobLog | None = None
    loaded: list[Loaded] = field(default_factory=list)
    generation: int | None = None
    either: tuple[int, ...] = ()
    changes: list[WhyChange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def take(self, found: Iterable[WhyChange | str | None]) -> None:
        """Keep each change once; a text is what was not looked at."""
        for each in found:
            if isinstance(each, str):
                self.unseen.append(each)
            elif each is not None and each not in self.changes:
                self.changes.append(each)

    def by_time(self, first: float, last: float) -> int | None:
        """Return the generation that was current from `first` to `last`, or the oldest one that may have been."""
        found = current_between(self.flips, first, last)
        if len(found) > 1:
            self.either = found
            self.notes.append(
                f"it may have been generation {' or '.join(map(str, found))}: another one became current meanwhile, or "
                f"within {CLOCKS:.0f} s, and clocks of hosts differ; {found[0]} is compared"
            )
        return next(iter(found), None)


def explain(ctx: Context, what: str | None, entry: str | None = None, *, since: str | None = None) -> WhyResult:
    """Return what changed since the job or the log `what`, or since the date or generation `since`; of one entry if it
    is named. With `since`, `what` is that entry.

    Raises:
        InputError: `why-what`, `bad-date`, `not-published`, `no-log`.
        EnvmgrError: `no-job`, `slurm-unavailable`, `no-generation`, `nothing-published`.
    """
    if (what is None) if since is None else (entry is not None):
        raise InputError("why-what", "name a job or its log; or a day by --since, and an entry at most", hint=_WHAT)
    found = _Found(ctx, flips(ctx.prefix), Tree(ctx.prefix, published_record(ctx)))
    if since is not None:
        _compare_since(found, since, what)
    else:
        _find_job(found, what or "")
        _find_loads(found, entry)
        _compare_job(found)
    job = found.job
    return WhyResult(
        job="" if job is None else job.number,
        user="" if job is None else job.user,
        started="" if job is None or job.started is None else local(job.started),
        nodes="" if job is None else job.nodes,
        log="" if found.log is None else str(found.log.path),
        loaded=tuple(found.loaded),
        generation=found.generation,
        either=found.either,
        now=found.now.record.number,
        changes=tuple(sorted(found.changes, key=lambda each: KINDS.index(each.kind))),
        notes=tuple(found.notes),
        not_looked_at=(*dict.fromkeys(found.unseen), _NEVER),
    )


def _compare_since(found: _Found, since: str, entry: str | None) -> None:
    """Compare the whole generation of a day, or a named one, with the current one."""
    is_number = re.fullmatch(r"[0-9]{1,9}", since) is not None
    found.at = None if is_number else moment(since)
    number = int(since) if found.at is None else found.by_time(found.at, found.at)
    if number is None or (then := tree_of(found.ctx.prefix, number)) is None:
        said = "nothing was published by then" if number is None else f"generation {number} is not there"
        when = "" if number is None else when_current(found.flips, number)
        raise EnvmgrError("no-generation", said, context=when, hint="`envmgr history` lists those that are left")
    found.generation = number
    if entry is not None and entry not in then.record.entries:
        require_published([entry], found.now.record)
    _compare_trees(found, then, entry)
    found.at = found.at or moment(then.record.created)
    found.take(["user environments and job scripts"] if entry is None else ["drivers, user environments, job scripts"])
    if entry is None:
        found.take(_hardware(found, None, {}))


def _compare_trees(found: _Found, then: Tree, entry: str | None) -> None:
    names = [entry] if entry else sorted({*then.record.entries, *found.now.record.entries})
    found.take(entry_change(name, "", then, found.now) for name in names)
    found.take(default_change(name, then, found.now) for name in dict.fromkeys(n.partition("/")[0] for n in names))
    found.take([_POLICIES] if then.record.render != found.now.record.render else [])


def _find_job(found: _Found, what: str) -> None:
    """Find the job and its log, each from the other."""
    asked = (found.ctx.site, found.ctx.runner)
    if JOB_NUMBER.fullmatch(what):
        named = found.job = find_job(what, *asked)
        found.at = named.started or named.submitted
        try:
            log = read_log(Path(named.output))
            found.log = log if log.time >= (named.submitted or 0) - CLOCKS else None
            found.take([] if found.log else [f"{log.path}, which is older than the job"])
        except (OSError, InputError) as error:
            found.unseen.append(f"the job's log: {why_unreadable(error)}")
        return
    path = Path(what).absolute()
    try:
        found.log = read_log(path)
    except (OSError, InputError) as error:
        said = f"cannot read the log {what}"
        raise InputError("no-log", said, context=why_unreadable(error), hint=_WHAT) from None
    found.at = found.log.time
    # `slurm-7.out`, or `%x-%j.out` as `envmgr job` names it: it counts only if Slurm says that this is that job's log.
    with suppress(EnvmgrError):
        number = path.stem.rpartition("-")[2]
        job = find_job(number, *asked) if JOB_NUMBER.fullmatch(number) else None
        if job is not None and Path(job.output).resolve() == path.resolve():
            found.job, found.at = job, job.started or job.submitted
    found.take([] if found.job else ["the job's script and nodes: the log does not lead to a job that Slurm knows"])


def _find_loads(found: _Found, entry: str | None) -> None:
    """Find what the job loaded: what its log says, else what Slurm kept, else what was current then."""
    job, log = found.job, found.log
    logged: dict[str, Loaded] = {}
    if log is not None:
        # Of an entry that was loaded several times, as a job that ran again does, the last time counts.
        logged = {load.entry: Loaded(load.entry, load.generation, load.digest, "log") for load in log.loads}
        said = {
            f"{log.path} is large: {log.unread} bytes in its middle were not read": log.unread > 0,
            f"a line of {log.path} is cut: only its whole words count": any(load.cut for load in log.loads),
            f"{log.path} has no line of `envmgr job` that says what was loaded": not log.loads,
        }
        found.notes += [text for text, true in said.items() if true]
    seen = next((each.generation for each in logged.values() if each.generation is not None), None)
    seen = seen or (None if job is None else job.pin)
    if seen is None and found.at is not None:
        found.generation = found.by_time((job and job.submitted) or found.at, found.at)
        if job is None:  # the log's last change is all that is known of its time
            found.take([f"what was current before {local(found.at)}, the log's last change: the job began earlier"])
    found.generation = seen or found.generation
    if job is not None:
        # Where the log speaks, what the submitting shell had loaded says no more: the script's own loads do.
        shown = replace(job, environment={}) if logged else job
        slurm, unread = from_slurm(shown, found.generation, "script" if seen else "time")
        found.take(f"what `{one_line(line, 80)}` of its script gave" for line in unread)
        logged |= {each.name: each for each in slurm if each.name not in logged}
    if entry is not None and entry not in logged:
        then, named = tree_of(found.ctx.prefix, found.generation), Loaded(entry, found.generation, "", "time")
        if not named.is_own and (then is None or entry not in then.record.entries):
            require_published([entry], found.now.record)
        found.notes.append(f"nothing says that the job loaded {entry}: it is compared by the job's generation")
        logged[entry] = named
    found.loaded = [each for each in logged.values() if entry in (None, each.name)]


def _compare_job(found: _Found) -> None:
    """Compare what the job loaded, its environments, nodes and script with what there is now."""
    numbers = {each.generation or found.generation for each in found.loaded} | {found.generation}
    trees = {number: tree_of(found.ctx.prefix, number) for number in numbers}
    for number, tree in trees.items():
        if number is None:
            found.notes.append("which generation the job had is not known: nothing was published then")
        elif tree is None:
            said = when_current(found.flips, number) or "the flips do not say that it ever was current"
            found.notes.append(f"generation {number} was removed; {said}")
    for each in found.loaded:
        found.take(_load_changes(found, each, trees[each.generation or found.generation]))
    if not found.loaded and (then := trees[found.generation]) is not None:
        found.notes.append("which modules it loaded is not known: all entries are compared")
        _compare_trees(found, then, None)
    loads = found.log.loads if found.log else ()
    nodes = {found.job.nodes} if found.job else {load.nodes for load in loads}
    found.take(_hardware(found, nodes - {""}, {load.host: load.driver for load in loads if load.host}))
    if found.job is not None:
        found.take(_script(found.job))


def _load_changes(found: _Found, load: Loaded, then: Tree | None) -> Iterator[WhyChange | str | None]:
    now, name = found.now, load.name
    short, _, version = name.partition("/")
    if load.is_own:
        theirs = found.job.user != own_name() if found.job else found.log is not None and found.log.uid != os.geteuid()
        if theirs:
            yield f"{name}, which is another user's"
        else:
            yield user_change(found.ctx.prefix, user_places(found.ctx.environ), version, load.digest[:8], found.at)
        return
    if not version and then is not None:
        name = then.default(short)
    if not (load.digest or name in now.record.entries or (then is not None and name in then.record.entries)):
        yield f"what `module load {load.name}` gave" if then is None else f"{load.name}, no module of envmgr's"
        return
    made = None if then is None or not load.digest else then.record.entries.get(name)
    if made is not None and made.digest[:SHORT] != load.digest[:SHORT]:
        found.notes.append(
            f"the job had {name} with the digest {load.digest[:SHORT]}, and generation {load.generation} has it with "
            f"{made.digest[:SHORT]}: that is of another prefix, or was made again; the job's digest is compared"
        )
        then = None
    if then is not None:
        yield default_change(short, then, now)
        yield _POLICIES if then.record.render != now.record.render else None
    for each in (then.loaded_with(name) if then is not None else []) or [name]:
        yield entry_change(each, load.digest if each == name else "", then, now)


def _hardware(found: _Found, nodes: Iterable[str] | None, logged: Mapping[str, str]) -> Iterator[WhyChange | str]:
    """Yield the changes of the nodes, or of all that audits have seen."""
    try:
        facts = read_node_facts(found.ctx.prefix)
    except EnvmgrError as error:
        yield f"drivers and GPUs: {error.message}"
        return
    nodes = nodes if nodes is not None or facts is None else facts.by_node()
    if facts is None or not nodes or found.at is None:
        yield "drivers and GPUs: " + ("no audit was made" if facts is None else "the job's nodes are not known")
        return
    yield from hardware_changes(facts, nodes, found.at, logged)


def _script(job: PastJob) -> Iterator[WhyChange | str]:
    new = read_script(Path(job.file)) if job.file else ""
    if job.script and new:
        yield from script_changes(job.script, new, job.file)
    else:
        yield "the job's script as it is now: no file of it is known" if job.script else _NOT_KEPT
