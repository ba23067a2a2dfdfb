"""Modulefiles of others: the folders besides the prefix's in the users' MODULEPATH have the same content on every node.

In the ordinary user's login shell, the files of each such folder are hashed, 10,000 at most (100,000 with `--deep`) and for ten seconds;
that a file has another content on a node than on the others (an edited copy, a folder that was copied and not shared) is told with its
path. Which names are listed is compared by the check of resolution. A path that a modulefile names, and that other nodes have, is there.
Folders are compared between nodes that have them in MODULEPATH.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.baseline import Compared
from envmgr.audit.comparing import as_on, chosen, compare, drift
from envmgr.audit.folder_content import Having, by_folder, changed, contents, folder_content, not_read
from envmgr.audit.folding import short
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import ProbeStage
from envmgr.system.shelltext import script_text

NEEDS_MODULES = True
_HINT = "a copy that was edited, or a folder that is not shared? put the right file there"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    return {"login": folder_content(deep=plan.deep) + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Finding]:
    fleet = evidence.shells
    yield from not_read("modulefiles", fleet, deep=evidence.plan.deep)
    for folder, groups in sorted(by_folder("modulefiles", fleet).items()):
        yield from _absent(folder, groups, evidence)
        compared = chosen(Compared("modulefiles", folder, "content"), contents("modulefiles", groups), evidence)
        for of in compared.outliers:
            if found := changed(of.value, of.right):
                yield Finding(
                    "modulefiles", "warning", folder, f"other content: {found}", f"the same content, {as_on(of.others)}",
                    _HINT, fold(of.nodes),
                )  # fmt: skip
        if compared.differ:
            first, second, *_ = compared.differ
            if found := changed(first, second):
                yield Finding(
                    "modulefiles", "warning", folder, f"different content: {found}",
                    "the same everywhere; `--reference NODE` says which node is right", _HINT,
                    between=fold(node for nodes in compared.differ.values() for node in nodes),
                )  # fmt: skip


def _absent(folder: str, groups: Having, evidence: Evidence) -> Iterator[Finding]:
    """What modulefiles name by its path and one node has not; what no node has may be made when it is needed."""
    values: dict[str, tuple[str, ...]] = {}
    for group, _, number in groups:
        if f"modulefiles.named.{number}" in group.facts:  # else it was not looked at, or not to the end
            lines = group.facts.get(f"modulefiles.absent.{number}", "")
            values[lines] = (*values.get(lines, ()), *group.nodes)
    more = {
        of.value: of.right
        for of in compare(values, evidence).outliers
        if set(of.value.splitlines()) <= set(of.right.splitlines())
    }  # these have what others have not: no fault of theirs
    wanted: dict[str, tuple[str, ...]] = {}
    for value, nodes in values.items():
        wanted[more.get(value, value)] = (*wanted.get(more.get(value, value), ()), *nodes)
    yield from drift(
        "modulefiles", folder, wanted, evidence, what="paths that are not there", hint="install, or mount, on that node what the modulefile names; or take the modulefile away there",
        say=lambda lines: short("; ".join(lines.splitlines())) or "all paths are there",
        expect=lambda _right, _value: "what modulefiles name is there, and can be read",
        told=lambda of: short("; ".join(_not_there(line) for line in of.value.splitlines() if line not in of.right.splitlines())),
    )  # fmt: skip


def _not_there(line: str) -> str:
    file, path, *closed = line.split(" ")
    return f"{file} names {path}, which {'the user cannot enter' if closed else 'is not there'}"


__all__ = ["judge", "probe"]
