"""One join: for each harm the difference that explains it, on the same node; what is left of both stands by itself.

The rules, each with its reason: what all nodes have alike never explains what one node has. What is wrong later in the life of a
shell follows from what is wrong before in the same shell of the same node, and what ends in the words of another harm of the
node follows from that. A symptom (a variable, umask) is no cause while
a file, mount, package or account that has a relation to it differs on that node. A difference without a relation to a harm is
never called its cause.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.join import relations
from envmgr.audit.join.relations import View, holds
from envmgr.audit.second_look import traced_shell
from envmgr.probe.model import CONTEXTS, grouped

if TYPE_CHECKING:
    from envmgr.audit.inventory.differences import Difference
    from envmgr.audit.join.harms import Harm

_FILES = ("file", "link", "prog")
_DEEP = 2  # folders of a path that many things lie in
_MANY = 5  # differences of a shell which nothing explains that are one cause


@dataclass(frozen=True, slots=True)
class Root:
    """The origin of something: a thing that differs, a line of a start-up file, or a harm itself.

    `name` is the path, FILE:LINE, variable, or the harm's own text.
    """

    name: str

    @property
    def file(self) -> str:
        """Return its name without a line's number: two lines of one file are one cause."""
        return re.sub(r":\d+$", "", self.name)


@dataclass(slots=True)
class Cause:
    """A root on its nodes, with the harms that it explains and the differences that it is."""

    root: Root
    nodes: set[str] = field(default_factory=set)
    harms: list[Harm] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)


