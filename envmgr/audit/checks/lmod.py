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

from collections.abc import Iterator, Mapping
from functools import partial

from envmgr.audit.compare.between_nodes import drift
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.exported_variables import set_at_login
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.wording import fields_of, short
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, Fleet, ProbeStage
from envmgr.system.shelltext import assign, script_text

# The name in --config_json -> the variable that sets it. Source: Lmod's src/Configuration.lua, 8.6.19 and 9.x.
_VARIABLES = {
    "allowRoot": "LMOD_ALLOW_ROOT_USE",
    "allowTCL": "LMOD_ALLOW_TCL_MFILES",
    "autoSwap": "LMOD_AUTO_SWAP",
    "avail_style": "LMOD_AVAIL_STYLE",
    "case": "LMOD_CASE_INDEPENDENT_SORTING",
    "colorize": "LMOD_COLORIZE",
    "configDir": "LMOD_CONFIG_DIR",
    "disable1N": "LMOD_DISABLE_SAME_NAME_AUTOSWAP",
    "disp_av_ext": "LMOD_AVAIL_EXTENSIONS",
    "dotConfOnly": "LMOD_USE_DOT_CONFIG_ONLY",
    "dot_files": "LMOD_USE_DOT_FILES",
    "dsConflicts": "LMOD_DOWNSTREAM_CONFLICTS",
    "dupPaths": "LMOD_DUPLICATE_PATHS",
    "dynamicC": "LMOD_DYNAMIC_SPIDER_CACHE",
    "exactMatch": "LMOD_EXACT_MATCH",
    "expMCmd": "LMOD_EXPORT_MODULE",
    "extendDflt": "LMOD_EXTENDED_DEFAULT",
    "fastTCL": "LMOD_FAST_TCL_INTERP",
    "fileIgnPatt": "LMOD_FILE_IGNORE_PATTERNS",
    "hiddenItalic": "LMOD_HIDDEN_ITALIC",
    "ksh_support": "LMOD_KSH_SUPPORT",
    "lang_site": "LMOD_SITE_MSG_FILE",
    "ld_lib_path": "LMOD_LD_LIBRARY_PATH",
    "ld_preload": "LMOD_LD_PRELOAD",
    "lfsV": "the LuaFileSystem version",
    "lmod_cfg": "LMOD_CONFIG_LOCATION",
    "lua_cpath": "the LUA_CPATH built in",
    "lua_path": "the LUA_PATH built in",
    "lua_term": "lua-term",
    "mAutoHndl": "MODULES_AUTO_HANDLING",
    "mpath_av": "LMOD_MPATH_AVAIL",
    "mpath_init": "LMOD_MODULEPATH_INIT",
    "mpath_root": "MODULEPATH_ROOT",
    "nag": "LMOD_ADMIN_FILE",
    "pager": "LMOD_PAGER",
    "pager_opts": "LMOD_PAGER_OPTS",
    "path_hash": "LMOD_HASHSUM_PATH",
    "path_lua": "the path of Lua",
    "pin_v": "LMOD_PIN_VERSIONS",
    "pkg": "the Pkg class",
    "prefix": "Lmod's prefix",
    "prefix_site": "SITE_CONTROLLED_PREFIX",
    "prpnd_blk": "LMOD_PREPEND_BLOCK",
    "redirect": "LMOD_REDIRECT",
    "settarg": "LMOD_SETTARG_FULL_SUPPORT",
    "siteName": "LMOD_SITE_NAME",
    "sitePkgPrepend": "LMOD_SITEPACKAGE_PREPEND",
    "sysDfltM": "LMOD_SYSTEM_DEFAULT_MODULES",
    "sysName": "LMOD_SYSTEM_NAME",
    "syshost": "LMOD_SYSHOST",
    "tcl_version": "the Tcl version",
    "terse_decorate": "LMOD_TERSE_DECORATIONS",
    "tm_ancient": "LMOD_ANCIENT_TIME",
    "tm_short": "LMOD_SHORT_TIME",
    "tm_threshold": "LMOD_THRESHOLD",
    "tmod_find1st": "LMOD_TMOD_FIND_FIRST",
    "tmod_rule": "LMOD_TMOD_PATH_RULE",
    "tracing": "LMOD_TRACING",
}
_NOT_SET = "not set"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    return {
        "node": assign(lmod_home=plan.init.removesuffix("/init")) + script_text(__file__, "node.sh"),
        "login": shared("lmod_config") + script_text(__file__, "login.sh"),
    }


def explained(evidence: Evidence) -> frozenset[str]:
    """Return the nodes on which Lmod itself does not run, for root or any user.

    All else that shells there lack follows from it.
    """
    able = {"lmod.version", "environment_modules.version"}
    runs = {node for group in evidence.shells.groups if able & group.facts.keys() for node in group.nodes}
    dead = evidence.fleet.only(lambda facts: bool({"lmod.gone", "lmod.fails"} & facts.keys()))
    return frozenset(dead.nodes) - runs


