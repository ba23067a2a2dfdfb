"""Findings of an audit as text."""

from __future__ import annotations

import time

from envmgr.audit.findings import Caused
from envmgr.probe.model import grouped
from envmgr.report import Finding, Lines, Table
from envmgr.wording import and_more

_PLACES = 3  # of a check, which follow from one cause


def place(finding: Finding) -> str:
    """Return the nodes of which it is true."""
    return finding.nodes or (f"{finding.between} differ" if finding.between else "here")


def head(finding: Finding) -> str:
    """Return what it is, and of what."""
    return f"{finding.severity}[{finding.check}] {place(finding)}: {finding.where}"


def rows(finding: Finding) -> list[tuple[str, str]]:
    """Return what is said of it, each with its name."""
    told = ("found", finding.found), ("expected", finding.expected), ("hint", finding.hint)
    return [(name, text) for name, text in told if text]


def finding_lines(finding: Caused, began: float = 0.0, *, verbose: bool = False) -> Lines:
    """Yield one cause as a block; `since` is there if it was seen before `began`."""
    yield head(finding)
    told = [*rows(finding), ("also", "" if verbose else also(finding))]
    if finding.since is not None and finding.since < began:
        told.append(("since", time.strftime("%Y-%m-%d %H:%M", time.localtime(finding.since))))
    yield Table([(f"  {name}", text) for name, text in told if text])
    for consequence in finding.consequences if verbose else ():
        yield f"  from it: {head(consequence)}"
        yield Table([(f"    {name}", text) for name, text in rows(consequence)])


def also(finding: Caused) -> str:
    """Return what follows from the cause of a finding: `contexts: csh (root, alice); loading on c2: pydata/1.0`, with the
    nodes where they are not those of the finding.
    """
    own = ("", finding.nodes or finding.between)
    each = ((of, of.nodes or of.between) for of in finding.consequences)
    places = grouped((of.check if nodes in own else f"{of.check} on {nodes}", of.where) for of, nodes in each)
    return "; ".join(f"{of}: {and_more([*dict.fromkeys(where)], _PLACES)}" for of, where in places.items())
