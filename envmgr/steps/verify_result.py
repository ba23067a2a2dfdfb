"""The result of `verify`: what was looked at, each difference as a finding with what to do, and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from envmgr.nodes.sets import expand
from envmgr.publish.flip_checks import FlipLook, mend_of, severity_of
from envmgr.publish.verify import Fault, LookedAt
from envmgr.report import Finding, Lines, Result
from envmgr.store.verify import Looked
from envmgr.wording import counted, shortened


@dataclass(frozen=True, slots=True)
class VerifyResult(Result):
    """The result of `verify`. `checked` are entries, `installs` paths relative to the prefix, `generations` numbers.

    Each finding is one path that differs from its record or its manifest. `not_looked_at` are things that no record
    describes. `nodes` are those that answered in full, and `not_verified` those that did not, folded; both are empty
    for this machine. `flip` is the flip in force and its signer, empty if that was not found. `made_at`
    maps installs to the paths at which they were built: elsewhere their files may differ. `images` are the installs
    whose images were read. `not_ours` maps entries to the trees outside of the store that were looked at.
    """

    schema: ClassVar[str] = "envmgr.verify/1"
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    generations: tuple[int, ...] = ()
    installs: tuple[str, ...] = ()
    not_looked_at: tuple[str, ...] = ()
    nodes: str = ""
    not_verified: str = ""
    flip: str = ""
    made_at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    not_ours: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        return 1 if self.findings else 0

    def lines(self) -> Lines:
        for finding in self.findings:
            on = f"{finding.nodes}: " if finding.nodes else ""
            yield f"{finding.severity}[{finding.check}]: {on}{finding.where}: {finding.found}"
        for hint in dict.fromkeys(f.hint for f in self.findings if f.hint):
            yield f"hint: {hint}"
        for line in self.not_looked_at:
            yield f"not looked at: {line}"
        for path, places in self.made_at.items():
            where = ", ".join(places)
            yield f"not reproducible: {path}: built in {where}: elsewhere, or by another user, its files may differ"
        if self.flip:
            yield self.flip
        on = f", on {self.nodes}" if self.nodes else ", on no node" if self.not_verified else ""
        unverified = {*expand(self.not_verified)} if self.not_verified else set[str]()
        seen = [f for f in self.findings if not f.nodes or not unverified.issuperset(expand(f.nodes))]
        wrong = {f.where.split("/")[1] for f in seen if f.check == "generation"}
        yield f"{counted(len(self.generations), 'generations')} verified{on}, {_differ(len(wrong), 'record')}"
        bad = {f.where for f in seen if f.check == "install"}
        yield f"{counted(len(self.checked), 'installs')} verified{on}, {_differ(len(bad), 'manifest')}"
        if self.not_ours:
            wrong = {f.where for f in self.findings if f.check == "not-ours"}
            trees = counted(len({*self.not_ours.values()}), "trees")
            yield f"not ours: {trees} looked at here, {_differ(len(wrong), 'record')}"
        if self.images:
            wrong = {f.where for f in self.findings if f.check == "image"}
            yield f"{counted(len(self.images), 'images')} verified, {_differ(len(wrong), 'record')}"
        if self.not_verified:
            yield f"not verified: {self.not_verified}"


@dataclass(frozen=True, slots=True)
class PrefixLook:
    """The things that were looked at, and what is wrong: of `installs` by path, of `generations` by number. `number` is
    the current one.

    `images` are the faults of each image, by its install; `not_ours` maps entries to trees that are not ours. `hints`
    say what makes the damaged installs right.
    """

    entries: tuple[str, ...]
    current: tuple[Fault, ...]
    generations: Mapping[int, LookedAt]
    users: Mapping[str, Sequence[str]]
    installs: Mapping[str, Looked]
    own: Mapping[str, str]
    number: int | None
    hints: Mapping[str, str]
    flip: FlipLook | None = None
    way_back: str = ""
    history: str = ""
    images: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_ours: Mapping[str, str] = field(default_factory=dict)

    def findings(self) -> Iterator[Finding]:
        for fault in self.current:
            yield Finding("current", "error", fault.path, fault.found, hint=self.way_back)
        if self.history:
            hint = f"`envmgr rollback {self.number}` writes it again, from the flips; what they do not tell is lost"
            yield Finding("history", "error", "var/history.jsonl", self.history, hint=hint)
        flips = self.flip.faults if self.flip is not None else ()
        right = next((each.right for each in flips if each.right is not None), None)
        for flip in flips:
            hint = mend_of(flip.state, [each.state for each in flips], right)
            yield Finding("flip", severity_of(flip.state), flip.path, f"{flip.state}: {flip.found}", hint=hint)
        for looked in self.generations.values():
            hint = _generation_hint(looked, self.number, self.way_back)
            yield from (Finding("generation", "error", each.path, each.found, hint=hint) for each in looked.faults)
        for path, install in self.installs.items():
            of = self.users.get(path, ())
            where = ", ".join(of) or path
            for line in install.wrong:
                text = line if not of or path == self.own.get(of[0]) else f"{path}: {line}"
                yield Finding("install", "error", where, text, hint=self.hints[path])
            for line in shortened(install.outside):
                yield Finding("not-ours", "error", where, line, hint=_not_ours_hint(of))
            hint = f"`envmgr stage --image {of[0]}` makes it again" if of else "`envmgr gc` removes it when it is old"
            yield from (Finding("image", "error", where, line, hint=hint) for line in self.images.get(path, ()))

    def result(self) -> VerifyResult:
        unseen = [line for looked in self.generations.values() for line in looked.unseen]
        lost = (number for number, looked in self.generations.items() if looked.record is None)
        unseen += [f"generations/{number:04d}: which installs it stands on" for number in lost]
        flip = self.flip
        return VerifyResult(
            self.entries,
            tuple(self.findings()),
            tuple(self.generations),
            tuple(self.installs),
            tuple(unseen),
            flip=f"flip {flip.sequence}, signed by {flip.who}" if flip is not None and not flip.faults else "",
            made_at={path: each.made_at for path, each in self.installs.items() if each.made_at},
            images=tuple(self.images),
            not_ours=self.not_ours,
        )


_NEVER = "a generation never changes: find the cause"
_GENERATION = f"{_NEVER}; `envmgr publish` publishes the same entries as a new generation"
_OLD = f"{_NEVER}; for a rollback choose another one, until `envmgr gc` removes this one"


def _generation_hint(looked: LookedAt, current: int | None, way_back: str) -> str:
    if looked.number != current:
        return _OLD
    return _GENERATION if looked.can_be_made_again else f"what it held is not known: {way_back}"


def _not_ours_hint(entries: Sequence[str]) -> str:
    if not entries:
        return "no generation names it: `envmgr gc` removes its record when that is old, and never the tree"
    again = f"`envmgr lock {entries[0]} && envmgr build {entries[0]}` publishes it as it is now"
    return f"the tree is not ours, and nothing of it is made again: ask those who keep it; {again}"


def _differ(count: int, of: str) -> str:
    return f"{count} {'differs from its' if count == 1 else 'differ from their'} {of}"