class OfNode:
    """The differences of one node, and what each of them comes from."""

    def __init__(self, node: str, differences: Iterable[Difference], view: View) -> None:
        self.node = node
        self.all = [of for of in differences if node in of.nodes or (not of.known and node in of.others)]
        self._view = view
        self._roots = [of for of in self.all if not KINDS[of.kind].symptom]
        # A node may differ in thousands of things: nothing looks at all of them for each of them.
        self._at = {of: number for number, of in enumerate(self._roots)}
        self._states = {of.path: f"{of.kind} {of.value} {of.known}" for of in reversed(self.all)}
        self._of_path = grouped((of.path, of) for of in self._roots)
        self._few = [of for of in self._roots if of.kind in ("modfile", "account") or "/.modulerc" in of.path]
        files, kept = [of for of in self._roots if of.kind in _FILES], {of.kept_in for of in KINDS.values()} - {""}
        self._rows = {rows: [of for of in files if re.match(rows, of.path)] for rows in kept}
        self._led = grouped((at, of) for of in self._few if of.kind == "modfile" for at in view.seen.leads(of.path))
        self._known: dict[tuple[Difference, ...], Root] = {}

    def root(self, of: Difference, led: tuple[Difference, ...] = ()) -> Root:
        """Return what a difference comes from: itself, unless it is a symptom of another one that has a relation to it."""
        led = (*led, of)
        return self._known.get(led) or self._known.setdefault(led, self._root(of, led))

    def _root(self, of: Difference, led: tuple[Difference, ...]) -> Root:
        own, user, leads_to = _own(of), self._view.user, self._view.seen.leads(of.path)
        rows = self._rows.get(KINDS["account" if _is_of_another(of) else of.kind].kept_in, ())
        near = [*self._holding((of.path, KINDS[of.kind].kept_in, *leads_to)), *rows, *self._led.get(of.path, ())]
        near += (each for each in self._few if _has(each, of, user))
        above = min((each for each in near if each not in led), key=self._at.__getitem__, default=None)
        if above is not None or not KINDS[of.kind].symptom:
            return self.root(above, led) if above is not None else own
        name = KINDS[of.kind].sets(of.key)
        place, usual = self._places(of.where, name)
        if place and self._first(lambda each: each.path == _file(place)):
            return Root(place)
        lost = self._first(lambda each: any(each.path == _file(at) or holds(each, _file(at)) for at in usual))
        # A file that does other things than on nodes that are right reads another one.
        if lost is None and place and not self._is_read_elsewhere(place, *_shell(of.where)):
            return self._line(place)
        read, leads = self._view.read(self.node, *_shell(of.where)), _leads_below(of, self._view)
        held = {*map(id, self._holding(read))}
        below = (
            lambda each: self._names(each, name.lstrip(":")),
            lambda each: leads(each.path) or each.path in read,
            lambda each: id(each) in held,
            lambda each: of.key == "said" and relations.is_name_in(each, f"{of.value}"),
            lambda each: relations.configures(each, f"{of.where}..".split(".")[1]),
            lambda each: relations.configures(each, of.kind),
            lambda each: each.kind == "account" and each.key.split(" ")[0] == user and _shell(of.where)[1] == "user",
            # By LMOD_CACHED_LOADS a module depends on all files of its folders.
            lambda each: each.kind == "modfile" and of.kind == "module" and f"{of.value}".endswith("no words"),
        )
        found = lost or next(filter(None, map(self._first, below)), None)
        if found is None and of.kind == "module":  # which one is loaded depends on the folders of modules
            found = next((each for each in self.all if each.kind == "moddir" and each.where.endswith(".user.")), None)
        if found is not None and found not in led:
            return self.root(found, led)
        return Root(place) if place and place not in usual else own

    def alike(self, of: Difference) -> list[tuple[str, ...]]:
        """Return what differences that have one root share."""
        _, usual = self._places(of.where, KINDS[of.kind].sets(of.key)) if of.where else ("", set[str]())
        files = {_file(place) for place in usual} - {""}
        key = of.key.partition(" ")[2] if of.kind == "module" else of.key  # of what one module sets, and another brings
        return [(self.node, of.kind, key, of.value or ""), *((self.node, of.where, file) for file in files)]

    def state(self, root: Root) -> str:
        """Return what a root is here: of nodes on which it is something else each has its own cause."""
        return self._states.get(root.file, "")

    def shares_path(self, of: Difference) -> bool:
        """Return whether another difference of that path explains it: a mount what shells see there."""
        depth = KINDS[of.kind].depth
        return of.path != "" and any(KINDS[each.kind].depth > depth for each in self._of_path.get(of.path, ()))

    def _holding(self, paths: Iterable[str]) -> Iterator[Difference]:
        """Yield what holds one of these paths."""
        above = {path[:at] for path in paths for at, sign in enumerate(path) if sign == "/"}
        return (each for at in above for each in self._of_path.get(at, ()) if holds(each, f"{at}/-"))

    def _first(self, fits: Callable[[Difference], bool]) -> Difference | None:
        return next((each for each in self._roots if fits(each)), None)

    def _places(self, where: str, name: str) -> tuple[str, set[str]]:
        """Return the line that sets NAME in that shell here, and those on nodes that are right; empty for none."""
        (context, account), seen = _shell(where), self._view.seen
        usual = {seen.place(node, context, account, name) for node in self._view.normal if node != self.node}
        return seen.place(self.node, context, account, name), usual

    def _names(self, of: Difference, name: str) -> bool:
        lines = "\n".join(self._view.lines.get((self.node, of.path), ()))
        return bool(lines) and bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", lines))

    def explain(self, harm: Harm, *, traced: bool = True) -> Root | None:
        """Return what explains a harm of this node; None if nothing that differs, or that is `traced`, has a relation to it."""
        # Of what is equally near, what others have counts more than what only this node has.
        ranked = [
            (at, -KINDS[of.kind].depth, of.right is None, number, of)
            for number, of in enumerate(self.all)
            if (at := relations.nearest(harm, of, self._view)) is not None
        ]
        best = min(ranked, default=None)
        if traced and (best is None or best[0] >= relations.TRACED) and (place := self.traced(harm)):
            return self._line(place)
        return None if best is None else self.root(best[4])

    def _line(self, place: str) -> Root:
        """Return FILE:LINE as a root, or else, of a file that is right, the lines that read it here and do not elsewhere."""
        differs = self._first(lambda each: each.path == _file(place))
        reader = None if differs else self._first(lambda each: self._names(each, _file(place)))
        return Root(place) if reader is None else self.root(reader)

    def traced(self, harm: Harm) -> str:
        """Return FILE:LINE that the harm, or the trace of its shell, names."""
        wanted = [*harm.sets, *sorted(harm.names - {"MODULEPATH"}, key=harm.text.find)]
        if harm.finding.check == "loading":
            wanted += ["module", ":module"]
        here = replace(harm, node=self.node)
        own = harm.line if harm.line.startswith(("/etc/", "/root/", f"{self._view.home}/")) else ""  # no vendor's
        places = [place for place in (own, *(self._view.sets(here, name) for name in wanted)) if place]
        shell = None if harm.alike else self._view.shell(here)
        return next((place for place in places if not (shell and self._is_read_elsewhere(place, *shell[1:]))), "")

    def _is_read_elsewhere(self, place: str, context: str, account: str) -> bool:
        """Return whether that shell of a node that is right reads the file of a line, too, and it is the same one here."""
        file, right = _file(place), [node for node in self._view.normal if node != self.node]
        there = any(file in self._view.seen.read(node, context, account) for node in right)
        return there and self._first(lambda each: each.path == file) is None


def _own(of: Difference) -> Root:
    """Return a difference as what it comes from itself."""
    return Root(of.path or f"{of.kind} {of.key.split(' ')[0] if of.kind == 'module' else of.key}")


