"""Lmod itself is the same on every node: its version, its Lua, its configuration, its SitePackage.lua.

The check first asks the node, without any start-up file, if Lmod is there and runs. If Lmod does not, only that is
reported, and not what follows from it. All else is asked in the ordinary user's login shell, from Lmod's own
`--config_json` and that shell's LMOD_* variables.

The version must be the one that made the published generation's cache. Another version may write and read caches in
another way, and resolves versions by other rules. Settings are compared between nodes with the same version, by the
names of the variables that set them. Settings that differ between healthy nodes (host name, terminal, home) are left
out. The rc files and the caches are left to other checks. SitePackage.lua and lmod_config.lua are compared by their
content.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from envmgr.audit.compare.between_nodes import by_name
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.table import fields_of, short
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, Fleet
from envmgr.system.shelltext import assign, script_text

_NOT_SET = "not set"


def probe(plan: AuditPlan) -> ProbeTexts:
    return {
        "node": assign(lmod_home=plan.init.removesuffix("/init")) + script_text(__file__, "node.sh"),
        "login": shared("lmod_config") + script_text(__file__, "login.sh"),
    }


def _without_lmod(evidence: Evidence) -> frozenset[str]:
    """Return the nodes on which Lmod itself does not run, for root or any user.

    All else that shells there lack follows from it.
    """
    able = {"lmod.version", "environment_modules.version"}
    runs = {node for group in evidence.shells.groups if able & group.facts.keys() for node in group.nodes}
    dead = evidence.fleet.only(lambda facts: bool({"lmod.gone", "lmod.fails"} & facts.keys()))
    return frozenset(dead.nodes) - runs


def judge(evidence: Evidence) -> Rows:
    dead = _without_lmod(evidence)
    for home, nodes in evidence.fleet.by_value("lmod.gone").items():
        if of := dead.intersection(nodes):
            yield evidence.say("not_installed", of, home=home)
    for said, nodes in evidence.fleet.by_value("lmod.fails").items():
        if of := dead.intersection(nodes):
            yield evidence.say("does_not_run", of, said=short(" ".join(said.split())) or "it says nothing")
    alive = evidence.shells.only(lambda facts: not {"lmod.gone", "lmod.fails"} & facts.keys())
    for said, nodes in alive.by_value("lmod.broken").items():
        yield evidence.say("broken", nodes, said=short(said) or "it says nothing")
    fleet = evidence.shells.only(lambda facts: "lmod.version" in facts)
    yield from _versions(fleet, evidence)
    for version in fleet.by_value("lmod.version"):
        yield evidence.compared("lua", fleet.where("lmod.version", version).by_value("lmod.lua", default=""))
    for version in fleet.by(_full_version):
        alike = fleet.only(lambda facts, version=version: _full_version(facts) == version)  # type: ignore[misc]
        settings = partial(_settings, evidence.table.words)
        for name, values in by_name(alike, settings, _NOT_SET).items():
            yield evidence.compared(
                "setting", values, evidence.user_login, expect=lambda right, _: short(right), name=name
            )
        for row in dict.fromkeys(_FILES.values()):
            yield from _file(row, alike, evidence)


def _full_version(facts: Facts) -> str:
    lua = facts.get("lmod.lua", "")
    return facts.get("lmod.version", "") + (f" ({lua})" if lua else "")


def _versions(fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield versions other than that which made the published generation's cache; if unknown, those that differ."""
    versions = fleet.by_value("lmod.version")
    right = evidence.published.record.tools.get("lmod", "") if evidence.published is not None else ""
    if not right:
        yield evidence.compared("version", versions)
        return
    others = versions.get(right, ())
    for text, nodes in fleet.by(_full_version).items():
        if text.partition(" ")[0] != right:
            row = "not_as_others" if others else "not_as_published"
            yield evidence.say(row, nodes, version=text, right=right, others=fold(others), against=others)


def _settings(variables: Mapping[str, str], facts: Facts) -> dict[str, str]:
    """Return variable -> value: Lmod's own value if Lmod reports it, else the shell's."""
    found = {}
    for line in facts.get("lmod.variables", "").splitlines():
        name, _, value = line.partition("=")
        found[name] = value or _NOT_SET
    for line in facts.get("lmod.settings", "").splitlines():
        name, _, value = line.partition("=")
        if name not in _FILES:
            known = variables.get(name, name)
            found[known] = _NOT_SET if value in ("", "<empty>") else value
    return found


# The name in --config_json -> its row. These are compared by content; if only the path differs, Lmod lies elsewhere.
_FILES = {"sitePkg": "site_package", "lmod_cfg": "configuration", "nag": "messages", "z01_admin": "messages"}


def _file(row: str, fleet: Fleet, evidence: Evidence) -> Rows:
    files = {_files(group.facts).get(row, ("", "")) for group in fleet.groups}

    def shown(sha256: str) -> str:
        return f"sha256 {sha256[:12]}" if sha256 else "the standard one" if row == "site_package" else "none"

    def named(sha256: str) -> str:
        paths = sorted({path for found, path in files if found == sha256})
        return f"another one ({sha256[:12]}): {', '.join(paths)}" if sha256 else shown(sha256)

    values = fleet.by(lambda facts: _files(facts).get(row, ("", ""))[0])
    yield evidence.compared(row, values, say=named, expect=lambda right, _: shown(right))


def _files(facts: Facts) -> dict[str, tuple[str, str]]:
    """Return row -> (sha256, path).

    Lmod reports its own SitePackage.lua as `standard`, which is no file and is left out.
    """
    lines = (fields_of(line, 3) for line in facts.get("lmod.files", "").splitlines())
    return {_FILES[key]: (sha256, path) for key, sha256, path in lines if key in _FILES}


CHECK = Check(judge=judge, probe=probe, explained=_without_lmod)
