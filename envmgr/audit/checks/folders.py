"""Folders of modules and of the software that they name lie on the same file systems on every node.

In the ordinary user's login shell: each folder of MODULEPATH that is not the prefix's, and the first two parts of each path that its
modulefiles name (`/apps/gcc`, `/opt/intel`). Of a network file system, or one of programs (FUSE), type, source and options are compared
between nodes; all others are one, `a local disk`. A folder that is a local disk on one node and a mount on the others is one that was
not mounted, or a copy that was left there: modules there are old, or gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.comparing import drift
from envmgr.audit.folding import joined, short
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.finding import Finding
from envmgr.probe.model import Facts, ProbeStage
from envmgr.system.shelltext import script_text

NEEDS_MODULES = True
_LOCAL, _GONE = "a local disk", "not there"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"login": script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from joined(_all(evidence))


def _all(evidence: Evidence) -> Iterator[Finding]:
    fleet = evidence.shells
    folders = sorted({folder for group in fleet.groups for folder in _folders(group.facts)})
    for folder in folders:
        values = fleet.by(lambda facts, folder=folder: _folders(facts).get(folder))  # type: ignore[misc]
        mounted = next((value for value in values if value not in (_LOCAL, _GONE)), "")
        yield from drift(
            "folders", folder, values, evidence, severity="error" if _LOCAL in values and mounted else "warning",
            say=short, hint=_hint(mounted),
        )  # fmt: skip


def _hint(mounted: str) -> str:
    if not mounted:
        return "is its package installed on all of them?"
    source = mounted.split(" ")[1]
    return f"on the node: `grep -s '{source}' /etc/fstab /etc/auto.*` says where it is mounted; mount it, or compare its options"


def _folders(facts: Facts) -> dict[str, str]:
    """folder -> where it lies."""
    lines = (line.partition("\t") for line in facts.get("folders.at", "").splitlines())
    return {folder: where or _LOCAL for folder, _, where in lines}


__all__ = ["judge", "probe"]
