"""`envmgr why`: what changed since a job ran, or since a day or a generation. It changes nothing, and reads only what
every user may read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from envmgr.commands import Context, published_record, require_published
from envmgr.commands.why_changes import (
    Tree,
    WhyChange,
    default_change,
    entry_change,
    hardware_changes,
    script_changes,
    tree_of,
    user_change,
)
from envmgr.commands.why_then import (
    CLOCKS,
    Loaded,
    current_between,
    from_log,
    from_slurm,
    is_own,
    local,
    moment,
    pin_of,
    when_current,
)
from envmgr.errors import EnvmgrError, InputError
from envmgr.nodes.past_jobs import JOB_NUMBER, PastJob, find_job, read_script
from envmgr.people.job_log import JobLog, read_log
from envmgr.people.places import user_places
from envmgr.publish.flips import flips
from envmgr.report import Result
from envmgr.store.node_facts import read_node_facts
from envmgr.system.usernames import own_name

# The likeliest cause first: what stops a job, what it computes with, what it runs on, how it was asked for.
_ORDER = ("gone", "install", "user", "default", "module", "driver", "gpus", "options", "script", "added")
_NEVER = "your own programs and data, modules that are not envmgr's, the nodes' operating system"
_NOT_KEPT = (
    "the job's script: Slurm did not keep it for you (`AccountingStoreFlags=job_script,job_env` in slurm.conf, and an "
    "account of yours in slurmdbd, keep it)"
)


@dataclass(frozen=True, slots=True)
class WhyJob:
    """A job as Slurm kept it; times are of this host's clock, empty if there is none. `kept` says which daemon has it."""

    number: str
    user: str
    state: str
    submitted: str
    started: str
    nodes: str
    kept: str


@dataclass(frozen=True, slots=True)
class WhyResult(Result):
    """What changed. `loaded` is what the job loaded, as far as it is known; with `--since` it is empty. `generation` is
    what it loaded that from, and `either` are the generations that it may have been, where only times tell. `now` is
    the current generation. `changes` have the likeliest cause first.
    """

    schema: ClassVar[str] = "envmgr.why/1"
    asked: str
    job: WhyJob | None
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
    """What is known so far. `at` is when the job started, or the day; seconds since the epoch."""

    ctx: Context
    asked: str
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
        for each in found:
            if isinstance(each, str):
                self.unseen.append(each)
            elif each is not None and each not in self.changes:
                self.changes.append(each)

    @property
    def result(self) -> WhyResult:
        job = self.job
        told = job and WhyJob(
            job.number, job.user, job.state, _when(job.submitted), _when(job.started), job.nodes, job.kept
        )
        changes = sorted(self.changes, key=lambda each: _ORDER.index(each.kind))
        return WhyResult(
            asked=self.asked,
            job=told,
            log="" if self.log is None else str(self.log.path),
            loaded=tuple(self.loaded),
            generation=self.generation,
            either=self.either if len(self.either) > 1 else (),
            now=self.now.record.number,
            changes=tuple(changes),
            notes=tuple(self.notes),
            not_looked_at=(*dict.fromkeys(self.unseen), _NEVER),
        )


def _when(seconds: float | None) -> str:
    return "" if seconds is None else local(seconds)


def explain(ctx: Context, what: str | None, entry: str | None = None, *, since: str | None = None) -> WhyResult:
    """Return what changed since the job or the log `what`, or since the date or generation `since`; of one entry if it
    is named. With `since`, `what` is that entry.

    Raises:
        InputError: `why-what`, `bad-date`, `not-published`, `no-log`.
        EnvmgrError: `no-job`, `slurm-unavailable`, `no-generation`, `nothing-published`.
    """
    if since is None and what is None:
        raise InputError("why-what", "name a job, or its log", hint="`envmgr why 123`, or `envmgr why --since 2026-11-01`")
    if since is not None and entry is not None:
        raise InputError("why-what", f"--since is in the place of `{what}`", hint="name an entry, and nothing else")
    now = Tree(ctx.prefix, published_record(ctx))
    found = _Found(ctx, since or what or "", flips(ctx.prefix), now)
    if since is not None:
        _compare_since(found, since, what)
    else:
        _find_job(found, what or "")
        _find_loads(found, entry)
        _compare_job(found)
    return found.result


