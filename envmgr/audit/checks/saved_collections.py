"""In every context, Lmod loads the hook that restores saved collections after a publish, and the hook knows this Lmod.

The check asks Lmod itself, in each shell and job that has a generation. If another SitePackage.lua hides the hook, or
the hook is missing, a collection restores only in the generation that it was saved in. If Lmod's own function differs
from the one that the hook was made for, the hook leaves collections to Lmod, which is a note. A hook from another
envmgr than the one that audits may do less, or other things, than this text says.

A default collection (~/.lmod.d/default), or the site's LMOD_SYSTEM_DEFAULT_MODULES, that cannot be loaded is a finding
with Lmod's words. The files that shell-init uses lie in the prefix, and are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.causes import Traced, set_by
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.wording import short
from envmgr.modules.nodesetup import HOOK, hook_digest, hook_names
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, Fleet, ProbeStage, ShellAccount, ShellContext
from envmgr.probe.shell import context_key
from envmgr.system.modes import as_user
from envmgr.system.shelltext import assign, quote, script_text

_KNOWN, _NOT_LOADED = "known", "not loaded"  # any other answer: why Lmod's function is unknown
_BROKEN = "broken"  # a file that the hook reads when it restores
_NOT_THERE = "\n"  # stands for no path
_OF_SITE, _PACKAGE = "LMOD_SYSTEM_DEFAULT_MODULES", "LMOD_PACKAGE_PATH"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"context": assign(hook=HOOK, hook_files=" ".join(hook_names())) + script_text(__file__, "context.sh")}


def judge(evidence: Evidence) -> Iterator[Row]:
    yield from _all(evidence)


def _all(evidence: Evidence) -> Iterator[Row]:
    digest = hook_digest()
    for context, account, fleet in evidence.contexts():
        key = context_key(context, account)
        where = evidence.shell(context, account)
        yield from _missing(context, account, fleet, evidence)
        yield from _default(context, account, fleet, evidence)
        others = {n for said, nodes in fleet.by_value(f"{key}hook.sum").items() if said != digest for n in nodes}
        for said, nodes in fleet.by_value(f"{key}hook").items():
            if said == _BROKEN:
                yield Found(
                    "warning",
                    where,
                    "a file of envmgr's hook is missing or damaged",
                    f"the files in {HOOK}",
                    f"`envmgr node-setup --apply --nodes {fold(nodes)}`",
                    nodes,
                )
                continue
            if stale := [node for node in nodes if node in others]:
                yield Found(
                    "warning",
                    where,
                    "envmgr's hook is of another envmgr than this one",
                    f"its files in {HOOK}",
                    f"`envmgr node-setup --apply --nodes {fold(stale)}`",
                    stale,
                )
            ours = [node for node in nodes if node not in others]
            if ours and said not in (_KNOWN, _NOT_LOADED):
                yield Found(
                    "note",
                    where,
                    f"the hook leaves them to this Lmod: {short(said)}",
                    "an Lmod that the hook knows",
                    "after a publish, users save them again; a newer envmgr may know this Lmod",
                    ours,
                )


def _default(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield default collections that a login shell cannot restore."""
    key, where = context_key(context, account), evidence.shell(context, account)
    for found, nodes in fleet.by_value(f"{key}collection").items():
        said = next((text for text, of in fleet.by_value(f"{key}collection.said").items() if set(of) & set(nodes)), "")
        hint: str | Traced = (
            f"as {evidence.account(account)}: load what is wanted, then `module save`; or `{as_user(evidence.account(account), f'rm {quote(found)}')}`"
        )
        if found.startswith(f"{_OF_SITE}="):
            known = " sets it: name modules that are there, or take that line away"
            hint = set_by(nodes, context, account, _OF_SITE, known, f"a start-up file{known}")
        yield Found(
            "warning",
            where,
            f"{short(found)} cannot be loaded: {short(' '.join(said.split())) or 'and Lmod says nothing'}",
            "a default collection that restores",
            hint,
            nodes,
        )


def _missing(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    key, where = context_key(context, account), evidence.shell(context, account)
    hint: str | Traced
    for named, nodes in fleet.by(lambda facts: _named(facts, key)).items():
        if named == _NOT_THERE:
            found, hint = "envmgr's hook is not installed", f"`envmgr node-setup --apply --nodes {fold(nodes)}`"
        else:
            found = f"Lmod does not load envmgr's hook: {_PACKAGE} is {short(named) or 'not set'}"
            known = f" sets it after /etc/profile.d/zz-envmgr.sh: let it keep {HOOK} at the end"
            hint = set_by(nodes, context, account, _PACKAGE, known, f"a start-up file{known}", foreign=True)
        yield Found("warning", where, found, f"Lmod loads {HOOK}", hint, nodes)


def _named(facts: Facts, key: str) -> str | None:
    """Return LMOD_PACKAGE_PATH if the hook is installed and not loaded."""
    if facts.get(f"{key}hook") != _NOT_LOADED:
        return None
    return facts.get(f"{key}hook.named", "") if f"{key}hook.there" in facts else _NOT_THERE


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published", "modules"}), joins=True)
