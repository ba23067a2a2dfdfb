"""Environment Modules, where a site has them instead of Lmod: the same version and settings on every node.

In the ordinary user's login shell, of its own `module config`. Versions 4 and newer tell; what belongs to the terminal or the home is left
out. Which of the two programs a shell has is looked at by the check of contexts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.baseline import Compared
from envmgr.audit.comparing import drift
from envmgr.audit.exported_variables import settings_questions, who_set
from envmgr.audit.folding import short
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.audit.trace import TraceQuestion
from envmgr.finding import Finding
from envmgr.probe.model import Facts, Fleet, ProbeStage
from envmgr.system.shelltext import script_text

NEEDS_MODULES = True
_SITE_FILES = "its initrc and siteconfig.tcl (/etc/environment-modules), and MODULES_* in start-up files"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"login": script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Finding]:
    fleet = evidence.shells.only(lambda facts: "environment_modules.version" in facts)
    yield from drift(
        "environment-modules",
        "version",
        fleet.by_value("environment_modules.version"),
        evidence,
        hint="install the same version on every node",
        say=lambda version: f"Environment Modules {version}",
    )
    for version in fleet.by_value("environment_modules.version"):
        alike = fleet.only(lambda facts, version=version: facts["environment_modules.version"] == version)  # type: ignore[misc]
        for name in sorted({name for group in alike.groups for name in _settings(group.facts)}):
            values = _values(name, alike)
            yield from drift(
                "environment-modules",
                "settings",
                values,
                evidence,
                what=name,
                hint=who_set(_variable(name), values, evidence) or f"compare {_SITE_FILES}",
                say=lambda value, name=name: f"{name} is {short(value) or 'not set'}",  # type: ignore[misc]
            )


def trace_questions(evidence: Evidence) -> Iterator[TraceQuestion]:
    """Who sets the variables of settings that differ."""
    fleet = evidence.shells.only(lambda facts: "environment_modules.version" in facts)
    for version in fleet.by_value("environment_modules.version"):
        alike = fleet.only(lambda facts, version=version: facts["environment_modules.version"] == version)  # type: ignore[misc]
        names = sorted({name for group in alike.groups for name in _settings(group.facts)})
        values = {_variable(n): (Compared("environment-modules", "settings", n), _values(n, alike)) for n in names}
        yield from settings_questions(values, evidence)


def _values(name: str, fleet: Fleet) -> dict[str, tuple[str, ...]]:
    return fleet.by(lambda facts: _settings(facts).get(name, ""))


def _variable(name: str) -> str:
    """The one that sets it. Source: Environment Modules' module(1), `config`."""
    return f"MODULES_{name.upper()}"


def _settings(facts: Facts) -> dict[str, str]:
    lines = (line.partition(" ") for line in facts.get("environment_modules.settings", "").splitlines())
    return {name: value.strip() for name, _, value in lines}


__all__ = ["judge", "probe", "trace_questions"]
