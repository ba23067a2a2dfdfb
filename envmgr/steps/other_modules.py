"""The modules of nodes, and the tool that made each: EasyBuild, Spack, conda, EESSI, or none. `envmgr adopt` asks for
them.

This has the form of a check and has no findings: `read_other_modules` reads what nodes report. The tool is known from
the module's file (EasyBuild and Spack write their names into it), else from the first folder that the file names:
`easybuild/`, `conda-meta/`, `.spack/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envmgr.audit.model import Check
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import CheckTable
from envmgr.probe.model import Facts, ProbeStage
from envmgr.system.shelltext import assign, script_text

MOST = 5000


@dataclass(frozen=True, slots=True, order=True)
class FoundModule:
    """A module by its name for `module load`. `root` is the first folder that its file names, empty for none; `gone` if
    the user does not find that folder.
    """

    name: str
    folder: str
    made_by: str
    root: str
    gone: bool = False


def probe(_: AuditPlan) -> Mapping[ProbeStage, str]:
    given = assign(other_modules_most=MOST, other_modules_seconds=30)
    return {"login": f"{given}{script_text(__file__, 'sh')}"}


def read_other_modules(facts: Facts) -> tuple[FoundModule, ...]:
    rows = (line.split("|") for line in facts.get("other_modules.modules", "").splitlines())
    return tuple(FoundModule(r[0], r[1], r[2], r[3], r[4:] == ["gone"]) for r in rows if 4 <= len(r) <= 5)


CHECK = Check(probe=probe, table=CheckTable(part="other_modules"))
