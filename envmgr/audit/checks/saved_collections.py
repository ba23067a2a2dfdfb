"""In every context, Lmod loads the hook that restores saved collections after a publish, and the hook knows this Lmod.

The check asks Lmod itself, in each shell and job that has a generation. If another SitePackage.lua hides the hook, or
the hook is missing, a collection restores only in the generation that it was saved in. If Lmod's own function differs
from the one that the hook was made for, the hook leaves collections to Lmod, which is a note. A hook from another
envmgr than the one that audits may do less, or other things, than this text says.

A default collection (~/.lmod.d/default), or the site's LMOD_SYSTEM_DEFAULT_MODULES, that cannot be loaded is a finding
with Lmod's words. The files that shell-init uses lie in the prefix, and are not compared.
"""

from __future__ import annotations

from envmgr.audit.model import AskedShell, Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import short
from envmgr.modules.node_paths import HOOK
from envmgr.modules.nodesetup import hook_digest, hook_names
from envmgr.system.modes import as_user
from envmgr.system.shelltext import assign, quote, script_text

_KNOWN, _NOT_LOADED = "known", "not loaded"  # any other answer: why Lmod's function is unknown
_BROKEN = "broken"  # a file that the hook reads when it restores


def probe(plan: AuditPlan) -> ProbeTexts:  # noqa: ARG001 - the same for every plan
    return {"context": assign(hook=HOOK, hook_files=" ".join(hook_names())) + script_text(__file__, "context.sh")}


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        yield from _not_loaded(shell, evidence)
        yield from _not_restored(shell, evidence)
        yield from _hook(shell, evidence)


def _hook(shell: AskedShell, evidence: Evidence) -> Rows:
    digest = hook_digest()
    others = {node for said, nodes in shell.by_value("hook.sum").items() if said != digest for node in nodes}
    for said, nodes in shell.by_value("hook").items():
        if said == _BROKEN:
            yield evidence.say("broken", nodes, shell, hook=HOOK)
            continue
        if stale := [node for node in nodes if node in others]:
            yield evidence.say("of_another_envmgr", stale, shell, hook=HOOK)
        ours = [node for node in nodes if node not in others]
        if ours and said not in (_KNOWN, _NOT_LOADED):
            yield evidence.say("unknown_lmod", ours, shell, said=said)


def _not_restored(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield default collections that a login shell cannot restore."""
    for found, nodes in shell.by_value("collection").items():
        said = next((text for text, of in shell.by_value("collection.said").items() if set(of) & set(nodes)), "")
        words = short(" ".join(said.split())) or "and Lmod says nothing"
        row = "not_restored_of_site" if found.startswith("LMOD_SYSTEM_DEFAULT_MODULES=") else "not_restored"
        remove = as_user(shell.user, f"rm {quote(found)}")
        yield evidence.say(row, nodes, shell, found=found, said=words, remove=remove)


def _not_loaded(shell: AskedShell, evidence: Evidence) -> Rows:
    without = shell.only(lambda facts: facts.get(f"{shell.key}hook") == _NOT_LOADED)
    missing = without.only(lambda facts: f"{shell.key}hook.there" not in facts)
    if missing.fleet.nodes:
        yield evidence.say("not_installed", missing.fleet.nodes, shell, hook=HOOK)
    for named, nodes in without.having("hook.there").by_value("hook.named", default="").items():
        yield evidence.say("not_loaded", nodes, shell, named=short(named) or "not set", hook=HOOK)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published", "modules"}), loads=True, joins=True)
