"""`module load` resolves every published entry to the same file as published, on every node.

In the ordinary user's login shell, `module avail` must list every published entry in the generation's folder, and in no
folder before it. The list must be the same with and without Lmod's cache. Default versions must be the same on every
node.

For a sample of entries, the check looks at the file that Lmod would load and at the place where it really lies. It
compares the file's sha256 with the generation's record, because other content can lie under the same path. `--modules`
names the entries, and `--modules all` takes all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from envmgr.audit.baseline import Compared
from envmgr.audit.causes import part_of
from envmgr.audit.model import Check, Evidence, Noted, Outlier, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.audit.shell.modulepath import elements
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.table import short
from envmgr.probe.model import Facts, Fleet
from envmgr.system.shelltext import script_text

_HAS = "ctx.bash-login.user.module"


def probe(plan: AuditPlan) -> ProbeTexts:
    if plan.number is None and not plan.alone:
        return {}
    return {"login": shared("module_tool", "lmod_config") + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    published = evidence.published
    if published is None and not evidence.alone:
        return
    for said, nodes in evidence.shells.by_value("resolution.broken").items():
        wanted = "the published entries" if published is not None else "modules"
        yield evidence.say("broken", nodes, said=short(said, 400) or "no word", wanted=wanted)
    current = f"generations/{published.record.number:04d}" if published is not None else None
    fleet = evidence.shells.only(lambda facts: "resolution.avail" in facts and facts.get("current") == current)
    for text, nodes in fleet.by_value("resolution.cache_differs").items():
        yield from _cache_differs(text.splitlines(), fleet, nodes, evidence)
    if published is not None:
        ours = f"{evidence.site.prefix}/{current}/modules"
        yield from _listed(published, ours, fleet, evidence)
        names = fleet.by(lambda facts: " ".join(sorted(listed(facts.get("resolution.defaults", "")).get(ours, ()))))
        yield evidence.compared("defaults", names)
        yield from _hidden(published, fleet, evidence)
        for entry in evidence.plan.samples:
            yield from _sample(entry, published, f"{ours}/{entry}.lua", fleet, evidence)
    yield from _hidden_elsewhere(fleet, evidence)
    yield from _elsewhere(fleet, evidence)
    if evidence.alone:
        yield from _unasked(evidence)


def _cache_differs(lines: list[str], fleet: Fleet, nodes: tuple[str, ...], evidence: Evidence) -> Rows:
    """Yield a cache with other modules than there are. Another check looks at envmgr's own cache."""
    shown = "; ".join(f"{'only' if line.startswith('<') else 'not'} in the cache: {line[2:]}" for line in lines)
    known = fleet.by_each(lambda facts: facts.get("resolution.caches", "").split())
    caches = [folder for folder, of in known.items() if set(of) & set(nodes)]
    row = "cache_differs" if caches else "unknown_cache_differs"
    yield evidence.say(row, nodes, shown=shown, caches=", ".join(sorted(caches)))


def _unasked(evidence: Evidence) -> Rows:
    """Yield nodes whose login bash has a `module` that cannot be asked."""
    answers = {"resolution.avail", "resolution.broken", "login.end"}
    blind = evidence.shells.only(lambda facts: facts.get(_HAS, "no") != "no" and not answers & facts.keys())
    if blind.nodes:
        yield evidence.say("unasked", blind.nodes)


