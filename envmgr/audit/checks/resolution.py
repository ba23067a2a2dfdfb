"""`module load` resolves every published entry to the same file as published, on every node.

In the ordinary user's login shell, `module avail` must list every published entry in the generation's folder, and in no
folder before it. The list must be the same with and without Lmod's cache. Default versions must be the same on every
node.

For a sample of entries, the check looks at the file that Lmod would load and at the place where it really lies. It
compares the file's sha256 with the generation's record, because other content can lie under the same path. `--modules`
names the entries, and `--modules all` takes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.baseline import Compared
from envmgr.audit.compare.between_nodes import drift
from envmgr.audit.model import Check, Evidence, Found, Noted, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.wording import elements, short
from envmgr.probe.model import Facts, Fleet, ProbeStage
from envmgr.system.shelltext import script_text

_BUILD = "`envmgr node-setup` puts the generation first in MODULEPATH; is another line put before it?"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    return (
        {"login": shared("module_tool", "lmod_config") + script_text(__file__, "login.sh")}
        if plan.number is not None or plan.alone
        else {}
    )


def judge(evidence: Evidence) -> Iterator[Row]:
    published = evidence.published
    if published is None and not evidence.alone:
        return
    for said, nodes in evidence.shells.by_value("resolution.broken").items():
        yield Found(
            "error",
            "module avail",
            f"`module avail` lists nothing: {short(said, 400) or 'no word'}",
            "the published entries" if published else "modules",
            "on the node, as that user: `module --config`; `envmgr audit --check ambient --check lmod` may name the cause",
            nodes,
        )
    current = f"generations/{published.record.number:04d}" if published is not None else None
    fleet = evidence.shells.only(lambda facts: "resolution.avail" in facts and facts.get("current") == current)
    if published is not None:
        yield from _listed(fleet, evidence)
    for text, nodes in fleet.by_value("resolution.cache_differs").items():
        shown = [
            f"{'only in the cache' if line[0] == '<' else 'not in the cache'}: {line[2:]}" for line in text.splitlines()
        ]
        yield Found(
            "error",
            "module avail",
            short("; ".join(shown)),
            "the same list with and without Lmod's cache",
            _of_caches(fleet, nodes),
            nodes,
        )
    if published is not None:
        yield from _published(fleet, evidence)
    yield from _hidden_elsewhere(fleet, evidence)
    yield from _elsewhere(fleet, evidence)
    if evidence.alone:
        yield from _unasked(evidence)


def _unasked(evidence: Evidence) -> Iterator[Row]:
    """Yield nodes whose login bash has a `module` that cannot be asked."""
    blind = evidence.shells.only(
        lambda facts: (
            facts.get(_HAS, "no") != "no" and not {"resolution.avail", "resolution.broken", "login.end"} & facts.keys()
        )
    )
    if blind.nodes:
        yield Found(
            "warning",
            "module avail",
            "not looked at: its `module` is neither Lmod's nor that of Environment Modules 4 or newer, "
            "or MODULEPATH is empty",
            "modules that can be listed",
            "`type module` in a login shell there; `echo $MODULEPATH`",
            blind.nodes,
        )


_HAS = "ctx.bash-login.user.module"


def _published(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield faults of default versions, of hidden entries, and of a sample of the published entries."""
    published = evidence.published
    assert published is not None
    ours = f"{evidence.site.prefix}/generations/{published.record.number:04d}/modules"
    defaults = fleet.by(lambda facts: " ".join(sorted(listed(facts.get("resolution.defaults", "")).get(ours, ()))))
    yield from drift(
        "default versions",
        defaults,
        evidence,
        severity="error",
        hint="which .modulerc, or LMOD_MODULERCFILE, sets others?",
        say=lambda names: short(names or "none"),
    )
    yield from _hidden(fleet, evidence)
    for entry in evidence.plan.samples:
        yield from _sample(entry, fleet, evidence)


def _of_caches(fleet: Fleet, nodes: tuple[str, ...]) -> str:
    """Return the hint that fixes a cache with other modules than there are.

    Another check looks at envmgr's own cache.
    """
    told = {
        folder
        for text, of in fleet.by_value("resolution.caches").items()
        if set(of) & set(nodes)
        for folder in text.split()
    }
    if not told:
        return "`module --config` names the caches in use; which rc file names an old one?"
    return (
        f"the site's own cache is old: make it anew (Lmod's `update_lmod_system_cache_files`), or take it out of the rc file that names it: "
        f"{', '.join(sorted(told))}"
    )


