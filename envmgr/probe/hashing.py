"""Comparison of folders, as nodes see them through their own mount, with their expected names, types, modes and
contents.

A node is asked at most twice: for one sha256 of each folder's listing, then, if that differs, for the records that
differ. Owners are not compared, because a mount may report other ones.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import PurePosixPath

from envmgr.catalog.site import Site
from envmgr.nodes.fanout import ask_nodes
from envmgr.probe.model import Facts, ProbePart, ProbePlan, Way
from envmgr.probe.shell import GATE_SECONDS, Folding, join_probes
from envmgr.report import Reporter
from envmgr.store.tree import TreePath
from envmgr.system.files import sha256_bytes
from envmgr.system.run import Runner
from envmgr.system.shelltext import assign, script_text, words
from envmgr.wording import escaped

_AROUND = 8.0  # seconds that a node needs in addition to reading
_MOST = 40  # paths of a folder that a node reports
_NOT_HASHED = "could not be hashed"


@dataclass(frozen=True, slots=True)
class HashedFolder:
    """A folder that must hold just `paths`, with modes as they are there; `mode` is its own.

    Of a file it is the `sha256`, without paths.
    """

    folder: str
    mode: int
    paths: Sequence[TreePath] = ()
    sha256: str = ""

    def listing(self) -> list[bytes]:
        """Return the records that a node makes of it, sorted."""
        if self.sha256:
            return [f"f {self.sha256}  .".encode(), f"m {self.mode:o} .".encode()]
        found = [f"d {self.mode:o} ."]
        for path, kind, mode, _, sha256, target in self.paths:
            if kind == "link":
                found.append(f"l {path} {target}")
            elif kind == "file":
                found += [f"m {mode:o} {path}", f"f {sha256}  {path}"]
            else:
                found.append(f"d {mode:o} {path}")
        return sorted(map(os.fsencode, found))


@dataclass(frozen=True, slots=True)
class NodeFault:
    """A fault on a node. `folder` is empty if the fault concerns the whole node."""

    node: str
    folder: str
    found: str


@dataclass(slots=True)
class HashOnNodes:
    """Asks nodes for the state of `places`. `seconds` is the time for all of them."""

    site: Site
    runner: Runner
    reporter: Reporter
    via: Way
    seconds: float
    currents: dict[str, str] = field(default_factory=dict)  # node -> what `current` names there
    unseen: set[str] = field(default_factory=set)  # nodes with an incomplete answer, which are not verified

    def ask(self, nodes: Sequence[str], places: Sequence[HashedFolder]) -> list[NodeFault]:
        """Return the faults with their nodes; a node that does not answer is also a fault."""
        # Of the records, each with a zero byte at its end.
        sums = [sha256_bytes(b"".join(record + b"\0" for record in place.listing())) for place in places]
        faults: list[NodeFault] = []
        differing: list[tuple[str, int]] = []
        for node, facts in self._told(nodes, self._script(places, {}), faults).items():
            self.currents[node] = facts.get("current", "")
            for number, place in enumerate(places):
                if facts.get(f"verify.gone.{number}"):
                    faults.append(NodeFault(node, place.folder, "missing"))
                elif why := facts.get(f"verify.closed.{number}"):
                    faults.append(NodeFault(node, place.folder, f"cannot be looked at: {why}"))
                elif (said := facts.get(f"verify.sum.{number}")) is None:
                    faults.append(NodeFault(node, place.folder, f"not looked at within {self.seconds:g} s"))
                    self.unseen.add(node)
                elif said != sums[number]:
                    differing.append((node, number))
        if wanted := {number: places[number].listing() for _, number in sorted(differing, key=itemgetter(1))}:
            told = self._told([*dict(differing)], self._script(places, wanted), faults)
            for node, number in differing:
                found = self._found(node, told.get(node, {}), number)
                faults += [NodeFault(node, places[number].folder, each) for each in found]
        return faults

    def _found(self, node: str, facts: Facts, number: int) -> list[str]:
        """Return the differences in a place whose sum differs.

        What could not be read to its end, or differs no more, is no difference, and the node counts as not verified.
        """
        found = [*_in_words(facts.get(f"verify.line.{number}", "").splitlines())] or [f".: {_NOT_HASHED}"]
        if any(each.endswith(f": {_NOT_HASHED}") for each in found):
            self.unseen.add(node)
        return found

    def _told(self, nodes: Sequence[str], script: str, faults: list[NodeFault]) -> dict[str, Facts]:
        """Return what nodes answer whose prefix can be used; a fault for each other one."""
        folding = Folding(nodes)
        with self.reporter.stage("verify", total=len(nodes), unit="nodes") as stage:
            ask_nodes(
                nodes,
                script,
                site=self.site,
                via=self.via,
                runner=self.runner,
                on_reply=folding.counting(stage),
                fresh=True,
                timeout=self.seconds + GATE_SECONDS + _AROUND,
                deadline=self.seconds + GATE_SECONDS + 2 * _AROUND,
            )
        fleet = folding.fleet()
        why = {reply.node: f"{reply.status}: {reply.reason}" for reply in fleet.missing}
        for gate, of_gate in fleet.by_value("gate", default="").items():
            said = "the prefix does not answer" if gate == "hung" else f"the prefix cannot be used: {gate}"
            why |= dict.fromkeys(of_gate if gate != "ok" else (), said)
        faults += [NodeFault(node, "", why[node]) for node in nodes if node in why]
        self.unseen |= why.keys()
        return fleet.where("gate", "ok").told

    def _script(self, places: Sequence[HashedFolder], wanted: Mapping[int, Sequence[bytes]]) -> str:
        """For the places of `wanted` with their records, for all without any."""
        listing = script_text(__file__, "list.sh")
        text = assign(verify_end=math.ceil(self.seconds), verify_most=_MOST, verify_list=listing)
        for number, records in wanted.items():
            # A here-document has lines, so a line break in a name becomes the byte 1, as in the node's own list.
            lines = (f"{os.fsdecode(record)}\n" for record in (each.replace(b"\n", b"\1") for each in records))
            text += f"cat >\"$0.want.{number}\" <<'ENVMGR_WANT'\n{''.join(lines)}ENVMGR_WANT\n"
        chosen = (word for n in wanted or range(len(places)) for word in (str(n), places[n].folder))
        text += f"set -- {words(*chosen)}\n{script_text(__file__, 'node.sh')}"
        user, seconds = self.site.build_user or "", math.ceil(self.seconds + _AROUND)
        plan = ProbePlan(prefix=str(self.site.prefix), user=user, build_user=user, seconds=seconds)
        return join_probes([ProbePart("verify", {"prefix": text})], plan)


_WHAT = {"f": "sha256", "m": "mode", "l": "target", "d": "mode"}  # kind of a record -> what another value of it changed
_Records = dict[str, dict[str, str]]
"""Path -> kind of record -> value."""


def _in_words(lines: Sequence[str]) -> Iterator[str]:
    """Yield the differences path by path, from records of the node and, after a tab, of this host only.

    `!` are paths that the node cannot read, `+` counts paths that it did not report, `!!`: it did not make all records.
    """
    have, want, closed, more, is_cut = _Records(), _Records(), set[str](), 0, False
    for line in lines:
        record = re.sub(r"^(\t|\\t|\\x09)", "", line)  # a tab, as answers show it
        kind, _, rest = record.partition(" ")
        value, _, path = rest.partition(" ")
        if kind == "!":
            closed.add(rest)
        elif kind == "!!":
            is_cut = True
        elif kind == "+":  # a node may answer anything, and int() fails for very many digits
            more = int(rest) if rest.isdecimal() and len(rest) < 10 else 0
        else:
            if kind == "l" and (value, path) != ("777", "."):  # else a link in place of the folder
                path, value = value, path
            (have if record == line else want).setdefault(path.strip(), {})[kind] = value
    if len(closed) > 1:
        closed.discard(".")  # the other paths say which parts of it cannot be read
    if is_cut:
        yield f".: {_NOT_HASHED}"
    for path in sorted({*have, *want, *closed}):
        here, there = have.get(path, {}), want.get(path, {})
        if path in closed:
            yield f"{escaped(path)}: cannot be read"
        elif here or not (is_cut or closed.intersection(map(str, PurePosixPath(path).parents))):
            yield f"{escaped(path)}: {_changed(here, there, is_cut=is_cut)}"
    if more and not is_cut:
        yield f"and {more} more path{'s' if more > 1 else ''}"


def _changed(here: Mapping[str, str], there: Mapping[str, str], *, is_cut: bool) -> str:
    """Return the differences of a path. If only the hash of a file is missing, the file exists and its mode is right."""
    if not there:
        return "not among what it must have"
    if here.keys() <= {"m"} and there.keys() - here.keys() == {"f"}:
        return ", ".join(["mode changed"] * bool(here) + [_NOT_HASHED] * (not is_cut))
    if not here:
        return "missing"
    if here.keys() != there.keys():
        return "kind changed"
    return f"{', '.join(sorted(_WHAT.get(kind, kind) for kind in there if here[kind] != there[kind]))} changed"
