"""Folders that modules open, such as those of a compiler or an MPI: the same on every node, with the same content.

In the ordinary user's login shell, the check loads modules outside the prefix whose file names MODULEPATH, each in a
clean environment. It then loads such modules from the folders that these open. It loads at most 24 modules, in three
levels and 15 seconds; if there are more, it takes others each day. The check compares between nodes which folders a
module opens, whether they are there, and which files they have with which content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from envmgr.audit.compare.between_nodes import drift
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.folder_content import (
    absent,
    by_folder,
    changed,
    closed,
    contents,
    folder_content,
    names,
    not_read,
)
from envmgr.audit.shell.shared_shell import module_show, opened
from envmgr.audit.wording import short
from envmgr.probe.model import Facts, ProbeStage
from envmgr.system.shelltext import script_text

_OPENS = "hierarchy.opens."
_FAILS = "!"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    return {"login": opened(plan.day) + folder_content(deep=plan.deep) + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Row]:
    fleet = evidence.shells
    yield from not_read("hierarchy", fleet, deep=evidence.plan.deep)
    chains = sorted(
        {key.removeprefix(_OPENS) for group in fleet.groups for key in group.facts if key.startswith(_OPENS)}
    )
    if cut := fleet.by_value("hierarchy.cut").get("yes"):
        yield Found(
            "note",
            "modules that open folders",
            "not all of them were asked: more than 24, or no time",
            "each of them asked",
            "others are asked each day; `--check hierarchy` alone has more time",
            cut,
        )
    for chain in chains:
        asked = fleet.only(lambda facts, chain=chain: _OPENS + chain in facts)  # type: ignore[misc]
        values = asked.by(lambda facts, chain=chain: _opens(chain, facts))  # type: ignore[misc]
        yield from drift(
            chain,
            values,
            evidence,
            what="opens",
            sampled=True,
            severity="note" if _all_there(values) else "warning",
            say=_in_words,
            hint=f"on the node: `{module_show(chain)}`; was that folder not copied, or not mounted?",
        )
    for folder, groups in sorted(by_folder("hierarchy", fleet).items()):
        yield from closed("hierarchy", folder, groups, evidence)
        yield from absent("hierarchy", folder, groups, evidence)
        chain = next(group.facts.get(f"hierarchy.by.{number}", "") for group, _, number in groups)
        yield from drift(
            folder,
            contents("hierarchy", groups),
            evidence,
            what="content",
            sampled=True,
            say=lambda _value: "other files",
            expect=lambda _right, _value: "the same files with the same content",
            told=lambda of: "; ".join(filter(None, (names(of.value, of.right), _other(of.value, of.right)))),
            hint=f"`module load {chain}` opens that folder: a copy that was edited, or that is not shared? put the right files there",
        )


def _opens(chain: str, facts: Facts) -> str:
    absent = facts.get("hierarchy.absent", "").splitlines()
    return "\n".join(
        f"{folder} {'-' if folder in absent else ''}".rstrip() for folder in facts[_OPENS + chain].splitlines()
    )


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


def _other(value: str, right: str) -> str:
    found = changed(value, right)
    return f"other content: {found}" if found else ""


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
