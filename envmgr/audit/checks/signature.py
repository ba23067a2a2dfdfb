"""The current flip was signed by an allowed signer, and every node has checked it, at sites that sign.

This host checks the flip in force with the site's own list of allowed signers. The faults are a missing signature, a
wrong one, and one by a key that is no longer valid. Another fault is a flip that came before one that was already in
force (a replay). The check asks each node what root's own check there found last and when, and if the node's list is
the site's.

A private signing key that other users can read, on this host or on a node, is an error on every site. The check looks
where `signing.key` says and beside it, and anywhere in /etc/envmgr.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from envmgr.audit.controller import Controller
from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.errors import EnvmgrError
from envmgr.modules.node_paths import CHECK_FLIP, SIGNERS
from envmgr.probe.model import ProbePart
from envmgr.probe.prefix import look_here
from envmgr.publish.flip_checks import FlipFault, look_at_current_flip, mend_of, severity_of
from envmgr.publish.signature import signers_text
from envmgr.store.prefix import Prefix
from envmgr.system.files import sha256_bytes
from envmgr.system.modes import closing
from envmgr.system.shelltext import assign, script_text

LATE = 1200
"""Seconds after which a check is old; the same in nodesetup/signed.sh."""


def probe(plan: AuditPlan) -> ProbeTexts:
    signing, home = plan.site.signing, str(Path(SIGNERS).parent)
    keys = "\n".join(map(str, signing.key_files)) if signing else ""
    of_key = assign(signature_keys=keys, signature_home=home) + script_text(__file__, "key.sh")
    return {"node": of_key + (assign(signature_limit=LATE) + script_text(__file__, "node.sh") if signing else "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """The list of signers and the flips of this host.

    `signers` is the sha256 of the site's list, or `unread` says why the list cannot be read. `faults` are those of the
    current flip. `open_keys` are the lines of `signature.open`.
    """

    signers: str = ""
    unread: str = ""
    faults: tuple[FlipFault, ...] = ()
    open_keys: str = ""


def ask_controller(controller: Controller, evidence: Evidence) -> Here:
    signing, published = evidence.site.signing, evidence.published
    # A look of its own: the node's part of other checks may hang, and with `--via slurm` it does not run here.
    keys = look_here(evidence.plan, controller.runner, controller.left, [ProbePart("signature", probe(evidence.plan))])
    here = Here(open_keys=keys.get("signature.open", ""))
    if signing is None:
        return here
    try:
        text = signers_text(signing)
        here = replace(here, signers=sha256_bytes((text if text.endswith("\n") else f"{text}\n").encode()))
    except EnvmgrError as error:
        here = replace(here, unread=error.message)
    if published is None:
        return here
    found = look_at_current_flip(Prefix(evidence.site.prefix), signing, controller.runner)
    return here if found is None else replace(here, faults=found[1].faults)


def judge(evidence: Evidence) -> Rows:
    here, looked = evidence.answer(Here) or Here(), evidence.looked("signature")
    for line, of in (dict.fromkeys(here.open_keys.splitlines(), ()) | looked.by_line("signature.open")).items():
        mode, _, path = line.partition(" ")
        yield evidence.say("open_key", of, path=path, mode=mode, close=closing("go-rwx", path))
    if evidence.site.signing is None:
        return
    if here.unread:
        yield evidence.say("unread", said=here.unread)
    right = next((fault.right for fault in here.faults if fault.right), None)
    for fault in here.faults:
        fix = mend_of(fault.state, [each.state for each in here.faults], right)
        severity = severity_of(fault.state)
        yield evidence.say("fault", severity=severity, path=fault.path, state=fault.state, found=fault.found, fix=fix)
    yield from looked_at(partial(_checked, here), looked, evidence)


def _checked(here: Here, look: Look) -> Iterator[Said]:
    signers, evidence = look.get("signature.signers"), look.evidence
    if here.signers and signers != here.signers:
        yield say("signers", what="is another list" if signers else "is not there")
    of_prefix = look.get("signature.prefix") == str(evidence.site.prefix)
    state, reason = look.get("signature.state") if of_prefix else "", look.get("signature.reason")
    if not state:
        yield say("unchecked", severity="error" if evidence.site.policies.unsigned == "refuse" else "warning")
    elif look.get("signature.late") == "yes":
        yield say("late", minutes=LATE // 60, program=CHECK_FLIP)
    elif state not in ("signed", "expired"):
        words = f"{state}{f': {reason}' if reason else ''}"
        yield say("refused", severity=severity_of(state), words=words, fix=mend_of(state))


CHECK = Check(judge=judge, probe=probe, ask_controller=ask_controller, wants=frozenset({"published"}))