def _shell(where: str) -> tuple[str, str]:
    """Return context and account of the traced shell of a shell's facts."""
    _, name, account, _ = f"{where}...".split(".", 3)
    return next((traced_shell(context) for context in CONTEXTS if context.name == name), ""), account


def _file(place: str) -> str:
    return place.rpartition(":")[0]


def _has(each: Difference, of: Difference, user: str) -> bool:
    """Return whether a difference is there because of another one: its modulefile, what lists it, or says whose home it is."""
    of_home = (of.kind, each.kind, each.key) == ("home", "account", user)
    file = relations.is_its_file(each, f"{of.key} {of.value} {of.right}")
    folder, hides, _ = each.path.partition("/.modulerc")
    lists = hides and of.kind == "avail" and of.key.replace(" ", "/").startswith(f"{folder}/")
    return file or of_home or bool(lists)


def _is_of_another(of: Difference) -> bool:
    """Return whether all that differs of a file or folder is whose it is, a number where an account has no name, or that a user may not read it."""
    value, right = (re.sub(r" \S+:\S+", "", text or "") for text in (of.value, of.right))
    return bool(of.path) and (value == right != "" or "closed" in (value, right))


def _leads_below(of: Difference, view: View) -> Callable[[str], bool]:
    """Return whether a value names a path, or what is below it; or only one of both a folder that has it."""
    value, right, key = (frozenset(re.findall(r"/[^\s:]+", f"{text}")) for text in (of.value, of.right, of.key))
    libraries = relations.libraries_in(f"{of.value} {of.right} {of.key}")
    named, only = view.ways(value | right | key), tuple(f"{each}/" for each in value ^ right if each.count("/") > 1)

    def leads(path: str) -> bool:
        below = any(each == path or each.startswith(f"{path}/") for each in named)
        return len(path) > 1 and (below or path.startswith(only) or path.rpartition("/")[2].startswith(libraries))

    return leads


def join(harms: Sequence[Harm], differences: Sequence[Difference], view: View) -> list[Cause]:
    """Return the causes: those of harms first, then what differs and harms nobody."""
    differences = relations.turned(differences, harms, view)
    nodes = {view.sender, *(harm.node for harm in harms)}.union(*(of.nodes + of.others for of in differences))
    of_node = {node: OfNode(node, differences, view) for node in sorted(nodes)}
    causes: dict[tuple[str, bool, str], Cause] = {}
    broken: set[tuple[str, str]] = set()
    hung: dict[str, Root] = {}  # shells wait for what does not answer, and then lack things
    for harm, root in _explained(harms, of_node, view):
        state = "" if harm.alike else of_node[harm.node].state(root)
        is_path = root.name.startswith("/") and root.name == root.file and not state  # the same everywhere
        cause = causes.setdefault((root.file, harm.alike or not harm.node or is_path, state), Cause(root))
        cause.harms.append(harm)
        cause.nodes.add(harm.node)
        if harm.finding.check == "mount":
            hung.setdefault(harm.node, root)
        if harm.context is not None and harm.breaks:
            broken.add((harm.node, harm.context.name))
    rooted = [(node, of, _root(of, node, of_node, view)) for node, each in of_node.items() for of in each.all]
    alone = Counter((node, of.where) for node, of, root in rooted if of.where and root == _own(of))
    explained = {of for node, of, root in rooted if root != _own(of) or of_node[node].shares_path(of)}
    # In other shells the same, and in the same shell what the same file sets on nodes that are right.
    elsewhere = {at: root for node, of, root in rooted if root != _own(of) for at in of_node[node].alike(of)}
    for node, of, own in rooted:
        by_itself = own
        if own == _own(of) and KINDS[of.kind].symptom:
            by_itself = next((elsewhere[at] for at in of_node[node].alike(of) if at in elsewhere), hung.get(node, own))
        if not of.known and of in explained and by_itself == _own(of):
            continue  # what explains it is on the other nodes
        root = Root(of.where) if alone[node, of.where] >= _MANY and by_itself == _own(of) else by_itself
        at = (root.file, False, of_node[node].state(root))
        every = causes.get((root.file, True, ""))
        found = every if every and every.nodes <= {*of.nodes} else causes.get(at)
        if of.apart and every and found is not every:
            continue  # there is said what is wrong with it
        if found is None and KINDS[of.kind].symptom and (node, f"{of.where}..".split(".")[1]) in broken:
            continue  # of a shell that has worse
        found = found or causes.setdefault(at, Cause(root))
        found.nodes.add(node)
        found.differences.append(of)
    for cause in causes.values():
        cause.differences = [*dict.fromkeys(cause.differences)]
    return list(causes.values())


