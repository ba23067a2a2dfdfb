"""Environment Modules, where a site has them instead of Lmod: the same version and settings on every node.

In the ordinary user's login shell, of its own `module config`. Versions 4 and newer tell; what belongs to the terminal or the home is left
out. Which of the two programs a shell has is looked at by the check of contexts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.comparing import drift
from envmgr.audit.folding import short
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.finding import Finding
from envmgr.probe.model import Facts, ProbeStage
from envmgr.system.shelltext import script_text

NEEDS_MODULES = True
_SITE_FILES = "its initrc and siteconfig.tcl (/etc/environment-modules), and MODULES_* in start-up files"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"login": script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Finding]:
    fleet = evidence.shells.only(lambda facts: "environment_modules.version" in facts)
    yield from drift(
        "environment-modules", "version", fleet.by_value("environment_modules.version"), evidence,
        hint="install the same version on every node", say=lambda version: f"Environment Modules {version}",
    )  # fmt: skip
    for version in fleet.by_value("environment_modules.version"):
        alike = fleet.only(lambda facts, version=version: facts["environment_modules.version"] == version)  # type: ignore[misc]
        for name in sorted({name for group in alike.groups for name in _settings(group.facts)}):
            values = alike.by(lambda facts, name=name: _settings(facts).get(name, ""))  # type: ignore[misc]
            yield from drift(
                "environment-modules", "settings", values, evidence, what=name, hint=f"compare {_SITE_FILES}",
                say=lambda value, name=name: f"{name} is {short(value) or 'not set'}",  # type: ignore[misc]
            )  # fmt: skip


def _settings(facts: Facts) -> dict[str, str]:
    lines = (line.partition(" ") for line in facts.get("environment_modules.settings", "").splitlines())
    return {name: value.strip() for name, _, value in lines}


__all__ = ["judge", "probe"]
