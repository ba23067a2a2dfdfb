"""The second half of an audit: compare the inventories, look again where it matters, join, and say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from envmgr.audit.findings import Caused, Loose, as_caused, joined
from envmgr.audit.inventory.alike import alike
from envmgr.audit.inventory.differences import Difference, by_their_paths, differences
from envmgr.audit.inventory.facts import Place
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.inventory.looked_into import lines_that_differ, same_text, turned_by_time, with_what_is_there
from envmgr.audit.inventory.places import home_of
from envmgr.audit.join.harms import Harm, harms_of
from envmgr.audit.join.join import join
from envmgr.audit.join.relations import View, daemons
from envmgr.audit.join.say import said
from envmgr.audit.model import Evidence
from envmgr.audit.second_look import LookAgain, Seen, Wanted, traced_shell
from envmgr.probe.model import ShellAccount

_MOST_NODES = 12  # that are looked at again: each stands for those with the same answer
_MOST_FILES = 200
_PATHS = re.compile(r"/[\w.+@-]+(?:/[\w.+@-]+)+")


def by_what_differs(
    loose: Sequence[Loose], places: Sequence[Place], evidence: Evidence, look_again: LookAgain
) -> tuple[Caused, ...]:
    """Return all findings, each difference with the harms that it explains; notes of checks come last."""
    of_all, home = differences(places, evidence), home_of(places, evidence.plan.user)
    harms = tuple(harms_of([*loose, *alike(places, evidence, of_all)], frozenset(evidence.fleet.nodes)))
    found = by_their_paths(of_all, home)
    wanted = _wanted(harms, found, evidence)
    seen = look_again(wanted) if wanted.nodes else Seen()
    lines = dict(lines_that_differ(found, seen))
    real = with_what_is_there([of for of in found if not same_text(of, lines, seen)], wanted, seen)
    if not evidence.plan.request.reference:
        real = [*dict.fromkeys(turned_by_time(real, seen))]
    sound = seen.facts.keys() - {node for of in real for node in of.nodes}
    normal = tuple(dict.fromkeys(node for of in real for node in of.others if node in sound))[:2] or wanted.normal
    ended = (of.node for of in harms if of.context and of.context.name == "bash-ssh" and "be probed" in of.text)
    shut, told = frozenset(evidence.in_job.nodes).union(ended), (of for place in places for of, _ in place.told)
    sets = (of.facts[key] for of in evidence.shells.groups for key in of.facts if key.startswith("site_modules.sets."))
    libraries = {key: value for of in told for (kind, key), value in of.values.items() if kind == "lib"}
    brought = frozenset(folder for text in sets for folder in _PATHS.findall(text))
    view = View(seen, lines, normal, evidence.sender, home, evidence.plan.user, shut, libraries, brought)
    notes = joined(one.finding for one in loose if one.finding.severity == "note" and not one.names)
    return (*said(join(harms, real, view), view), *(as_caused(note) for note in notes))


def _wanted(harms: Iterable[Harm], found: Sequence[Difference], evidence: Evidence) -> Wanted:
    """Return what to look at again: odd nodes and one normal, their shells that differ or harm, and files that all may read."""
    odd = dict.fromkeys(harm.node for harm in harms if harm.node and not harm.alike)
    odd |= dict.fromkeys(node for of in found for node in of.nodes[:2])
    odd |= dict.fromkeys([*dict.fromkeys(harm.node for harm in harms if harm.alike)][:2])
    shells: dict[tuple[str, ShellAccount], None] = {}
    for harm in harms:
        if harm.context is not None:
            shells[traced_shell(harm.context), harm.account] = None
    contexts = {shell.context.name: shell.context for shell in evidence.each_shell()}
    for of in found:
        _, name, account, _ = f"{of.where}...".split(".", 3)
        if name in contexts:
            shells[traced_shell(contexts[name]), "root" if account == "root" else "user"] = None
    files = {of.key: None for of in found if of.kind == "file" and _readable(of)}
    paths = {path: None for harm in harms for path in (*harm.paths, *daemons(harm))}
    paths |= {path: None for of in found if KINDS[of.kind].symptom for path in _PATHS.findall(f"{of.value} {of.right}")}
    doubt = (of for of in found if of.kind == "modfile" or 2 * len(of.nodes) >= len(of.others))
    paths |= {of.path: None for of in doubt if of.path}
    usual = sorted(dict.fromkeys(node for of in found for node in of.others), key=lambda node: node in odd)
    usual = usual or [node for node in evidence.fleet.nodes if node not in odd]
    every = (shells, files, paths, dict.fromkeys(of.key for of in found if of.kind == "tree"))
    return Wanted(tuple([*odd][:_MOST_NODES]), tuple(usual[:2]), *(tuple([*of][:_MOST_FILES]) for of in every))


def _readable(of: Difference) -> bool:
    """Return whether all may read the file, by its value (`SUM MODE OWNER:GROUP`): no SUM is salted, as in a closed folder."""
    values = [value for value in (of.value, of.right) if value]
    return bool(values) and all(re.fullmatch(r"[^~ ]\S* \d*[4567] .*", value) for value in values)