def _root(of: Difference, node: str, of_node: Mapping[str, OfNode], view: View) -> Root:
    """Return what a difference of a node comes from. Of nodes that have the same one few were looked at again, and stand for all."""
    same = of.nodes if node in of.nodes else of.others
    looked = node if node in view.seen.facts else next((n for n in same if n in view.seen.facts), node)
    return of_node[looked].root(of)


def _explained(harms: Sequence[Harm], of_node: Mapping[str, OfNode], view: View) -> Iterator[tuple[Harm, Root]]:
    """Yield each harm with its root, its own text if nothing explains it."""
    first: dict[tuple[str, str, str, bool], tuple[int, Root]] = {}
    known: dict[tuple[str, str, str], Root] = {}
    stopped: dict[tuple[str, bool], Root] = {}
    states: list[tuple[Harm, Root]] = []
    told_by: dict[str, list[tuple[str, Root]]] = {}
    sent = [_sent(of, of_node, view.sender) for of in harms]
    wrong = [of.finding.where for of in sent if of.alike and of.finding.check == "node-setup"]  # its files
    explained = [(harm, _explanation(harm, of_node, view, wrong)) for harm in sent]
    broken = [(of, own) for of, own in explained if of.finding.check == "loading"]
    for harm, own in sorted(explained, key=lambda of: of[0].stage):
        root = own or next((of for state, of in states if _leads(state, harm)), None)
        for entry, of_entry in broken if root is None else ():
            if entry.node == harm.node and entry.finding.where in harm.finding.found:
                root = of_entry or _by_itself(entry, view)
        # In other shells: the same, and what names nothing and begins so.
        same = (harm.node, harm.finding.check, harm.finding.found)
        alike = (*same[:2], same[2].partition(": ")[0])
        if root is not None:
            known.setdefault(same, root)
            known.setdefault(alike, root)
        elif not harm.paths and not harm.names:
            root = known.get(alike)
        repeated = (of for said, of in told_by.get(harm.node, ()) if harm.finding.found.endswith(f": {said}"))
        stop = stopped.get((harm.node, harm.alike))
        # A root without a path is a symptom, as `env PATH`.
        root = stop if stop and not (root and root.name.startswith("/")) else root
        found = next(repeated, None) or root or known.get(same) or _by_itself(harm, view)
        if harm.finding.check == "mount" and harm.finding.severity == "error":
            stopped.setdefault((harm.node, harm.alike), found)  # where modules cannot work at all
        if harm.context is not None and harm.breaks:
            shell = (harm.node, harm.context.name, harm.account, harm.alike)
            stage, before = first.setdefault(shell, (harm.stage, found))
            found = before if stage < harm.stage else found
        told_by.setdefault(harm.node, []).append((harm.finding.found, found))
        if harm.is_state:
            states.append((harm, found))
        yield harm, found


def _by_itself(harm: Harm, view: View) -> Root:
    return Root(relations.said_by_itself(harm, view) or f"said: {harm.finding.found}")


def _explanation(harm: Harm, of_node: Mapping[str, OfNode], view: View, wrong: Sequence[str]) -> Root | None:
    if not harm.alike:
        return of_node[harm.node].explain(harm)
    places = [each.traced(harm) for each in of_node.values()]  # few nodes are looked at again
    shell = view.shell(harm) if harm.finding.check == "contexts" else None  # what node-setup's files are for
    read = {harm.finding.where}.union(*(view.seen.read(node, *shell[1:]) for node in of_node if shell))
    return next((Root(place) for place in (*places, *(path for path in wrong if path in read)) if place), None)


def _leads(state: Harm, harm: Harm) -> bool:
    """Return whether a variable leads to what a harm names, in the same shells of the same nodes; or a folder of the node."""
    if (state.node, state.alike) != (harm.node, harm.alike):
        return False
    if state.context is not None and (state.context, state.account) != (harm.context, harm.account):
        return False
    deep = _DEEP if state.context else 0
    held = any(f"{path}/".startswith(f"{of}/") for of in state.paths if of.count("/") > deep for path in harm.paths)
    return held or relations.configures(state.finding.where, f"{harm.finding.check}: {harm.text}")


def _sent(harm: Harm, of_node: Mapping[str, OfNode], sender: str) -> Harm:
    """Return the harm of this host, and of a job that fails alike on all nodes, as one of the host that asks, if something there explains it."""
    if harm.node and not harm.inherited:
        return harm
    there = replace(harm, node=sender, alike=False)
    if harm.inherited:
        there = replace(there, context=CONTEXTS[0], sent=True)  # from a login shell
    return there if of_node[sender].explain(there, traced=False) is not None else harm
