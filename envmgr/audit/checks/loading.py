"""What loading an entry changes in the environment: the same on every node as here.

For a sample of entries (`--modules`), the entry is loaded in a clean environment with the ordinary user's MODULEPATH and
LMOD_RC, and the whole environment afterwards is compared, by its sha256, with what the same commands give on this host
with the published modules. Lmod's own variables, and those that differ between accounts, are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from envmgr.audit.effect import EFFECT
from envmgr.audit.folding import short
from envmgr.audit.model import Evidence
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import Fleet, ProbePlan, ProbeStage
from envmgr.probe.shell import printable

_LOGIN = (
    EFFECT
    + r"""
listed=
case :${MODULEPATH-}: in *":$generation/modules:"*) listed=yes ;; esac
if [ -n "${LMOD_CMD-}" ] && [ -n "$listed" ]; then
  scratch=$room/scratch said=$room/said env=$room/env
  for entry in $samples; do
    if effect "$LMOD_CMD" "$MODULEPATH" "${LMOD_RC-}" "$entry" >"$env" 2>"$said"; then
      put "loading.sha256.$entry" "$(sum <"$env")"
      head -n 100 "$env" | cut -c1-2000 | lines "loading.env.$entry"
    else
      grep . "$said" | head -n 5 | lines "loading.failed.$entry"
    fi
  done
fi
"""
)


def probe(plan: ProbePlan) -> Mapping[ProbeStage, str]:
    return {"login": _LOGIN} if plan.number is not None and plan.samples else {}


def judge(evidence: Evidence) -> Iterator[Finding]:
    if evidence.published is None:
        return
    current = f"generations/{evidence.published.record.number:04d}"
    fleet = evidence.shells.only(lambda facts: facts.get("current") == current)
    for entry in evidence.plan.samples:
        for said, nodes in fleet.by_value(f"loading.failed.{entry}").items():
            yield Finding(
                "loading", "error", entry, f"cannot be loaded: {short(' '.join(said.split()))}", "`module load` that works",
                f"on the node: `module load {entry}`", fold(nodes),
            )  # fmt: skip
        yield from _differences(entry, fleet, evidence.plan.loads.get(entry))


def _differences(entry: str, fleet: Fleet, here: str | None) -> Iterator[Finding]:
    found = fleet.by_value(f"loading.sha256.{entry}")
    if not found or (here is None and len(found) < 2):
        return
    right = next(iter(found)) if here is None else _sum(here)
    reference = printable(here) if here is not None else _text(entry, right, fleet)
    for value, nodes in found.items():
        if value != right:
            yield Finding(
                "loading", "error", entry, f"gives another environment: {short(_changed(_text(entry, value, fleet), reference))}",
                "what loading it on this host gives" if here is not None else f"as on {fold(found[right])}",
                f"on the node: `module show {entry}`; is it the published file, and the same Lmod?", fold(nodes),
            )  # fmt: skip


def _text(entry: str, value: str, fleet: Fleet) -> str:
    alike = (g.facts for g in fleet.groups if g.facts.get(f"loading.sha256.{entry}") == value)
    return next((facts.get(f"loading.env.{entry}", "") for facts in alike), "")


def _changed(text: str, reference: str) -> str:
    """The variables that are other in `text`, and those that it lacks."""
    names = {line.partition("=")[0] for line in text.splitlines()}
    gone = [n for line in reference.splitlines() if (n := line.partition("=")[0]) not in names]
    known = set(reference.splitlines())
    return "; ".join(
        [line for line in text.splitlines() if line not in known] + [f"{name} is not set" for name in gone]
    )


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


__all__ = ["judge", "probe"]
