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
from pathlib import PurePosixPath

from envmgr.catalog.site import Site
from envmgr.nodes.envelope import Reply
from envmgr.nodes.fanout import ask_nodes
from envmgr.probe.model import Facts, ProbePart, ProbePlan, Way
from envmgr.probe.shell import GATE_SECONDS, join_probes, read_answer
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

    def sum_of_listing(self) -> str:
        """Return the sha256 of its records, each with a zero byte at its end."""
        return sha256_bytes(b"".join(record + b"\0" for record in self.listing()))


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
        sums = [place.sum_of_listing() for place in places]
        faults: list[NodeFault] = []
        differing: dict[str, list[int]] = {}
        for node, facts in self._replies(nodes, self._script(places, {}), faults):
            self.currents[node] = facts.get("current", "")
            if why := facts.get("verify.unable"):
                faults.append(self._unable(node, why))
                continue
            for number, place in enumerate(places):
                if facts.get(f"verify.gone.{number}"):
                    faults.append(NodeFault(node, place.folder, "missing"))
                elif why := facts.get(f"verify.closed.{number}"):
                    faults.append(NodeFault(node, place.folder, f"cannot be looked at: {why}"))
                elif (said := facts.get(f"verify.sum.{number}")) is None:
                    faults.append(NodeFault(node, place.folder, f"not looked at within {self.seconds:g} s"))
                    self.unseen.add(node)
                elif said != sums[number]:
                    differing.setdefault(node, []).append(number)
        wrong = sorted({number for numbers in differing.values() for number in numbers})
        if wrong:
            wanted = {number: places[number].listing() for number in wrong}
            told = dict(self._replies(list(differing), self._script(places, wanted), faults))
            for node, numbers in differing.items():
                if why := told.get(node, {}).get("verify.unable"):
                    faults.append(self._unable(node, why))
                    continue
                for number in numbers:
                    found = self._found(node, told.get(node, {}), number)
                    faults += [NodeFault(node, places[number].folder, each) for each in found]
        return faults

    def _unable(self, node: str, why: str) -> NodeFault:
        self.unseen.add(node)
        return NodeFault(node, "", f"could not look: {why}")

    def _found(self, node: str, facts: Facts, number: int) -> list[str]:
        """Return the differences in a place whose sum differs.

        What could not be read to its end is no difference, and the node counts as not verified.
        """
        found = list(_in_words(facts.get(f"verify.line.{number}", "").splitlines()))
        if any(each.endswith(f": {_NOT_HASHED}") for each in found):
            self.unseen.add(node)
        if not found and facts.get(f"verify.compared.{number}"):
            self.unseen.add(node)
            return [
                "it differed, and did not when it was looked at again: does it change, or are programs killed there?"
            ]
        return found or ["its content differs"]

    def _replies(self, nodes: Sequence[str], script: str, faults: list[NodeFault]) -> Iterator[tuple[str, Facts]]:
        answered: list[tuple[str, Facts]] = []
        replied = 0
        with self.reporter.stage("verify", total=len(nodes), unit="nodes") as stage:

            def fail(node: str, why: str) -> None:
                faults.append(NodeFault(node, "", why))
                self.unseen.add(node)

            def take(reply: Reply) -> None:
                nonlocal replied
                replied += 1
                stage.update(replied, detail=reply.node)
                if reply.status != "answered":
                    fail(reply.node, f"{reply.status}: {reply.reason}")
                    return
                facts, _, _ = read_answer(reply.text)
                if (gate := facts.get("gate", "")) == "ok":
                    answered.append((reply.node, facts))
                else:
                    hung = "the prefix does not answer"
                    fail(reply.node, hung if gate == "hung" else f"the prefix cannot be used: {gate}")

            ask_nodes(
                nodes,
                script,
                site=self.site,
                via=self.via,
                runner=self.runner,
                on_reply=take,
                fresh=True,
                timeout=self.seconds + GATE_SECONDS + _AROUND,
                deadline=self.seconds + GATE_SECONDS + 2 * _AROUND,
            )
        yield from answered

    def _script(self, places: Sequence[HashedFolder], wanted: Mapping[int, Sequence[bytes]]) -> str:
        """For the places of `wanted` with their records, for all without any."""
        files = [
            f"cat >\"$0.want.{number}\" <<'ENVMGR_WANT'\n{_as_lines(records)}ENVMGR_WANT\n"
            for number, records in wanted.items()
        ]
        chosen = [
            word for n, place in enumerate(places) if not wanted or n in wanted for word in (str(n), place.folder)
        ]
        text = (
            assign(verify_end=math.ceil(self.seconds), verify_most=_MOST)
            + assign(verify_list=script_text(__file__, "list.sh"))
            + "".join(files)
            + f"set -- {words(*chosen)}\n"
            + script_text(__file__, "node.sh")
        )
        user, seconds = self.site.build_user or "", math.ceil(self.seconds + _AROUND)
        plan = ProbePlan(prefix=str(self.site.prefix), user=user, build_user=user, seconds=seconds)
        return join_probes([ProbePart("verify", {"prefix": text})], plan)


