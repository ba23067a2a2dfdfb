"""munge works on every node, with the key that this host has. Only looked at where Slurm is in use.

Each node makes a credential (`munge -n`), and this host decodes it. A node with another key, or without munged, gets no
jobs from Slurm, or cannot tell who submits one. Credentials are made to live an hour, so that a long audit does not call
them expired: clocks have a check of their own. Where munge is not installed, nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.folding import short
from envmgr.audit.model import Evidence
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.apart import APART
from envmgr.probe.model import ProbePlan, ProbeStage

# The credential is the node's own; that there is none is compared. 3600 s is the longest life that munged gives.
_NODE = r"""
if command -v munge >/dev/null; then
  apart 5 "$0.munge" munge -n -t 3600
  case $? in
    0) own munge.credential "$(cat "$0.munge")" ;;
    124) put munge.failed "no answer in 5 s" ;;
    *) put munge.failed "$(sed 's/^munge: //; s/^Error: //' "$0.munge.err" | head -n 1 | cut -c1-200)" ;;
  esac
fi
"""
_MENDS = (
    "the same /etc/munge/munge.key on all hosts, owned by munge with mode 0400; then `systemctl restart munge` there"
)


def probe(plan: ProbePlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"node": APART + _NODE}


def judge(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.slurm and not evidence.slurm_broken:
        return
    fleet = evidence.mounts  # over ssh where that was used at all: a node with a bad munge gets no job
    for said, nodes in fleet.by_value("munge.failed").items():
        yield Finding(
            "munge", "error", "munge", short(f"`munge -n` fails: {said or 'without a word'}"), "a credential",
            "`systemctl restart munge` on the node; its log says why it ended", fold(nodes),
        )  # fmt: skip
    if here := evidence.controller.get("munge.failed"):
        yield Finding(
            "munge", "error", "munge on this host", short(f"`munge -n` fails: {here}"), "a credential",
            "`systemctl restart munge` here: nothing that nodes send can be decoded",
        )  # fmt: skip
        return
    wrong: dict[str, list[str]] = {}
    for node in fleet.nodes:
        credential = fleet.own.get(node, {}).get("munge.credential", "")
        if credential and (reason := evidence.unmunge(credential)):
            wrong.setdefault(reason, []).append(node)
    for reason, bad in wrong.items():
        yield Finding(
            "munge",
            "error",
            "munge",
            f"this host cannot decode its credential: {reason}",
            "the same key",
            _MENDS,
            fold(bad),
        )
