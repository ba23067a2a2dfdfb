"""Environment Modules, at sites that have it instead of Lmod: the same version and settings on every node.

The settings come from `module config` in the ordinary user's login shell. Only versions 4 and newer report them.
Settings that belong to the terminal or the home are left out. The check `contexts` reports which of the two programs a
shell has.
"""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.compare.between_nodes import drift
from envmgr.audit.model import Check, Evidence, Row, scripts
from envmgr.audit.shell.exported_variables import set_at_login
from envmgr.audit.wording import short
from envmgr.probe.model import Facts, Fleet

_SITE_FILES = "its initrc and siteconfig.tcl (/etc/environment-modules), and MODULES_* in start-up files"


def judge(evidence: Evidence) -> Iterator[Row]:
    fleet = evidence.shells.only(lambda facts: "environment_modules.version" in facts)
    yield from drift(
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
                "settings",
                values,
                evidence,
                what=name,
                hint=set_at_login(_variable(name), values, evidence, f"compare {_SITE_FILES}"),
                say=lambda value, name=name: f"{name} is {short(value) or 'not set'}",  # type: ignore[misc]
            )


def _values(name: str, fleet: Fleet) -> dict[str, tuple[str, ...]]:
    return fleet.by(lambda facts: _settings(facts).get(name, ""))


def _variable(name: str) -> str:
    """Return the variable that sets `name`. Source: Environment Modules' module(1), `config`."""
    return f"MODULES_{name.upper()}"


def _settings(facts: Facts) -> dict[str, str]:
    lines = (line.partition(" ") for line in facts.get("environment_modules.settings", "").splitlines())
    return {name: value.strip() for name, _, value in lines}


CHECK = Check(judge=judge, probe=scripts(__file__, "login"), wants=frozenset({"modules"}))
