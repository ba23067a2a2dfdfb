"""Lmod's cache of the published generation is on every node, byte for byte, and Lmod uses it.

Without the cache Lmod reads every modulefile at each command, which is slow on a network file system. With another
cache Lmod lists and loads modules that are not published. The check compares the sha256 of each cache file with the
generation's record. No file may be older than the cache's time stamp, because Lmod then ignores it. No file may be
there that was not published, because Lmod prefers a compiled one.

In the ordinary user's login shell, Lmod must name this cache through the generation's lmodrc.lua, which the check
`inventory` compares. Lmod must not ignore caches, and must load by this one (LMOD_CACHED_LOADS). Of other caches that Lmod
names the check reports each one that is missing,
cannot be read, or is older than its time stamp or than a folder of modules in MODULEPATH.
"""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import shared
from envmgr.publish.records import GenerationRecord
from envmgr.system.shelltext import script_text

_STATES = ("missing", "empty", "ignored", "behind")
_NO = ("no", "false", "")  # the values that versions of Lmod use


def probe(plan: AuditPlan) -> ProbeTexts:
    if plan.number is None and not plan.alone:
        return {}
    of_prefix: ProbeTexts = {} if plan.alone else {"prefix": script_text(__file__, "prefix.sh")}
    return {**of_prefix, "login": shared("lmod_config") + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    return looked_at(_cache, evidence.shells, evidence)


def _cache(look: Look) -> Iterator[Said]:
    for folder, said in look.named("cache.state.").items():
        word, _, path = said.partition(" ")
        row = f"state_{word}" if word in _STATES else "state_unknown"
        severity = "note" if word == "behind" and look.get("cache.loads") != "yes" else None
        yield say(row, severity=severity, folder=folder, path=path, said=said)
    published = look.evidence.published
    if published is not None and look.get("current") == f"generations/{published.record.number:04d}":
        # The check `generation` reports a record that differs.
        if (
            look.has("cache.files")
            and look.get("generation.record", published.record_sha256) == published.record_sha256
        ):
            yield from _files(look, published.record)
        yield from _used(look)


def _files(look: Look, record: GenerationRecord) -> Iterator[Said]:
    """Yield files of the cache that are not as published."""
    number = record.number
    wanted = {path: sha256 for path, sha256 in record.files.items() if path.startswith("spider/")}
    lines = (line.partition(" ") for line in look.lines("cache.files"))
    there = {f"spider/{name}": sha256 for sha256, _, name in lines}
    for path in sorted({*wanted, *there}) if wanted else ():
        found, sha256 = there.get(path), wanted.get(path, "")
        if path not in wanted:
            yield say("not_published", path=path, number=number)
        elif found != sha256:
            row = "missing" if found is None else "other_content" if found else "unreadable"
            yield say(row, path=path, number=number, found=(found or "")[:12], sha256=sha256[:12])
    if look.has("cache.outdated"):
        yield say("outdated", number=number, names=", ".join(look.lines("cache.outdated")))


def _used(look: Look) -> Iterator[Said]:
    """Yield why Lmod does not use the published cache.

    Other checks report nodes without the generation in MODULEPATH, and nodes that did not read its rc file.
    """
    if look.get("cache.ours") != "yes" or look.get("cache.named") != "yes":
        return
    folder = f"{look.evidence.site.prefix}/{look.get('current')}/spider"
    if folder not in look.lines("cache.folders"):
        yield say("unused", folder=folder)
    ignored, loads = look.get("cache.ignored"), look.get("cache.loads")
    if ignored not in _NO:
        yield say("ignored", value=ignored)
    elif look.has("cache.ignored") and look.has("cache.loads") and loads != "yes":  # else Lmod says no to both
        yield say("not_loaded_by", value=loads or "not set")


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
