"""`module load` resolves every published entry to the same file as published, on every node.

In the ordinary user's login shell, `module avail` must list every published entry in the generation's folder, and in no
folder before it. The list must be the same with and without Lmod's cache. What
nodes list of other tools, and default versions, are compared by the check `inventory`.

For a sample of entries, the check looks at the file that Lmod would load and at the place where it really lies. It
compares the file's sha256 with the generation's record, because other content can lie under the same path. `--modules`
names the entries, and `--modules all` takes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.table import short
from envmgr.probe.model import Facts
from envmgr.publish.records import GenerationRecord
from envmgr.system.shelltext import script_text

_HAS = "ctx.bash-login.user.module"


def probe(plan: AuditPlan) -> ProbeTexts:
    if plan.number is None and not plan.alone:
        return {}
    return {"login": shared("module_tool", "lmod_config") + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    if evidence.published is None and not evidence.alone:
        return
    yield from looked_at(_asked, evidence.shells, evidence)


def _is_listed(evidence: Evidence, facts: Facts) -> bool:
    """Return whether the modules were listed, and of the published generation, if there is one."""
    published = evidence.published
    current = f"generations/{published.record.number:04d}" if published is not None else None
    return "resolution.avail" in facts and facts.get("current") == current


def _asked(look: Look) -> Iterator[Said]:
    evidence, published = look.evidence, look.evidence.published
    if look.has("resolution.broken"):
        wanted = "the published entries" if published is not None else "modules"
        yield say("broken", said=short(look.get("resolution.broken"), 400) or "no word", wanted=wanted)
    elif (
        evidence.alone and look.get(_HAS, "no") != "no" and not (look.has("resolution.avail") or look.has("login.end"))
    ):
        yield say("unasked")
    if not _is_listed(evidence, look.facts):
        return
    if look.has("resolution.cache_differs"):
        # Another check looks at envmgr's own cache.
        caches = ", ".join(sorted(look.get("resolution.caches").split()))
        lines = look.lines("resolution.cache_differs")
        shown = "; ".join(f"{'only' if line.startswith('<') else 'not'} in the cache: {line[2:]}" for line in lines)
        yield say("cache_differs" if caches else "unknown_cache_differs", shown=shown, caches=caches)
    if published is not None:
        ours = f"{evidence.site.prefix}/{look.get('current')}/modules"
        yield from _entries(published, ours, look)
        for entry in evidence.plan.samples:
            yield from _sample(entry, published.record, f"{ours}/{entry}.lua", look)


def _entries(published: PublishedGeneration, ours: str, look: Look) -> Iterator[Said]:
    """Yield entries that `module avail` does not list as published, and the default versions."""
    avail = look.get("resolution.avail")
    places = first_places(avail)
    for entry in published.record.entries if ours in avail else ():  # else the check `contexts` reports it
        place = places.get(entry)
        if place is None:
            yield say("not_listed", entry=entry, ours=ours)
        elif place != ours:
            yield say("shadowed", entry=entry, folder=place, ours=ours)
    hidden = set(look.get("resolution.hidden").split())
    meant = {name for name, spec in published.specs.items() if spec.hidden}
    for entry in sorted(places.keys() & published.specs.keys() & (hidden ^ meant)):
        yield say("hidden" if entry in hidden else "not_hidden", entry=entry)


def listed(avail: str) -> dict[str, set[str]]:
    """Return folder -> the names that `module --terse avail` lists in it."""
    found: dict[str, set[str]] = {}
    folder = ""
    for line in avail.splitlines():
        if line.startswith("/") and line.endswith(":"):
            folder = line[:-1].rstrip("/")
            found.setdefault(folder, set())
        elif folder and (name := line.strip()) and not name.endswith("/"):
            found[folder].add(name.partition("(")[0].strip())
    return found


def first_places(avail: str) -> dict[str, str]:
    """Return entry -> the first folder of MODULEPATH that has it, from `module --terse avail`."""
    places: dict[str, str] = {}
    for folder, names in listed(avail).items():
        for name in names:
            places.setdefault(name, folder)
    return places


def _sample(entry: str, record: GenerationRecord, expected: str, look: Look) -> Iterator[Said]:
    """Yield faults of the file that Lmod would load for an entry."""
    path = look.get(f"resolution.path.{entry}")
    if not look.has(f"resolution.path.{entry}"):
        return
    if path != expected and path.startswith("/"):
        yield say("another_file", entry=entry, path=path, expected=expected)
    elif path != expected:
        yield say("not_found", entry=entry, path=path or "no answer", expected=expected)
    else:
        yield from _right_file(entry, record, expected, look)


def _right_file(entry: str, record: GenerationRecord, expected: str, look: Look) -> Iterator[Said]:
    """Yield faults of the published modulefile itself."""
    evidence = look.evidence
    real, found = look.get(f"resolution.real.{entry}", expected), look.get(f"resolution.sha256.{entry}", "-")
    below = (f"{evidence.site.prefix}/", f"{evidence.controller.get('real', evidence.site.prefix)}/")
    if not real.startswith(below):
        yield say("outside", entry=entry, real=real, expected=expected)
    if found not in ("-", sha256 := record.files.get(f"modules/{entry}.lua", "")):
        digest = found[:12] or "cannot be read"
        yield say("other_content", entry=entry, digest=digest, sha256=sha256[:12], number=record.number)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
