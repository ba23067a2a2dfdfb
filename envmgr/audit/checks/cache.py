"""Lmod's cache of the published generation is on every node, byte for byte, and Lmod uses it.

Without the cache Lmod reads every modulefile at each command, which is slow on a network file system. With another
cache Lmod lists and loads modules that are not published. The check compares the sha256 of each cache file with the
generation's record. No file may be older than the cache's time stamp, because Lmod then ignores it. No file may be
there that was not published, because Lmod prefers a compiled one.

In the ordinary user's login shell, Lmod must name this cache through the generation's lmodrc.lua, which the check
`rc-files` looks at. Lmod must not ignore caches, and must load by this one (LMOD_CACHED_LOADS). Other caches that Lmod
names are compared between nodes, because an old cache hides new modules. The check reports each one that is missing,
cannot be read, or is older than its time stamp or than a folder of modules in MODULEPATH.
"""

from __future__ import annotations

from functools import partial

from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.audit.shell.shared_shell import shared
from envmgr.probe.model import Facts, Fleet
from envmgr.report import Severity
from envmgr.system.shelltext import script_text

_NO = ("no", "false", "")  # the values that versions of Lmod use


def probe(plan: AuditPlan) -> ProbeTexts:
    if plan.number is None and not plan.alone:
        return {}
    of_prefix: ProbeTexts = {} if plan.alone else {"prefix": script_text(__file__, "prefix.sh")}
    return {**of_prefix, "login": shared("lmod_config") + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    published = evidence.published
    yield from _others(evidence)
    yield from _states(evidence)
    if published is None:
        return
    current = f"generations/{published.record.number:04d}"
    fleet = evidence.shells.where("current", current)
    # The check `generation` reports a record that differs.
    copies = (published.record_sha256, None)
    yield from _files(fleet.only(lambda facts: facts.get("generation.record") in copies), published, evidence)
    yield from _used(fleet, f"{evidence.site.prefix}/{current}/spider", evidence)


def _files(fleet: Fleet, published: PublishedGeneration, evidence: Evidence) -> Rows:
    """Yield files of the cache that are not as published."""
    number = published.record.number
    wanted = {path: sha256 for path, sha256 in published.record.files.items() if path.startswith("spider/")}
    told = fleet.only(lambda facts: "cache.files" in facts)
    paths = told.by_each(lambda facts: _sums(facts).keys())
    for path in sorted({*wanted, *paths} if wanted else ()):
        for found, nodes in told.by(lambda facts, path=path: _sums(facts).get(path, "-")).items():  # type: ignore[misc]
            if path not in wanted and found != "-":
                yield evidence.say("not_published", nodes, path=path, number=number)
            elif found != wanted.get(path, "-"):
                row = "missing" if found == "-" else "other_content" if found else "unreadable"
                yield evidence.say(row, nodes, path=path, number=number, found=found[:12], sha256=wanted[path][:12])
    for names, nodes in told.by_value("cache.outdated").items():
        yield evidence.say("outdated", nodes, number=number, names=", ".join(names.splitlines()))


def _sums(facts: Facts) -> dict[str, str]:
    lines = (line.partition(" ") for line in facts.get("cache.files", "").splitlines() if line)
    return {f"spider/{name}": sha256 for sha256, _, name in lines}


def _used(fleet: Fleet, folder: str, evidence: Evidence) -> Rows:
    """Yield nodes where Lmod does not use the published cache.

    Other checks report nodes without the generation in MODULEPATH, and nodes that did not read its rc file.
    """
    fleet = fleet.where("cache.ours", "yes").where("cache.named", "yes")
    unused = fleet.only(lambda facts: folder not in _folders(facts))
    if unused.nodes:
        yield evidence.say("unused", unused.nodes, folder=folder)
    for value, nodes in fleet.by_value("cache.ignored").items():
        if value not in _NO:
            yield evidence.say("ignored", nodes, value=value)
    believing = fleet.only(lambda facts: facts.get("cache.ignored") in _NO)  # where it is ignored, Lmod says no to both
    for value, nodes in believing.by_value("cache.loads").items():
        if value != "yes":
            yield evidence.say("not_loaded_by", nodes, value=value or "not set")


def _others(evidence: Evidence) -> Rows:
    """Yield the differences between nodes in the caches outside the generations."""
    fleet = evidence.shells.only(lambda facts: "cache.loads" in facts)
    for folder in sorted(fleet.by_each(_folders)):
        if not folder.startswith(f"{evidence.site.prefix}/generations/"):
            yield evidence.compared(
                "others",
                fleet.by(partial(_use, folder)),
                folder=folder,
                say=partial(_cache_in_use, folder),
                expect=lambda right, _: "that one too" if right == "yes" else "not that one",
            )


def _states(evidence: Evidence) -> Rows:
    """Yield other caches that Lmod names and cannot use, or that are older than the folders they list."""
    loading = frozenset(evidence.shells.where("cache.loads", "yes").nodes)
    for folder in evidence.shells.names(_STATE):
        for said, nodes in evidence.shells.by_value(f"{_STATE}{folder}").items():
            word, _, path = said.partition(" ")
            row = f"state_{word}" if word in _STATES else "state_unknown"
            severity: Severity = "note" if word == "behind" and loading.isdisjoint(nodes) else "warning"
            yield evidence.say(row, nodes, None, severity, folder=folder, path=path, said=said)


_STATE = "cache.state."
_STATES = ("missing", "empty", "ignored", "behind")


def _use(folder: str, facts: Facts) -> str:
    return "yes" if folder in _folders(facts) else "no"


def _cache_in_use(folder: str, value: str) -> str:
    return f"Lmod {'also uses' if value == 'yes' else 'does not use'} the cache {folder}"


def _folders(facts: Facts) -> list[str]:
    return facts.get("cache.folders", "").splitlines()


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