def _listed(published: PublishedGeneration, ours: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield entries that `module avail` does not list, or lists first in another folder."""

    def elsewhere(facts: Facts) -> list[tuple[str, str]]:
        places = first_places(facts["resolution.avail"])
        found = [(entry, places.get(entry, "")) for entry in published.record.entries]
        # without the folder in MODULEPATH, the check `contexts` reports it
        return [each for each in found if each[1] != ours] if ours in facts["resolution.avail"] else []

    for (entry, place), nodes in fleet.by_each(elsewhere).items():
        if place:
            brings, shell = part_of("MODULEPATH", place), evidence.user_login
            yield evidence.say("shadowed", nodes, shell, entry=entry, folder=place, ours=ours, brings=brings)
        else:
            yield evidence.say("not_listed", nodes, entry=entry, ours=ours)


def _hidden(published: PublishedGeneration, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield entries that `module avail` hides although they were not published hidden, or the reverse."""
    meant = {name for name, spec in published.specs.items() if spec.hidden}

    def wrong(facts: Facts) -> list[tuple[str, bool]]:
        hidden = set(facts.get("resolution.hidden", "").split())
        entries = first_places(facts["resolution.avail"]).keys() & published.specs.keys() & (hidden ^ meant)
        return [(entry, entry in hidden) for entry in sorted(entries)]

    for (entry, is_hidden), nodes in fleet.by_each(wrong).items():
        yield evidence.say("hidden" if is_hidden else "not_hidden", nodes, entry=entry)


def _hidden_elsewhere(fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield modules outside the prefix that are hidden on some nodes.

    Without a baseline, only modules that all of these nodes list are compared.
    """
    own = set(evidence.published.specs) if evidence.published is not None else set()
    hidden = fleet.by(lambda facts: " ".join(sorted(_hidden_names(facts) - own)))
    with_baseline = evidence.baseline is not None
    if not with_baseline:  # of a node that lacks a module only that is reported
        yield Noted(Compared("resolution", "hidden modules", ""), hidden)
        lists = [set(first_places(group.facts["resolution.avail"])) for group in fleet.groups]
        common = set.intersection(*lists) if lists else set()
        hidden = fleet.by(lambda facts: " ".join(sorted(_hidden_names(facts) & common - own)))
    yield evidence.compared(
        "hidden_elsewhere", hidden, kept=with_baseline, told=lambda of: _differing(of, "{} hidden", "{} not hidden")
    )


def _hidden_names(facts: Facts) -> set[str]:
    return {name.partition("(")[0] for name in facts.get("resolution.hidden", "").split()}


def _elsewhere(fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield the differences in modules and defaults that `module avail` lists in folders outside the prefix.

    Nodes are compared if they have the folder in MODULEPATH.
    """
    lists = _by_folder("resolution.avail", fleet, evidence)
    for folder, values in lists.items():
        yield evidence.compared("modules", values, folder=folder, told=_other_names)
    for folder, values in _by_folder("resolution.defaults", fleet, evidence).items():
        if len(lists[folder]) > 1:
            yield Noted(Compared("resolution", folder, "defaults"), values)
            continue  # other modules have other defaults
        yield evidence.compared(
            "defaults_elsewhere",
            values,
            folder=folder,
            told=lambda of: f"defaults are {_shown(_only(of.value, of.right)) or 'fewer'}",
            expect=lambda right, value: _shown(_only(right, value)) or "fewer",
        )


def _shown(names: Iterable[str]) -> str:
    return short(", ".join(names))


def _only(names: str, others: str) -> list[str]:
    return sorted({*names.split()} - {*others.split()})


def _differing(of: Outlier, more: str, fewer: str) -> str:
    """Return the words about names that only the outlier has, and about those that only the others have."""
    names = ((more, _only(of.value, of.right)), (fewer, _only(of.right, of.value)))
    return short("; ".join(words.format(", ".join(only)) for words, only in names if only))


def _other_names(of: Outlier) -> str:
    subject = "it" if _only(of.value, of.right) else "`module avail`"
    return _differing(of, "`module avail` also lists {}", f"{subject} does not list {{}}")


def _by_folder(key: str, fleet: Fleet, evidence: Evidence) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return folder -> names that one of Lmod's lists has in it -> nodes, for folders outside the prefix."""
    folders: dict[str, dict[str, tuple[str, ...]]] = {}
    for group in fleet.groups:
        names = listed(group.facts.get(key, ""))
        for folder in elements(group.facts.get("resolution.modulepath", "")):
            if not folder.startswith(f"{evidence.site.prefix}/"):
                value = " ".join(sorted(names.get(folder, set())))
                values = folders.setdefault(folder, {})
                values[value] = (*values.get(value, ()), *group.nodes)
    return folders


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


def _sample(entry: str, published: PublishedGeneration, expected: str, fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield faults of the file that Lmod would load for an entry."""
    for path, nodes in fleet.by_value(f"resolution.path.{entry}").items():
        if path != expected and path.startswith("/"):
            brings, shell = part_of("MODULEPATH", path.partition(f"/{entry}.")[0]), evidence.user_login
            yield evidence.say("another_file", nodes, shell, entry=entry, path=path, expected=expected, brings=brings)
        elif path != expected:
            yield evidence.say("not_found", nodes, entry=entry, path=path or "no answer", expected=expected)
    right = fleet.where(f"resolution.path.{entry}", expected)
    below = (f"{evidence.site.prefix}/", f"{evidence.controller.get('real', evidence.site.prefix)}/")
    for real, nodes in right.by_value(f"resolution.real.{entry}").items():
        if not real.startswith(below):
            yield evidence.say("outside", nodes, entry=entry, real=real, expected=expected)
    sha256 = published.record.files.get(f"modules/{entry}.lua", "")
    for found, nodes in right.by_value(f"resolution.sha256.{entry}").items():
        if found != sha256:
            digest, number = found[:12] or "cannot be read", published.record.number
            yield evidence.say("other_content", nodes, entry=entry, digest=digest, sha256=sha256[:12], number=number)


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
