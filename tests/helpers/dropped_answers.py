"""Run on a node of a test cluster: audits it, then drops the answer of each check in turn, and prints what is told of that, as JSON.

`{check: {stage: severities of its findings}}`, of those that the healthy audit has not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from envmgr.audit.ask.gather import gather
from envmgr.audit.checks import all_checks
from envmgr.audit.judge import judge
from envmgr.audit.model import Evidence
from envmgr.audit.plan import AuditRequest
from envmgr.catalog.site import load_site
from envmgr.modules.lmod import find_lmod
from envmgr.probe.model import Facts, Fleet, Group
from envmgr.report import SilentReporter
from envmgr.system.run import Runner


def without(evidence: Evidence, dropped: Callable[[str], bool]) -> Evidence:
    """The same answers, without the facts that are dropped."""

    def kept(facts: Facts) -> Facts:
        return {key: value for key, value in facts.items() if not dropped(key)}

    def fleet(of: Fleet) -> Fleet:
        groups = tuple(Group(kept(group.facts), group.nodes) for group in of.groups)
        return replace(of, groups=groups, own={node: kept(facts) for node, facts in of.own.items()})

    return replace(
        evidence,
        ways={way: fleet(of) for way, of in evidence.ways.items()},
        here=fleet(evidence.here) if evidence.here else None,
    )


def main() -> None:
    site = load_site(Path(sys.argv[1]), os.environ)
    runner, checks = Runner(), all_checks()
    lmod = find_lmod(site.lmod.dir, os.environ, runner=runner)
    evidence, _ = gather(AuditRequest(nodes=None, via="ssh"), checks, site, lmod, runner, SilentReporter())
    healthy = judge(evidence, checks).findings
    told: dict[str, dict[str, list[str]]] = {}
    for name, check in checks.items():
        for stage in check.probe(evidence.plan):
            lost = without(evidence, lambda key, part=check.table.part: f".{part}." in f".{key}")  # type: ignore[misc]
            new = [f.severity for f in judge(lost, checks).findings if f.check == name and f not in healthy]
            told.setdefault(name, {})[stage] = new
    json.dump({"healthy": [f.found for f in healthy], "told": told}, sys.stdout)


if __name__ == "__main__":
    main()
