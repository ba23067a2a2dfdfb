"""Users can read what their shells read at their start: /etc/profile, /etc/profile.d, Lmod's and node-setup's files.

A file that was written under umask 077 is there for root and not for users: their shells pass over it without a word, and root's tests are
well. Looked at in the ordinary user's login bash. A file of /etc/profile.d that users cannot read on any node is meant for root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.comparing import QUORUM
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import ProbeStage
from envmgr.probe.shell import context_key
from envmgr.system.shelltext import script_text


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"context": script_text(__file__, "context.sh")}


def judge(evidence: Evidence) -> Iterator[Finding]:
    for context, account, fleet in evidence.contexts():
        if context.name != "bash-login" or account != "user":
            continue
        shut: dict[str, list[str]] = {}
        for lines, nodes in fleet.by_value(f"{context_key(context, account)}startup_files").items():
            for path in lines.splitlines():
                shut.setdefault(path, []).extend(nodes)
        for path, having in shut.items():
            meant = path.startswith("/etc/profile.d/") and len(having) == len(fleet.nodes) and len(having) >= QUORUM
            if not meant:
                yield Finding(
                    "startup-files", "error", path, f"{evidence.plan.user} cannot read it, root can", "readable by all users",
                    f"on the node: `chmod a+rX {path}`", fold(having),
                )  # fmt: skip


__all__ = ["judge", "probe"]