def _compare_since(found: _Found, since: str, entry: str | None) -> None:
    """Compare the whole generation of a day, or a named one, with the current one."""
    if since.isdigit():
        number = int(since)
    else:
        found.at = moment(since)
        found.either = current_between(found.flips, found.at, found.at)
        if not found.either:
            begin = f"the first publish was on {local(moment(str(found.flips[0]['time'])))}" if found.flips else ""
            raise EnvmgrError("no-generation", f"nothing was published on {since}", context=begin)
        number = found.either[0]
    if (then := tree_of(found.ctx.prefix, number)) is None:
        raise EnvmgrError(
            "no-generation",
            f"generation {number} is not there any more, or never was",
            context=when_current(found.flips, number),
            hint="`envmgr history` lists those that are left",
        )
    found.generation = number
    _say_either(found)
    if entry is not None and entry not in then.record.entries:
        require_published([entry], found.now.record)
    _compare_trees(found, then, entry)
    at = found.at if found.at is not None else moment(then.record.created)
    nodes = [node for seen in _facts(found) for node in seen.nodes]
    found.take(_hardware(found, nodes, at, {}) if entry is None else ["drivers and GPUs of nodes"])
    found.unseen.append("user environments and job scripts")


def _compare_trees(found: _Found, then: Tree, entry: str | None) -> None:
    names = [entry] if entry else sorted({*then.record.entries, *found.now.record.entries})
    found.take(entry_change(name, "", then, found.now) for name in names)
    found.take(default_change(name, then, found.now) for name in dict.fromkeys(n.partition("/")[0] for n in names))
    if then.record.render != found.now.record.render:
        found.unseen.append("what the site's policies and envmgr's templates changed in the text of modules")


def _find_job(found: _Found, what: str) -> None:
    """Find the job and its log, each from the other."""
    ctx = found.ctx
    if JOB_NUMBER.fullmatch(what):
        found.job = find_job(what, ctx.site, ctx.runner)
        found.at = found.job.started or found.job.submitted
        try:
            found.log = read_log(Path(found.job.output)) if found.job.output else None
        except (OSError, InputError) as error:
            found.unseen.append(f"the job's log {found.job.output}: {_reason(error)}")
        if found.log is not None and found.job.submitted and found.log.time < found.job.submitted - CLOCKS:
            found.unseen.append(f"{found.log.path}: it is older than the job")
            found.log = None
        return
    path = Path(what).absolute()
    try:
        found.log = read_log(path)
    except (OSError, InputError) as error:
        hint = "name a job by its number, or the file that its output went to"
        raise InputError("no-log", f"cannot read the log {what}", context=_reason(error), hint=hint) from None
    found.at = found.log.time
    # `slurm-7.out`, or `%x-%j.out` as `envmgr job` names it: it counts only if Slurm says that this is that job's log.
    number = path.stem.rpartition("-")[2]
    with suppress(EnvmgrError):
        if JOB_NUMBER.fullmatch(number):
            job = find_job(number, ctx.site, ctx.runner)
            if job.output and Path(job.output).resolve() == path.resolve():
                found.job, found.at = job, job.started or job.submitted
    if found.job is None:
        found.unseen.append("the job's script and nodes: the log does not lead to a job that Slurm knows")


def _reason(error: OSError | InputError) -> str:
    return error.message if isinstance(error, InputError) else str(error.strerror)


def _find_loads(found: _Found, entry: str | None) -> None:
    """Find what the job loaded: what its log says, else what Slurm kept, else what was current then."""
    job, log = found.job, found.log
    if log is not None and log.unread:
        found.notes.append(f"{log.path} is large: {log.unread} bytes in its middle were not read")
    if log is not None and any(load.cut for load in log.loads):
        found.notes.append(f"a line of {log.path} is cut: only its whole words count")
    if log is not None and not log.loads:
        found.notes.append(f"{log.path} has no line of `envmgr job` that says what was loaded")
    logged = from_log(log.loads) if log is not None else []
    number = next((each.generation for each in logged if each.generation is not None), None)
    pinned = None if job is None else pin_of(job.environment)
    if number is None and pinned is None and found.at is not None:
        first = job.submitted if job is not None and job.submitted else found.at
        found.either = current_between(found.flips, first, found.at)
        _say_either(found)
    found.generation = number or pinned or next(iter(found.either), None)
    # Where the log speaks, what the submitting shell had loaded says no more: the script's own loads do.
    shown = None if job is None else replace(job, environment=None) if logged else job
    scripted = [] if shown is None else from_slurm(shown, found.generation, pinned=number or pinned)
    named = {each.name for each in logged}
    found.loaded = [*logged, *(each for each in scripted if each.name not in named)]
    if entry is not None:
        known = [each for each in found.loaded if each.name == entry]
        if not known:
            found.notes.append(f"nothing says that the job loaded {entry}: it is compared by the job's generation")
        found.loaded = known or [Loaded(entry, found.generation, "", "time")]


