"""The steps of `envmgr apply`, each a verb in a process of its own, and what the last run has seen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from envmgr.errors import InputError
from envmgr.publish.candidates import offered
from envmgr.publish.records import read_record
from envmgr.steps import Context
from envmgr.steps.verb_run import VerbRun, run_verb
from envmgr.system.files import canonical_json, sha256_bytes
from envmgr.system.git import read_commit
from envmgr.system.models import FrozenModel
from envmgr.wording import counted

Target = Literal["candidate", "current"]
MADE = "apply"  # how the reasons of its generations begin
Status = Literal["ok", "failed", "nothing to do", "not reached"]


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """One step: its end, what there is to say about it, and the hint of what failed. `seconds` is wall-clock."""

    name: str
    status: Status
    said: tuple[str, ...] = ()
    hint: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """The options of `apply`. `build` are further words for `envmgr build`; `nodes` and `via` are for tests and
    audits.
    """

    to: Target
    nodes: str | None = None
    via: Literal["ssh", "slurm"] | None = None
    build: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def asked(self) -> tuple[str, ...]:
        """The words that say which nodes are asked, and how."""
        return (*(("--nodes", self.nodes) if self.nodes else ()), *(("--via", self.via) if self.via else ()))


class Last(FrozenModel):
    """The end of the last run that came to its end: `<prefix>/var/apply.json`. `asked` names the nodes that were asked, by
    the options of the run and the groups of the site.
    """

    schema_version: int = 1
    generation: int | None = None
    audited: bool = False
    asked: str = ""


@dataclass(slots=True)
class Run:
    """A run: what it began with, and what its steps found so far."""

    ctx: Context
    options: ApplyOptions
    names: tuple[str, ...]
    gone: tuple[str, ...]
    reason: str
    before: int | None
    last: Last
    commits: dict[str, str]
    candidate: int | None = None
    steps: dict[str, ApplyStep] = field(default_factory=dict)
    code: int = 0

    def verb(self, *argv: str) -> VerbRun:
        """Run a verb; its progress is ours."""
        return run_verb(self.ctx, *argv)

    @property
    def seen(self) -> bool:
        """True if the last run tested and audited what this one has, on the same nodes, and found nothing."""
        same = self.last.generation == (self.candidate or self.before)
        return same and self.last.audited and self.last.asked == asked_by(self.ctx, self.options)

    @property
    def changed(self) -> list[str]:
        """The entries that the candidate has and that differ from what is current."""
        if self.candidate is None:
            return []
        before = {} if self.before is None else read_record(self.ctx.prefix, self.before).entries
        after = read_record(self.ctx.prefix, self.candidate).entries
        return [name for name, entry in after.items() if before.get(name) != entry]


def commits_of(ctx: Context) -> dict[str, str]:
    """Return the commit of each catalog of the site's own, empty for one without. Raise InputError
    `catalog-uncommitted`.
    """
    strict = ctx.site.require_commit
    roots = [root for root in ctx.site.catalogs[:-1] if root.is_dir()]
    if not strict and shutil.which("git") is None:
        return dict.fromkeys(map(str, roots), "")
    found = {}
    for root in roots:
        commit = read_commit(root, ctx.runner)
        if strict and (commit.why or commit.changed):
            context = commit.why or commit.changed[:10]
            hint = "commit the changes, or take them back; the site says `require_commit: true`"
            raise InputError("catalog-uncommitted", f"{root} is not what a commit says", context=context, hint=hint)
        found[str(root)] = commit.name
    return found


def asked_by(ctx: Context, options: ApplyOptions) -> str:
    """Return a sum of what says which nodes are asked: options and the groups of the site."""
    groups = {name: group.model_dump(mode="json") for name, group in ctx.site.groups.items()}
    return sha256_bytes(canonical_json([*options.asked, groups]))


def _failed(run: Run, name: str, done: VerbRun) -> ApplyStep:
    run.code = done.code
    said, hint = done.error
    return ApplyStep(name, "failed", said, hint)


def _check(run: Run) -> ApplyStep:
    done = run.verb("check", *run.names)
    if "findings" not in done.data:
        return _failed(run, "check", done)
    faults = [f for f in done.data["findings"] if f["severity"] == "error"]
    odd = run.ctx.catalog.name_faults()  # the check of named entries sees no folder that cannot be one
    hints = dict.fromkeys(str(f["hint"]) for f in faults if f["hint"])
    hint = "; ".join((*(("give those folders other names",) if odd else ()), *hints))
    said = (*odd, *(f"{f['where']}: {f['found']}" for f in faults), counted(len(run.names), "entries"))
    return ApplyStep("check", "failed" if faults or odd else "ok", said, hint)


def _build(run: Run) -> ApplyStep:
    dry = ("--dry-run",) if run.options.dry_run else ()
    done = run.verb("build", "--no-publish", *run.options.build, *dry, *run.names)
    if "steps" not in done.data:
        return _failed(run, "build", done)
    missing = [step["planned"]["entry"] for step in done.data["steps"] if step["build"] == "build"]
    said = (*(f"{'would be built' if dry else 'built'}: {each}" for each in missing), *done.data.get("gate", ()))
    return ApplyStep("build", "ok" if missing else "nothing to do", said)


def _publish(run: Run) -> ApplyStep:
    went = tuple(word for name in run.gone for word in ("--remove", name))
    if run.options.dry_run:
        return _would_publish(run, went)
    if commits_of(run.ctx) != run.commits:  # what was built would carry another commit's name
        hint = "`envmgr apply` again takes what is there now; installs are kept"
        return ApplyStep("publish", "failed", ("the catalogs have another commit than when this run began",), hint)
    done = run.verb("publish", "--candidate", "--reason", run.reason, *went, *run.names)
    if "generation" not in done.data:
        return _failed(run, "publish", done)
    run.candidate = done.data["generation"]
    if run.candidate is None:
        same = f"generation {run.before} has all that the catalogs say"
        return _waiting(run) or ApplyStep("publish", "nothing to do", (same,))
    if read_record(run.ctx.prefix, run.candidate).parent != run.before:
        said = f"another generation than {run.before or 'none'} became current meanwhile; candidate {run.candidate} is on it"
        return ApplyStep("publish", "failed", (said,), "`envmgr apply` again starts from what is current now")
    return ApplyStep("publish", "ok", (f"generation {run.candidate} is a candidate",))


def _would_publish(run: Run, went: tuple[str, ...]) -> ApplyStep:
    """Say what a publish would change. What is not built cannot be compared yet."""
    gone = tuple(f"would go: {name}" for name in run.gone)
    if run.steps["build"].status == "ok":
        return ApplyStep("publish", "not reached", gone)
    done = run.verb("publish", "--candidate", "--dry-run", *went, *run.names)
    if "steps" not in done.data:
        return _failed(run, "publish", done)
    changed = [f"{s['planned']['entry']}: {s['publish']}" for s in done.data["steps"] if s["publish"] != "unchanged"]
    said = (*(f"would be published: {each}" for each in changed), *gone)
    return ApplyStep("publish", "ok", said) if said else _waiting(run) or ApplyStep("publish", "nothing to do")


def _waiting(run: Run) -> ApplyStep | None:
    """Withdraw a candidate of an earlier run that is not what the catalogs say any more; name one that somebody made by
    hand, which stays. None if no candidate is offered.
    """
    left, would = offered(run.ctx.prefix), "would be" if run.options.dry_run else "is"
    if left is None:
        return None
    if not read_record(run.ctx.prefix, left).reason.startswith(MADE):
        said = f"candidate {left} is offered to volunteers, and is not what the catalogs say"
        return ApplyStep("publish", "nothing to do", (said,))
    if not run.options.dry_run:
        done = run.verb("promote", "--withdraw", str(left))
        if "withdrawn" not in done.data:
            return _failed(run, "publish", done)
    said = f"candidate {left} {would} withdrawn: it is not what the catalogs say"
    return ApplyStep("publish", "ok", (said,))


def _test(run: Run) -> ApplyStep:
    if run.options.dry_run:
        return ApplyStep("test", "not reached")
    changed = run.changed
    if run.candidate is None or not changed:
        return ApplyStep("test", "nothing to do")
    if not run.ctx.site.groups and run.options.nodes is None:
        return ApplyStep("test", "nothing to do", ("the site names no nodes: the entries were tested on this host",))
    if run.seen:
        return ApplyStep("test", "nothing to do", ("the last run tested it on these nodes",))
    asked = run.options.asked or ("--via", run.ctx.way())
    done = run.verb("test", "--generation", str(run.candidate), *asked, *changed)
    if "tests" not in done.data:
        return _failed(run, "test", done)
    run.code = done.code
    red = [f"{t['entry']} `{t['test']}` failed on {t['nodes']}" for t in done.data["tests"] if t["status"] == "failed"]
    lost = [f"{m['nodes']}: {m['status']}: {m['reason']}" for m in done.data.get("missing", ())]
    if done.code:
        hint = f"`envmgr test --generation {run.candidate} {' '.join(asked)}` tests again"
        return ApplyStep("test", "failed", (*red, *lost), hint)
    return ApplyStep("test", "ok", (f"on {done.data.get('nodes', 'this host')}: {', '.join(changed)}",))


def _promote(run: Run) -> ApplyStep:
    if run.options.dry_run:
        return ApplyStep("promote", "not reached")
    if run.candidate is None or run.options.to == "candidate":
        wait = () if run.candidate is None else (f"`envmgr promote {run.candidate}` makes it current",)
        return ApplyStep("promote", "nothing to do", wait)
    done = run.verb("promote", str(run.candidate))
    if "candidate" not in done.data:
        return _failed(run, "promote", done)
    return ApplyStep("promote", "ok", (f"generation {run.candidate} is current (was {done.data['before'] or 'none'})",))


def _audit(run: Run) -> ApplyStep:
    flipped = run.candidate is not None and run.options.to == "current"
    if run.options.dry_run:
        return ApplyStep("audit", "not reached")
    if not run.ctx.site.groups and run.options.nodes is None:
        return ApplyStep("audit", "nothing to do", ("the site names no nodes",))
    if run.seen and not flipped:
        return ApplyStep("audit", "nothing to do")
    waits = run.candidate is not None and run.options.to == "candidate"
    done = run.verb("audit", *(("--generation", str(run.candidate)) if waits else ()), *run.options.asked)
    if "findings" not in done.data:
        return _failed(run, "audit", done)
    run.code = done.code
    found = [f for f in done.data["findings"] if f["severity"] != "note"]
    said = tuple(f"{f['severity']}[{f['check']}] {f['nodes']}: {f['where']}: {f['found']}" for f in found)
    on = f"{done.data.get('count', 0)} nodes, generation {done.data.get('generation')}"
    return ApplyStep("audit", "failed" if done.code else "ok", (*said, on))


STEPS: Mapping[str, Callable[[Run], ApplyStep]] = {
    "check": _check,
    "build": _build,
    "publish": _publish,
    "test": _test,
    "promote": _promote,
    "audit": _audit,
}
