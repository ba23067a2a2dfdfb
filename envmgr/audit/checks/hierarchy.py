"""Folders that modules open, such as those of a compiler or an MPI: the same on every node, with the same content.

In the ordinary user's login shell, the check loads modules outside the prefix whose file names MODULEPATH, each in a
clean environment. It then loads such modules from the folders that these open. It loads at most 24 modules, in three
levels and 15 seconds, or more with a longer --node-timeout; if there are more modules, it takes others each day. The
check compares between nodes which folders a module opens, whether they are there, and which files they have with which
content.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from envmgr.audit.model import Check, Evidence, Outlier, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.folder_content import by_folder, changed, contents, folder_content, names, not_read, unusable
from envmgr.audit.shell.shared_shell import module_show, opened
from envmgr.audit.table import short
from envmgr.probe.model import Facts
from envmgr.system.shelltext import script_text

_OPENS = "hierarchy.opens."
_FAILS = "!"


def probe(plan: AuditPlan) -> ProbeTexts:
    return {
        "login": opened(plan.day, plan.seconds) + folder_content(deep=plan.deep) + script_text(__file__, "login.sh")
    }


def judge(evidence: Evidence) -> Rows:
    yield from not_read(evidence)
    for chain in evidence.shells.names(_OPENS):
        values = evidence.shells.by(partial(_opens, chain))
        row = "opens_another" if _all_there(values) else "opens"
        yield evidence.compared(row, values, chain=chain, show=module_show(chain), say=_in_words)
    for folder, fleet in by_folder("hierarchy", evidence.shells, "by").items():
        yield from unusable(folder, fleet, evidence)
        chain = fleet.groups[0].facts.get("by", "")
        yield evidence.compared("content", contents(fleet), folder=folder, chain=chain, told=_difference)


def _opens(chain: str, facts: Facts) -> str | None:
    """Return the folders that these modules open, each with ` -` where it is not there; None if they were not asked."""
    if (folders := facts.get(_OPENS + chain)) is None:
        return None
    absent = facts.get("hierarchy.absent", "").splitlines()
    return "\n".join(f"{folder} {'-' if folder in absent else ''}".rstrip() for folder in folders.splitlines())


def _all_there(values: Iterable[str]) -> bool:
    """Return True if each value names folders and all of them are there, perhaps one folder for each kind of CPU.

    The modulefile itself is compared elsewhere.
    """
    return all(
        value not in ("", _FAILS) and not any(line.endswith(" -") for line in value.splitlines()) for value in values
    )


def _in_words(value: str) -> str:
    if value == _FAILS:
        return "it cannot be loaded"
    folders = (line.partition(" ") for line in value.splitlines())
    return short("; ".join(f"it opens {f}{', which is not there' if gone else ''}" for f, _, gone in folders)) or (
        "it opens no folder"
    )


def _difference(of: Outlier) -> str:
    found = changed(of.value, of.right)
    words = names(of.value, of.right), f"other content: {found}" if found else ""
    return "; ".join(filter(None, words))


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