def judge(evidence: Evidence) -> Iterator[Row]:
    dead = explained(evidence)
    expected = "Lmod; what shells and jobs lack there for want of it is not told besides"
    for home, nodes in evidence.fleet.by_value("lmod.gone").items():
        hint = f"install Lmod there, as on the others; or is {home} a mount, or unreadable?"
        if of := dead.intersection(nodes):
            yield Found("error", "Lmod", f"is not installed: there is no {home}", expected, hint, of)
    for said, nodes in evidence.fleet.by_value("lmod.fails").items():
        found = f"does not run: {short(' '.join(said.split())) or 'it says nothing'}"
        hint = "install anew on that node what these words name: Lmod, its Lua, or Lua's posix, filesystem and term modules"
        if of := dead.intersection(nodes):
            yield Found("error", "Lmod", found, expected, hint, of)
    alive = evidence.shells.only(lambda facts: not {"lmod.gone", "lmod.fails"} & facts.keys())
    for said, nodes in alive.by_value("lmod.broken").items():
        yield Found(
            "error",
            "Lmod",
            f"does not tell its configuration: {short(said) or 'it says nothing'}",
            "an Lmod that works",
            "on the node: `module --config`",
            nodes,
        )
    fleet = evidence.shells.only(lambda facts: "lmod.version" in facts)
    yield from _versions(fleet, evidence)
    for version in fleet.by(_full_version):
        alike = fleet.only(lambda facts, version=version: _full_version(facts) == version)  # type: ignore[misc]
        yield from _settings(alike, evidence)
        yield from _files(alike, evidence)


def _full_version(facts: Facts) -> str:
    lua = facts.get("lmod.lua", "")
    return facts.get("lmod.version", "") + (f" ({lua})" if lua else "")


def _versions(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    published = evidence.published
    maker = published.record.tools.get("lmod", "") if published is not None else ""
    versions = fleet.by_value("lmod.version")
    if not maker:
        yield from drift(
            "version",
            versions,
            evidence,
            say=lambda version: f"Lmod {version}",
            hint="install the same Lmod on every node",
        )
    right = maker
    on = {version: fold(nodes) for version, nodes in versions.items()}
    for text, nodes in fleet.by(_full_version).items():
        version = text.partition(" ")[0]
        if version == right or not maker:
            continue
        expected = (
            f"{right}, as on {on[right]}" if right in on else f"{right}, which made the published generation's cache"
        )
        hint = "install the same Lmod on every node"
        if right not in on:
            hint += "; if this is the new one, publish once more on a host that has it"
        yield Found("warning", "version", f"Lmod {text}", expected, hint, nodes)
    for version in versions:
        alike = fleet.only(lambda facts, version=version: facts.get("lmod.version") == version)  # type: ignore[misc]
        yield from drift(
            "Lua",
            alike.by_value("lmod.lua", default=""),
            evidence,
            hint="install the same Lua and Lmod on every node",
            say=lambda lua: lua or "unknown",
        )


def _settings(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield the settings that differ between nodes of one version, by name."""
    for name, values in _values(fleet).items():
        yield from drift(
            "settings",
            values,
            evidence,
            what=name,
            say=partial(_setting, name),
            expect=lambda right, _: short(right),
            hint=set_at_login(
                name,
                values,
                evidence,
                "which start-up file sets it? compare /etc/profile.d, /etc/environment and /etc/lmod",
            ),
        )


def _values(fleet: Fleet) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return setting -> value -> nodes."""
    names = sorted({name for group in fleet.groups for name in _settings_of(group.facts)})
    return {
        name: fleet.by(lambda facts, name=name: _settings_of(facts).get(name, _NOT_SET))  # type: ignore[misc]
        for name in names
    }


def _setting(name: str, value: str) -> str:
    return f"{name} is {short(value)}"


def _settings_of(facts: Facts) -> dict[str, str]:
    """Return variable -> value: Lmod's own value if Lmod reports it, else the shell's."""
    found = {}
    for line in facts.get("lmod.variables", "").splitlines():
        name, _, value = line.partition("=")
        found[name] = value or _NOT_SET
    for line in facts.get("lmod.settings", "").splitlines():
        name, _, value = line.partition("=")
        if name not in _FILES:
            known = _VARIABLES.get(name, name)
            found[known] = _NOT_SET if value in ("", "<empty>") else value
    return found


# These are compared by content; if only the path differs, Lmod lies elsewhere.
_FILES = {
    "sitePkg": "SitePackage.lua",
    "lmod_cfg": "lmod_config.lua",
    "nag": "Lmod's list of messages",
    "z01_admin": "Lmod's list of messages",
}


def _files(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    for what in dict.fromkeys(_FILES.values()):
        values = fleet.by(lambda facts, what=what: _files_of(facts).get(what, ("", ""))[0])  # type: ignore[misc]
        yield from drift(
            what,
            values,
            evidence,
            severity="error" if what != "Lmod's list of messages" else "warning",
            hint="copy it to every node, or remove it; LMOD_PACKAGE_PATH may name its folder"
            if what == "SitePackage.lua"
            else "copy it to every node, or remove it",
            say=partial(_named, what, fleet),
            expect=partial(_right_file, what),
        )


def _shown(what: str, value: str) -> str:
    if value:
        return f"sha256 {value[:12]}"
    return "the standard one" if what == "SitePackage.lua" else "none"


def _right_file(what: str, right: str, _value: str) -> str:
    return _shown(what, right)


def _named(what: str, fleet: Fleet, value: str) -> str:
    """Return a file's content in words, with the paths at which the file lies."""
    if not value:
        return _shown(what, value)
    files = [_files_of(group.facts).get(what, ("", "")) for group in fleet.groups]
    return f"another one ({value[:12]}): {', '.join(sorted({path for found, path in files if found == value}))}"


def _files_of(facts: Facts) -> dict[str, tuple[str, str]]:
    """Return what -> (sha256, path).

    Lmod reports its own SitePackage.lua as `standard`, which is no file and is left out.
    """
    found = {}
    for line in facts.get("lmod.files", "").splitlines():
        key, sha256, path = fields_of(line, 3)
        if key in _FILES:
            found[_FILES[key]] = (sha256, path)
    return found


CHECK = Check(judge=judge, probe=probe, explained=explained)
