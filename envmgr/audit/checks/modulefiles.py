"""Modulefiles outside the prefix: the other folders in the users' MODULEPATH have the same content on every node.

In the ordinary user's login shell, the files of each such folder are hashed: 10,000 at most (100,000 with `--deep`),
for ten seconds. The check reports, with its path, a file whose content on a node differs from that on the other nodes.
The cause is an edited copy, or a folder that was copied and not shared. A path that a modulefile names must be there if
other nodes have it. Modulefiles whose software no node has are a warning, one for each folder. Folders are compared between nodes that have them in MODULEPATH. The check `resolution` compares
which names are listed.
"""

from __future__ import annotations

from envmgr.audit.baseline import Compared
from envmgr.audit.compare.between_nodes import alike, as_on, chosen
from envmgr.audit.model import Check, Evidence, Noted, ProbeTexts, Rows, Values
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.folder_content import by_folder, changed, contents, folder_content, not_read, unusable
from envmgr.report import Severity
from envmgr.system.shelltext import script_text


def probe(plan: AuditPlan) -> ProbeTexts:
    return {"login": folder_content(deep=plan.deep) + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    yield from not_read(evidence)
    for folder, fleet in by_folder("modulefiles", evidence.shells).items():
        yield from unusable(folder, fleet, evidence)
        yield from _other_content(folder, contents(fleet), evidence)


def _other_content(folder: str, values: Values, evidence: Evidence) -> Rows:
    """Yield files of other content. Files that only some nodes have are left to the check `resolution`."""
    key = Compared("modulefiles", folder, "content")
    yield Noted(key, values)
    compared = chosen(key, values, evidence)
    for of in compared.outliers:
        if found := changed(of.value, of.right):
            yield evidence.say("other_content", of.nodes, folder=folder, found=found, as_on=as_on(of.others))
    if compared.differ:
        first, second, *_ = compared.differ
        if found := changed(first, second):
            severity: Severity = "note" if compared.by_kind else "warning"
            expected = alike(compared)
            yield evidence.say(
                "different_content",
                (),
                None,
                severity,
                between=compared.between,
                folder=folder,
                found=found,
                expected=expected,
            )


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