def _listed(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    published = evidence.published
    assert published is not None
    ours = f"{evidence.site.prefix}/generations/{published.record.number:04d}/modules"
    missing: dict[str, list[str]] = {}
    shadowed: dict[tuple[str, str], list[str]] = {}
    for group in fleet.groups:
        places = first_places(group.facts["resolution.avail"])
        if ours not in group.facts["resolution.avail"]:
            continue  # not in MODULEPATH: the check `contexts` reports it
        for entry in published.record.entries:
            place = places.get(entry)
            if place is None:
                missing.setdefault(entry, []).extend(group.nodes)
            elif place != ours:
                shadowed.setdefault((entry, place), []).extend(group.nodes)
    for entry, nodes in missing.items():
        yield Found(
            "error",
            entry,
            "`module avail` does not list it",
            f"{ours}/{entry}.lua",
            "hidden or masked by a .modulerc.lua or an rc file of the node? an old cache?",
            nodes,
        )
    for (entry, place), nodes in shadowed.items():
        yield Found("error", entry, f"taken from {place}", ours, _BUILD, nodes)


def _hidden(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield entries that `module avail` hides although they were not published hidden, or the reverse."""
    published = evidence.published
    assert published is not None
    meant = {name for name, spec in published.specs.items() if spec.hidden}
    wrong: dict[tuple[str, str], list[str]] = {}
    for group in fleet.groups:
        listed_here = set(first_places(group.facts["resolution.avail"]))
        hidden = set(group.facts.get("resolution.hidden", "").split())
        for entry in sorted(listed_here & published.specs.keys() & (hidden ^ meant)):
            found, expected = ("hidden", "listed") if entry in hidden else ("listed", "hidden")
            wrong.setdefault((entry, found + "|" + expected), []).extend(group.nodes)
    for (entry, words), nodes in wrong.items():
        found, _, expected = words.partition("|")
        yield Found(
            "error",
            entry,
            f"it is {found}",
            f"{expected}, as published",
            "`module --config` names the rc files in use: LMOD_MODULERCFILE, /etc/lmod, ~/.modulerc.lua",
            nodes,
        )


def _hidden_elsewhere(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
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
    yield from drift(
        "hidden modules",
        hidden,
        evidence,
        kept=with_baseline,
        hint="`module --config` names the rc files in use: LMOD_MODULERCFILE, /etc/lmod, ~/.modulerc.lua",
        say=lambda names: short(", ".join(names.split()) or "none"),
        told=lambda of: _also_hidden(set(of.value.split()), set(of.right.split())),
    )


def _hidden_names(facts: Facts) -> set[str]:
    return {name.partition("(")[0] for name in facts.get("resolution.hidden", "").split()}


def _also_hidden(found: set[str], right: set[str]) -> str:
    words = [f"{', '.join(sorted(found - right))} hidden"] if found - right else []
    words += [f"{', '.join(sorted(right - found))} not hidden"] if right - found else []
    return short("; ".join(words))


def _elsewhere(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Yield the differences in modules and defaults that `module avail` lists in folders outside the prefix.

    Nodes are compared if they have the folder in MODULEPATH.
    """
    lists = _by_folder("resolution.avail", fleet, evidence)
    for folder, values in lists.items():
        yield from drift(
            folder,
            values,
            evidence,
            what="modules",
            hint="a folder that is not shared, or not exported? envmgr publishes to all nodes at once",
            say=lambda names: f"`module avail` lists {short(', '.join(names.split()) or 'nothing')}",
            told=lambda of: _other_names(set(of.value.split()), set(of.right.split())),
            expect=lambda _right, _value: "the same modules",
        )
    for folder, values in _by_folder("resolution.defaults", fleet, evidence).items():
        if len(lists[folder]) > 1:
            yield Noted(Compared("resolution", folder, "defaults"), values)
            continue  # other modules have other defaults
        yield from drift(
            folder,
            values,
            evidence,
            what="defaults",
            hint=f"a link `default`, or a .modulerc or .version, of {folder} that a node has not, or has otherwise: copy it",
            say=lambda names: f"defaults are {short(', '.join(names.split()) or 'none')}",
            told=lambda of: (
                f"defaults are {short(', '.join(sorted(set(of.value.split()) - set(of.right.split()))) or 'fewer')}"
            ),
            expect=lambda right, value: (
                f"{short(', '.join(sorted(set(right.split()) - set(value.split()))) or 'fewer')}"
            ),
        )


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


def _other_names(found: set[str], right: set[str]) -> str:
    also, lacks = sorted(found - right), sorted(right - found)
    words = [f"`module avail` also lists {', '.join(also)}"] if also else []
    words += [f"{'it' if also else '`module avail`'} does not list {', '.join(lacks)}"] if lacks else []
    return short("; ".join(words))


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


def _sample(entry: str, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    published = evidence.published
    assert published is not None
    expected = f"{evidence.site.prefix}/generations/{published.record.number:04d}/modules/{entry}.lua"
    for path, nodes in fleet.by_value(f"resolution.path.{entry}").items():
        if path != expected:
            found = f"resolves to {path}" if path.startswith("/") else f"cannot be found: {short(path) or 'no answer'}"
            yield Found("error", entry, found, expected, _BUILD, nodes)
    right = fleet.only(lambda facts: facts.get(f"resolution.path.{entry}") == expected)
    for real, nodes in right.by_value(f"resolution.real.{entry}").items():
        if not _below_prefix(real, evidence):
            yield Found(
                "error", entry, f"really lies at {real}", expected, "a link that leads out of the prefix", nodes
            )
    text = published.record.files.get(f"modules/{entry}.lua", "")
    for found, nodes in right.by_value(f"resolution.sha256.{entry}").items():
        if found != text:
            yield Found(
                "error",
                entry,
                f"other content ({found[:12] or 'cannot be read'})",
                f"sha256 {text[:12]}, as generation {published.record.number} records",
                "not the published file: which mount or copy is it? `envmgr verify` looks at the prefix itself",
                nodes,
            )


def _below_prefix(real: str, evidence: Evidence) -> bool:
    return real.startswith((f"{evidence.site.prefix}/", f"{evidence.controller.get('real', evidence.site.prefix)}/"))


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
