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

from collections.abc import Iterator, Mapping
from functools import partial

from envmgr.audit.compare.between_nodes import drift
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.wording import short
from envmgr.probe.model import Facts, Fleet, ProbeStage
from envmgr.report import Severity
from envmgr.system.shelltext import script_text

_NO = ("no", "false", "")  # the values that versions of Lmod use


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    if plan.number is None and not plan.alone:
        return {}
    of_prefix: Mapping[ProbeStage, str] = {} if plan.alone else {"prefix": script_text(__file__, "prefix.sh")}
    return {**of_prefix, "login": shared("lmod_config") + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Row]:
    published = evidence.published
    yield from _others(evidence.shells, evidence)
    yield from _states(evidence.shells)
    if published is None:
        return
    current = f"generations/{published.record.number:04d}"
    fleet = evidence.shells.only(lambda facts: facts.get("current") == current)
    # The check `generation` reports a record that differs.
    copies = (published.record_sha256, None)
    yield from _files(fleet.only(lambda facts: facts.get("generation.record") in copies), published)
    yield from _used(fleet, f"{evidence.site.prefix}/{current}/spider", evidence)


def _files(fleet: Fleet, published: PublishedGeneration) -> Iterator[Row]:
    wanted = {path: sha256 for path, sha256 in published.record.files.items() if path.startswith("spider/")}
    fleet = fleet.only(lambda facts: "cache.files" in facts)
    paths = {path for group in fleet.groups for path in _found(group.facts)}
    for path in sorted({*wanted, *paths} if wanted else ()):
        where = f"{path} of generation {published.record.number}"
        for found, nodes in fleet.by(lambda facts, path=path: _found(facts).get(path, "-")).items():  # type: ignore[misc]
            if found == wanted.get(path, "-"):
                continue
            expected = f"sha256 {wanted[path][:12]}, as published" if path in wanted else "only what was published"
            said = "is not there" if found == "-" else f"other content ({found[:12]})" if found else "cannot be read"
            hint = "is it a copy of the prefix? else `envmgr publish` makes a new generation, with a cache of its own"
            yield Found("error", where, said if path in wanted else "was not published", expected, hint, nodes)
    for names, nodes in fleet.by_value("cache.outdated").items():
        yield Found(
            "warning",
            f"spider of generation {published.record.number}",
            f"older than its time stamp, so Lmod ignores it: {', '.join(names.splitlines())}",
            "times as published",
            "a copy that did not keep times? `rsync -a` and `cp -p` keep them",
            nodes,
        )


def _found(facts: Facts) -> dict[str, str]:
    lines = (line.partition(" ") for line in facts.get("cache.files", "").splitlines() if line)
    return {f"spider/{name}": sha256 for sha256, _, name in lines}


def _used(fleet: Fleet, folder: str, evidence: Evidence) -> Iterator[Row]:
    """Yield nodes where Lmod does not use the published cache.

    Other checks report nodes without the generation in MODULEPATH, and nodes that did not read its rc file.
    """
    fleet = fleet.only(lambda facts: facts.get("cache.ours") == "yes" and facts.get("cache.named") == "yes")
    who = f"{evidence.plan.user}'s login shell"
    unused = fleet.only(lambda facts: folder not in facts.get("cache.folders", "").splitlines())
    if unused.nodes:
        yield Found(
            "warning",
            who,
            f"Lmod does not use {folder}",
            "the published generation's cache",
            "on the node: `module --config` lists the rc files and the caches",
            unused.nodes,
        )
    which = "which start-up file sets it? compare /etc/profile.d and /etc/environment"
    for value, nodes in fleet.by_value("cache.ignored").items():
        if value not in _NO:
            yield Found("warning", who, f"LMOD_IGNORE_CACHE is {value}", "no", which, nodes)
    believing = fleet.only(lambda facts: facts.get("cache.ignored") in _NO)  # where it is ignored, Lmod says no to both
    for value, nodes in believing.by_value("cache.loads").items():
        if value != "yes":
            yield Found("warning", who, f"LMOD_CACHED_LOADS is {value or 'not set'}", "yes", which, nodes)


def _others(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield the differences between nodes in the caches outside the generations."""
    fleet = fleet.only(lambda facts: "cache.loads" in facts)
    generations = f"{evidence.site.prefix}/generations/"
    folders = {f for group in fleet.groups for f in _folders(group.facts) if not f.startswith(generations)}
    for folder in sorted(folders):
        values = fleet.by(lambda facts, folder=folder: "yes" if folder in _folders(facts) else "no")  # type: ignore[misc]
        yield from drift(
            f"{evidence.plan.user}'s login shell",
            values,
            evidence,
            what=folder,
            hint="`module --config` lists the rc files: one of them names it in scDescriptT",
            say=partial(_cache_in_use, folder),
            expect=lambda right, _: "that one too" if right == "yes" else "not that one",
        )


def _states(fleet: Fleet) -> Iterator[Row]:
    """Yield other caches that Lmod names and cannot use, or that are older than the folders they list."""
    for folder in fleet.names(_STATE):
        for said, nodes in fleet.by_value(f"{_STATE}{folder}").items():
            word, _, path = said.partition(" ")
            if word == "behind":
                cached = fleet.only(lambda facts: facts.get("cache.loads") == "yes").nodes
                severity: Severity = "warning" if set(cached) & set(nodes) else "note"
                found = f"older than {path}, which was changed since: what is new there is not listed"
            else:
                severity, found = "warning", _STATES.get(word, f"in a state that envmgr does not know: {short(said)}")
            yield Found(
                severity,
                folder,
                found,
                "a cache made after each change, which Lmod uses",
                "make it anew, by Lmod's `update_lmod_system_cache_files`; or take it out of the rc file that names it (`module --config`)",
                nodes,
            )


_STATE = "cache.state."
_STATES = {
    "missing": "Lmod is told to use it, and it is not there",
    "empty": "Lmod is told to use it, and there is no spiderT.lua that the user can read",
    "ignored": "older than its time stamp, so Lmod ignores it, and reads every modulefile",
}


def _cache_in_use(folder: str, value: str) -> str:
    return f"Lmod {'also uses' if value == 'yes' else 'does not use'} the cache {folder}"


def _folders(facts: Facts) -> list[str]:
    return facts.get("cache.folders", "").splitlines()


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
