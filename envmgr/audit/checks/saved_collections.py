"""In every context, Lmod loads the hook that restores saved collections after a publish, and the hook knows this Lmod.

The check asks Lmod itself, in each shell and job that has a generation. If another SitePackage.lua hides the hook, a
collection restores only in the generation that it was saved in. If Lmod's own function differs from the one that the
hook was made for, the hook leaves collections to Lmod, which is a note. The hook's files are compared by the check
`node-setup`.

A default collection (~/.lmod.d/default), or the site's LMOD_SYSTEM_DEFAULT_MODULES, that cannot be loaded is a finding
with Lmod's words.
"""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import short
from envmgr.modules.node_paths import HOOK
from envmgr.system.modes import as_user
from envmgr.system.shelltext import assign, quote, script_text

_KNOWN, _NOT_LOADED = "known", "not loaded"  # any other answer: why Lmod's function is unknown


def probe(plan: AuditPlan) -> ProbeTexts:  # noqa: ARG001 - the same for every plan
    return {"context": assign(hook=HOOK) + script_text(__file__, "context.sh")}


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        yield from looked_at(_collections, shell.fleet, evidence, shell)


def _collections(look: Look) -> Iterator[Said]:
    if look.has("hook"):
        yield from _hook(look.get("hook"), look)
    if found := look.get("collection"):  # a login shell cannot restore it
        row = "not_restored_of_site" if found.startswith("LMOD_SYSTEM_DEFAULT_MODULES=") else "not_restored"
        words = short(" ".join(look.get("collection.said").split())) or "and Lmod says nothing"
        user = (look.shell or look.evidence.plan).user
        yield say(row, found=found, said=words, remove=as_user(user, f"rm {quote(found)}"))


def _hook(hook: str, look: Look) -> Iterator[Said]:
    if hook not in (_KNOWN, _NOT_LOADED):
        yield say("unknown_lmod", said=hook)
    elif hook == _NOT_LOADED and look.has("hook.there"):
        yield say("not_loaded", named=short(look.get("hook.named")) or "not set", hook=HOOK)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}), loads=True)
