"""The audit of nodes: gather what they say, judge it, and keep what was seen."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from envmgr.audit.ask.gather import gather
from envmgr.audit.baseline import baseline_text, read_baseline
from envmgr.audit.checks import all_checks, check_names, get_check
from envmgr.audit.findings import Caused
from envmgr.audit.fit.matrix import BY, STAGED_BY, matrix, observed, staged_nodes
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.inventory.texts import asked_of
from envmgr.audit.judge import AuditJudged, judge, why_unread
from envmgr.audit.model import Check, Evidence, standing_alone
from envmgr.audit.plan import AuditRequest
from envmgr.audit.result import AuditResult, ExplainResult, VerboseAuditResult, WayAnswers
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import Audit
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.lmod import Lmod, find_lmod
from envmgr.nodes.sets import expand, fold
from envmgr.nodes.slurm import slurm_here
from envmgr.probe.model import Fleet
from envmgr.steps import Context
from envmgr.steps.status import keep_status
from envmgr.store.node_facts import Told, save_node_facts
from envmgr.system.files import atomic_write
from envmgr.system.usernames import own_name
from envmgr.system.users import find_account


def audit_nodes(ctx: Context, request: AuditRequest) -> AuditResult:
    """Audit the nodes.

    Raises:
        InputError: unknown nodes, contexts, entries or checks; `audit-options`.
        EnvmgrError: the published generation is damaged, groups cannot be read.
    """
    if request.baseline is not None and request.reference:
        raise InputError("audit-options", "--baseline and --reference each say what is right", hint="take one of them")
    began = time.monotonic()
    site = with_user(_with_times(ctx.site, request.node_timeout, request.deadline), request.user, ctx.environ)
    kinds = KINDS.keys() & {*request.checks}
    request = replace(request, checks=_without_kinds(request.checks))
    chosen = _checks([*request.checks, "software"] if request.deep and request.checks else request.checks)
    if kinds:
        chosen = {**chosen, "inventory": replace(chosen["inventory"], probe=asked_of(kinds))}
    baseline = None if request.baseline is None else read_baseline(request.baseline)
    if (request.via or site.transport.via) != "ssh":
        _can_send_jobs(site)
    evidence, look_again = gather(request, chosen, site, _lmod(ctx), ctx.runner, ctx.reporter, baseline)
    if evidence.plan.alone:
        chosen = standing_alone(chosen)  # the others were not asked
    judged = judge(evidence, chosen, look_again, kinds)
    findings = judged.findings
    if not request.dry_run and evidence.plan.link == "current":
        left = max(2.0, site.transport.deadline - (time.monotonic() - began))
        findings = _keep(ctx, evidence, chosen, findings, left)
    if request.save_baseline is not None and request.dry_run:
        ctx.reporter.say(f"would write {request.save_baseline}")
    elif request.save_baseline is not None:
        _save(ctx, request.save_baseline, evidence, judged)
    published, things = evidence.published, [at for place in judged.places for at in place.keys]
    return (VerboseAuditResult if request.verbose else AuditResult)(
        generation=published.record.number if published else None,
        alone=evidence.alone,
        entries=tuple(sorted(published.record.entries)) if published else (),
        nodes=fold(evidence.nodes),
        count=len(evidence.nodes),
        asked=tuple(_asked(way, fleet) for way, fleet in evidence.ways.items()),
        contexts=tuple(dict.fromkeys(_answered(evidence))),
        accounts=_accounts(evidence),
        checks=tuple(chosen),
        findings=findings,
        matrix=matrix(evidence, judged.of_checks) if BY in chosen else (),
        finished=time.time(),
        seconds=time.monotonic() - began,
        unread=why_unread(evidence),
        away=fold(evidence.mounts.only(lambda facts: "probe" not in facts and facts.get("gate", "hung") != "ok").nodes),
        modules=len({key for kind, key in things if kind == "avail" and not key.startswith(f"{site.prefix}/")}),
        compared=Counter(kind for kind, _ in things),
        staged=staged_nodes(evidence) if STAGED_BY in chosen else {},
    )


def _answered(evidence: Evidence) -> Iterator[str]:
    """Yield the contexts that at least one node has; a context that no node has was not looked at."""
    for shell in evidence.each_shell():
        ends = shell.fleet.by_value(f"{shell.key}end", default="")
        if not shell.fleet.nodes or set(ends) != {"absent"}:
            yield shell.context.name


def _can_send_jobs(site: Site) -> None:
    """Check, before the first node is asked, that jobs can be sent.

    Raises InputError `unknown-user`, EnvmgrError `command-missing`.
    """
    if not slurm_here():
        hint = "--via ssh, or audit from a host of Slurm's"
        raise EnvmgrError("command-missing", "Slurm's commands are not here", hint=hint)
    transport = site.transport
    login = transport.user if transport.user != "root" and not transport.become else None
    user = login or site.audit.user or site.build_user or "nobody"
    if os.geteuid() == 0 and find_account(user) is None:
        setting = "transport" if login else "audit"
        context, hint = "jobs are submitted as that user", f"name another: `{setting}: {{user: …}}` in site.yaml"
        raise InputError("unknown-user", f"the user `{user}` does not exist here", context=context, hint=hint)


def _save(ctx: Context, path: Path, evidence: Evidence, judged: AuditJudged) -> None:
    """Save the baseline. An audit that could not compare anything leaves an earlier file unchanged."""
    if not evidence.fleet.nodes or (evidence.published is None and not evidence.alone):
        ctx.reporter.say(f"warning: {path} is not written: nothing could be compared")
        return
    atomic_write(path, baseline_text(judged.places, lambda kind, value: KINDS[kind].in_baseline(value)))
    if missing := [reply.node for reply in evidence.fleet.missing]:
        ctx.reporter.say(f"warning: {path} is without {fold(missing)}, of which there was no answer")


def _keep(
    ctx: Context, evidence: Evidence, checks: Collection[str], findings: Sequence[Caused], seconds: float
) -> tuple[Caused, ...]:
    """Keep the nodes' facts for `build --gate`, and the findings; return these with the time of the first audit that
    reported them. An audit by a user who may not write there does not try.
    """
    build_user = ctx.site.build_user
    # Where envmgr has published nothing it writes nothing. If the prefix did not pass the look of this host, a write
    # could only fail, or wait.
    own = os.geteuid() == 0 or build_user in (None, own_name())
    if evidence.plan.alone or not own or evidence.controller.get("gate") != "ok":
        return tuple(findings)
    now, nodes, since = time.time(), frozenset(evidence.nodes), dict[tuple[str, str, str], float]()

    def told(before: Sequence[Told]) -> list[Told]:
        since.update({old.key: old.since for old in before})
        new = [Told(check=f.check, nodes=f.nodes, where=f.where, since=0.0) for f in findings]
        kept = [old for old in before if old.check not in checks or not nodes.issuperset(expand(old.nodes))]
        return [*kept, *(each.model_copy(update={"since": since.setdefault(each.key, now)}) for each in new)]

    seen = observed(evidence) if BY in checks else {}
    check = ctx.runner.raise_if_cancelled
    reason = save_node_facts(ctx.site, seen, evidence.groups, now, told=told, seconds=seconds, check=check)
    if reason:
        ctx.reporter.say(f"what nodes can run was not kept for `build --gate`: {reason}")
    elif evidence.published is not None:
        keep_status(ctx, seconds)
    return tuple(replace(f, since=since.get((f.check, f.nodes, f.where))) for f in findings)


def explain_check(check: str) -> ExplainResult:
    """Return the explanation of a check. Raises InputError `unknown-check`."""
    return ExplainResult(check.replace("_", "-"), get_check(check).text.strip())


def _without_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """Return the checks among names of checks and of kinds of the inventory, which has these."""
    checks = [name for name in names if name not in KINDS or name in check_names()]
    return (*checks, *(["inventory"] if KINDS.keys() & {*names} else []))


def _checks(names: Sequence[str]) -> Mapping[str, Check]:
    """Return the named checks, or all. The check `nodes` is always included: silence does not mean agreement."""
    chosen = ("nodes", *(name.replace("_", "-") for name in names))
    return {name: get_check(name) for name in chosen} if names else all_checks()


def with_user(site: Site, user: str | None, environ: Mapping[str, str]) -> Site:
    """Return the site with this ordinary user. Without a site file, root looks as the user who called sudo.

    Raises InputError `unknown-user`.
    """
    if user is None and site.source is None and os.geteuid() == 0:
        caller = environ.get("SUDO_USER", "root")
        user = caller if caller != "root" and find_account(caller) is not None else None
    if user is None:
        return site
    try:
        audit = Audit.model_validate({**site.audit.model_dump(), "user": user})
    except ValueError:
        raise InputError("unknown-user", f"`{user}` cannot be the name of a user") from None
    return site.model_copy(update={"audit": audit})


def _with_times(site: Site, node_timeout: float | None, deadline: float | None) -> Site:
    transport = site.transport
    times = {
        "node_timeout": min(node_timeout or transport.node_timeout, deadline or transport.deadline),
        "deadline": deadline or transport.deadline,
    }
    return site.model_copy(update={"transport": transport.model_copy(update=times)})


def _lmod(ctx: Context) -> Lmod | None:
    """Return the Lmod of this host, for the expected effects of loading; nodes are also audited without it."""
    try:
        return find_lmod(ctx.site.lmod.dir, ctx.environ, runner=ctx.runner)
    except EnvmgrError as error:
        ctx.reporter.say(f"warning: {error.message}: what loading gives is compared between nodes only")
        return None


def _asked(way: str, fleet: Fleet) -> WayAnswers:
    by_status = {s: fold(r.node for r in fleet.missing if r.status == s) for s in ("silent", "unreachable")}
    return WayAnswers(way, fold(fleet.nodes), by_status["silent"], by_status["unreachable"])


def _accounts(evidence: Evidence) -> tuple[str, ...]:
    names = {"root": "root", "user": evidence.plan.user}
    return tuple(dict.fromkeys(names[account] for _, account, _ in evidence.asked))
