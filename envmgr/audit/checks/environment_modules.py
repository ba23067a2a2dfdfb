"""Environment Modules, at sites that have it instead of Lmod: the same version and settings on every node.

The settings come from `module config` in the ordinary user's login shell. Only versions 4 and newer report them.
Settings that belong to the terminal or the home are left out. The check `contexts` reports which of the two programs a
shell has.
"""

from __future__ import annotations

from envmgr.audit.compare.between_nodes import by_name
from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.probe.model import Facts


def judge(evidence: Evidence) -> Rows:
    """Yield the settings that differ between nodes of one version.

    A setting comes from the variable `MODULES_NAME`. Source: Environment Modules' module(1), `config`.
    """
    for version in evidence.shells.by_value("environment_modules.version"):
        alike = evidence.shells.where("environment_modules.version", version)
        for name, values in by_name(alike, _settings).items():
            variable = f"MODULES_{name.upper()}"
            yield evidence.compared("setting", values, evidence.user_login, name=name, variable=variable)


def _settings(facts: Facts) -> dict[str, str]:
    lines = (line.partition(" ") for line in facts.get("environment_modules.settings", "").splitlines())
    return {name: value.strip() for name, _, value in lines}


CHECK = Check(judge=judge, probe=scripts(__file__, "login"), wants=frozenset({"modules"}))
