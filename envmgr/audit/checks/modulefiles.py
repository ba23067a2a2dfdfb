"""Modulefiles outside the prefix: the other folders in the users' MODULEPATH have the same content on every node.

In the ordinary user's login shell, the files of each such folder are hashed: 10,000 at most (100,000 with `--deep`),
for ten seconds. The check reports, with its path, a file whose content on a node differs from that on the other nodes.
The cause is an edited copy, or a folder that was copied and not shared. A path that a modulefile names must be there if
other nodes have it. Folders are compared between nodes that have them in MODULEPATH. The check `resolution` compares
which names are listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.baseline import Compared
from envmgr.audit.compare.between_nodes import alike, as_on, chosen
from envmgr.audit.model import Check, Evidence, Found, Noted, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.folder_content import absent, by_folder, changed, closed, contents, folder_content, not_read
from envmgr.probe.model import ProbeStage
from envmgr.system.shelltext import script_text

_HINT = "a copy that was edited, or a folder that is not shared? put the right file there"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    return {"login": folder_content(deep=plan.deep) + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Row]:
    fleet = evidence.shells
    yield from not_read("modulefiles", fleet, deep=evidence.plan.deep)
    for folder, groups in sorted(by_folder("modulefiles", fleet).items()):
        yield from closed("modulefiles", folder, groups, evidence)
        yield from absent("modulefiles", folder, groups, evidence)
        key, values = Compared("modulefiles", folder, "content"), contents("modulefiles", groups)
        yield Noted(key, values)
        compared = chosen(key, values, evidence)
        for of in compared.outliers:
            if found := changed(of.value, of.right):
                yield Found(
                    "warning",
                    folder,
                    f"other content: {found}",
                    f"the same content, {as_on(of.others)}",
                    _HINT,
                    of.nodes,
                )
        if compared.differ:
            first, second, *_ = compared.differ
            if found := changed(first, second):
                yield Found(
                    "note" if compared.by_kind else "warning",
                    folder,
                    f"different content: {found}",
                    alike(compared),
                    _HINT,
                    between=(node for nodes in compared.differ.values() for node in nodes),
                )


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