def _as_lines(records: Sequence[bytes]) -> str:
    # A here-document has lines, so a line break in a name becomes the byte 1, as in the node's own list.
    return "".join(f"{os.fsdecode(record.replace(bytes([10]), bytes([1])))}\n" for record in records)


@dataclass(slots=True)
class _Differences:
    """Records by path, kind -> value, that only the node has (`have`), and that only this host has (`want`).

    `closed` are the paths that the node cannot read. `more` counts paths that it did not report. `cut`: it did not make
    all records.
    """

    have: dict[str, dict[str, str]] = field(default_factory=dict)
    want: dict[str, dict[str, str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    more: int = 0
    cut: bool = False

    def add(self, line: str) -> None:
        """Add a record. Records that only this host has begin with a tab."""
        record = re.sub(r"^(\t|\\t|\\x09)", "", line)  # a tab, as answers show it
        kind, _, rest = record.partition(" ")
        if kind == "!":
            self.closed.add(rest)
        elif kind == "!!":
            self.cut = True
        elif kind == "+":
            # A node may answer anything, and int() fails for very many digits.
            self.more = int(rest) if rest.isdecimal() and len(rest) < 10 else 0
        else:
            value, _, path = rest.partition(" ")
            if kind == "l":
                path, value = (
                    (value, path) if (value, path) != ("777", ".") else (".", "")
                )  # a link in place of the folder
            (self.have if record == line else self.want).setdefault(path.strip(), {})[kind] = value


def _in_words(lines: Sequence[str]) -> Iterator[str]:
    """Yield the differences path by path, from records of the node and, after a tab, of this host only."""
    of = _Differences()
    for line in lines:
        of.add(line)
    if len(of.closed) > 1:
        of.closed.discard(".")  # the other paths say which parts of it cannot be read
    if of.cut:
        yield f".: {_NOT_HASHED}"
    for path in sorted({*of.have, *of.want, *of.closed}):
        if path in of.closed:
            yield f"{escaped(path)}: cannot be read"
        elif words := _changed(path, of):
            yield f"{escaped(path)}: {words}"
    if of.more and not of.cut:
        yield f"and {of.more} more path{'s' if of.more > 1 else ''}"


def _changed(path: str, of: _Differences) -> str:
    """Return the differences of a path; empty if they are unknown.

    If only the hash of a file is missing, the file exists and its mode is right.
    """
    here, there = of.have.get(path, {}), of.want.get(path, {})
    if not there:
        return "not among what it must have"
    if not here and (of.cut or of.closed.intersection(map(str, PurePosixPath(path).parents))):
        return ""
    if set(here) <= {"m"} and set(there) - set(here) == {"f"}:
        found = [*(["mode changed"] if here else []), *([] if of.cut else [_NOT_HASHED])]
        return ", ".join(found)
    if not here:
        return "missing"
    names = {"f": "sha256", "m": "mode", "l": "target", "d": "mode"}
    same = here.keys() == there.keys()
    what = sorted({names.get(kind, "kind") for kind in there if here.get(kind) != there[kind]}) if same else ["kind"]
    return f"{', '.join(what)} changed"
