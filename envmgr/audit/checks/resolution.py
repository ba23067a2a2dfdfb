"""`module avail` lists every published entry, in the generation's folder, on every node.

In the ordinary user's login shell, the list must have every published entry that is not hidden, in the generation's
folder, and in no folder before it. The list must be the same with and without Lmod's cache. What nodes list of other
tools, and default versions, are compared by the check `inventory`, and files of the generation by the check
`generation`.
"""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.audit.plan import PublishedGeneration
from envmgr.audit.table import short

_HAS = "ctx.bash-login.user.module"


def judge(evidence: Evidence) -> Rows:
    if evidence.published is None and not evidence.alone:
        return
    yield from looked_at(_asked, evidence.shells, evidence)


def _asked(look: Look) -> Iterator[Said]:
    evidence, published = look.evidence, look.evidence.published
    if look.has("resolution.broken"):
        wanted = "the published entries" if published is not None else "modules"
        yield say("broken", said=short(look.get("resolution.broken"), 400) or "no word", wanted=wanted)
    elif not look.has("resolution.avail"):
        if evidence.alone and look.get(_HAS, "no") != "no" and not look.has("login.end"):
            yield say("unasked")
    elif published is None or look.get("current") == f"generations/{published.record.number:04d}":
        if lines := look.lines("resolution.cache_differs"):
            shown = "; ".join(f"{'only' if line.startswith('<') else 'not'} in the cache: {line[2:]}" for line in lines)
            yield say("cache_differs", shown=shown)
        if published is not None:
            yield from _entries(published, f"{evidence.site.prefix}/{look.get('current')}/modules", look)


def _entries(published: PublishedGeneration, ours: str, look: Look) -> Iterator[Said]:
    """Yield entries that `module avail` does not list as published."""
    avail = look.get("resolution.avail")
    places = _first_places(avail)
    hidden = {name for name, spec in published.specs.items() if spec.hidden}
    for entry in published.record.entries if ours in avail else ():  # else the check `contexts` reports it
        place = places.get(entry, ours if entry in hidden else "")
        if not place:
            yield say("not_listed", entry=entry, ours=ours)
        elif place != ours:
            yield say("shadowed", entry=entry, folder=place, ours=ours)


def _first_places(avail: str) -> dict[str, str]:
    """Return module -> the first folder of MODULEPATH that has it, from `module --terse avail`."""
    places: dict[str, str] = {}
    folder = ""
    for line in avail.splitlines():
        if line.startswith("/") and line.endswith(":"):
            folder = line[:-1].rstrip("/")
        elif folder:
            places.setdefault(line.partition("(")[0].strip(), folder)
    return places


CHECK = Check(judge=judge, probe=scripts(__file__, "login"))