def _say_either(found: _Found) -> None:
    if len(found.either) > 1:
        numbers = " or ".join(map(str, found.either))
        found.notes.append(
            f"it may have been generation {numbers}: a publish or rollback came meanwhile, or within {CLOCKS:.0f} s, and "
            f"clocks of hosts differ; compared is {found.either[0]}"
        )


def _compare_job(found: _Found) -> None:
    """Compare what the job loaded, its environments, nodes and script with what there is now."""
    ctx, now, job = found.ctx, found.now, found.job
    if found.generation is None:
        found.notes.append("nothing was published when the job ran")
    trees: dict[int | None, Tree | None] = {}
    for each in found.loaded:
        number = each.generation or found.generation
        if number not in trees:
            trees[number] = tree_of(ctx.prefix, number)
            if trees[number] is None and number is not None:
                said = when_current(found.flips, number) or "the flips do not say that it ever was current"
                found.notes.append(f"generation {number} was removed; {said}")
        found.take(_load_changes(found, each, trees[number]))
    then = tree_of(ctx.prefix, found.generation)
    if not found.loaded and then is not None:
        found.notes.append("which modules it loaded is not known: all entries are compared")
        _compare_trees(found, then, None)
    logged = {load.host: load.driver for load in found.log.loads if load.host} if found.log is not None else {}
    nodes = [job.nodes] if job is not None else [load.nodes for load in found.log.loads if load.nodes] if found.log else []
    if found.at is not None:
        found.take(_hardware(found, [each for each in dict.fromkeys(nodes) if each], found.at, logged))
    if job is not None:
        found.take(_script(job))


def _load_changes(found: _Found, load: Loaded, then: Tree | None) -> Iterator[WhyChange | str | None]:
    now = found.now
    if is_own(load.name):
        own = found.job is None or found.job.user == own_name()
        if not own:
            yield f"{load.name}, which is another user's"
            return
        places = user_places(found.ctx.environ)
        yield user_change(found.ctx.prefix, places, load.name.partition("/")[2], load.digest[:8], found.at)
        return
    name, short = load.name, load.name.partition("/")[0]
    if "/" not in name:
        if then is None:
            yield f"which version `module load {name}` gave"
            return
        name = then.default(name)
    known = name in now.record.entries or (then is not None and name in then.record.entries) or bool(load.digest)
    if not known:
        yield f"{load.name}, which is no module of envmgr"
        return
    if then is not None:
        yield default_change(short, then, now)
        if then.record.render != now.record.render:
            yield "what the site's policies and envmgr's templates changed in the text of modules"
    with_it = then.loaded_with(name) if then is not None else [name]
    for each in with_it or [name]:
        yield entry_change(each, load.digest if each == name else "", then, now)


def _facts(found: _Found) -> tuple[Any, ...]:
    with suppress(EnvmgrError):
        facts = read_node_facts(found.ctx.prefix)
        return facts.seen if facts is not None else ()
    return ()


def _hardware(
    found: _Found, nodes: Sequence[str], at: float, logged: Mapping[str, str]
) -> Iterator[WhyChange | str]:
    try:
        facts = read_node_facts(found.ctx.prefix)
    except EnvmgrError as error:
        yield f"drivers and GPUs: {error.message}"
        return
    if facts is None or not nodes:
        yield "drivers and GPUs: " + ("no audit was made" if facts is None else "the job's nodes are not known")
        return
    yield from hardware_changes(facts, nodes, at, logged)


def _script(job: PastJob) -> Iterator[WhyChange | str]:
    if job.script is None:
        yield _NOT_KEPT
    elif not job.file:
        yield "the job's script: where it is now is not known"
    elif not (new := read_script(Path(job.file))):
        yield f"the job's script: {job.file} cannot be read"
    else:
        yield from script_changes(job.script, new, Path(job.file))
