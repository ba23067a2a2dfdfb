"""The look at what is published: `current`, generations with their records, installs with their manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from envmgr.errors import EnvmgrError, InputError
from envmgr.publish.candidates import read_candidate, signature_faults, told_candidates
from envmgr.publish.flip_checks import FlipLook, last_signed, look_at_current_flip, mend_of, severity_of
from envmgr.publish.flips import known_current, last_current, lost_lines, told_records
from envmgr.publish.records import ABANDONED, RECORD, candidate_numbers, complete_numbers, read_record, way_back
from envmgr.publish.verify import (
    Fault,
    LookedAt,
    current_faults,
    named_manifests,
    newest_whole,
    published_numbers,
    verify_generation,
)
from envmgr.report import Finding, Lines, Result
from envmgr.steps import Context, published_record, require_published, trusted_owners
from envmgr.store.image import has_image, image_faults
from envmgr.store.prefix import Install, Prefix, installs
from envmgr.store.verify import Looked, verify_install
from envmgr.wording import counted, shortened


@dataclass(frozen=True, slots=True)
class VerifyWhat:
    """The scope of `verify`: `names` are entries, none for all; `generations` are numbers, none for the current one.

    `everything` is all that exists.
    """

    names: tuple[str, ...] = ()
    generations: tuple[int, ...] = ()
    everything: bool = False


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
        wrong = {f.where.split("/")[1] for f in self.findings if f.check == "generation"}
        yield f"{counted(len(self.generations), 'generations')} verified{on}, {_differ(len(wrong), 'record')}"
        bad = {f.where for f in self.findings if f.check == "install"}
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

    `images` are the faults of each image, by its install. `outside` is how the trees that are not ours changed, by the
    install that leads to each; `not_ours` maps entries to these trees. `hints` say what makes the
    damaged installs right.
    """

    entries: tuple[str, ...]
    current: tuple[Fault, ...]
    generations: Mapping[int, LookedAt]
    users: Mapping[str, tuple[str, ...]]
    installs: Mapping[str, tuple[str, ...]]
    own: Mapping[str, str]
    number: int | None
    hints: Mapping[str, str]
    flip: FlipLook | None = None
    way_back: str = ""
    history: str = ""
    made_at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    images: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
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
        for path, lines in self.installs.items():
            of = self.users.get(path, ())
            where = ", ".join(of) or path
            for line in lines:
                text = line if not of or path == self.own.get(of[0]) else f"{path}: {line}"
                yield Finding("install", "error", where, text, hint=self.hints[path])
        for path, lines in self.outside.items():
            of = self.users.get(path, ())
            for line in shortened(lines):
                yield Finding("not-ours", "error", ", ".join(of) or path, line, hint=_not_ours_hint(of))
        for path, lines in self.images.items():
            of = self.users.get(path, ())
            hint = f"`envmgr stage --image {of[0]}` makes it again" if of else "`envmgr gc` removes it when it is old"
            yield from (Finding("image", "error", ", ".join(of) or path, line, hint=hint) for line in lines)

    def result(self) -> VerifyResult:
        unseen = [line for looked in self.generations.values() for line in looked.unseen]
        flip = self.flip
        return VerifyResult(
            self.entries,
            tuple(self.findings()),
            tuple(self.generations),
            tuple(self.installs),
            tuple(unseen),
            flip=f"flip {flip.sequence}, signed by {flip.who}" if flip is not None and not flip.faults else "",
            made_at=self.made_at,
            images=tuple(self.images),
            not_ours=self.not_ours,
        )


_NEVER = "a generation never changes: find the cause"
_GENERATION = f"{_NEVER}; `envmgr publish` publishes the same entries as a new generation"
_OLD = f"{_NEVER}; for a rollback choose another one, until `envmgr gc` removes this one"
_INSTALL = "an install never changes: find the cause"


def _generation_hint(looked: LookedAt, current: int | None, way_back: str) -> str:
    if looked.number != current:
        return _OLD
    return _GENERATION if looked.can_be_made_again else f"what it held is not known: {way_back}"


def _hint(ctx: Context, path: str, entries: Sequence[str]) -> str:
    if not entries:
        return f"{_INSTALL}; no generation names {path}: `envmgr gc` removes it when it is old"
    from envmgr.steps.again import maker_of

    entry, why = maker_of(ctx, path, entries)
    if not why:
        return f"{_INSTALL}; `envmgr build --again {entry}` makes it again, in its place"
    return (
        f"{_INSTALL}; it cannot be made again: {why}: bring back the recipe and the lock that it was built from, or "
        f"publish the entry as it is now: `envmgr build {entry}`"
    )


def _not_ours_hint(entries: Sequence[str]) -> str:
    if not entries:
        return "no generation names it: `envmgr gc` removes its record when that is old, and never the tree"
    again = f"`envmgr lock {entries[0]} && envmgr build {entries[0]}` publishes it as it is now"
    return f"the tree is not ours, and nothing of it is made again: ask those who keep it; {again}"


def look(ctx: Context, what: VerifyWhat) -> PrefixLook:
    """Look at everything; start again where a `gc` removed what was being looked at.

    Raises EnvmgrError `nothing-published`, `no-generation`; InputError `not-published`, `verify-all`.
    """
    while True:
        found = _look(ctx, what)
        if not _was_removed(ctx.prefix, found):
            return found


def _was_removed(prefix: Prefix, found: PrefixLook) -> bool:
    folders = (prefix.generation(number) for number in found.generations)
    unused = (path for path, lines in found.installs.items() if lines and path not in found.users)
    return any((each / ABANDONED).exists() and not (each / RECORD).exists() for each in folders) or any(
        not prefix.install_at(path).path.exists() and not prefix.install_at(path).manifest.exists() for path in unused
    )


def _look(ctx: Context, what: VerifyWhat) -> PrefixLook:
    if what.everything and (what.names or what.generations):
        raise InputError("verify-all", "--all is everything: name no entries and no generations with it")
    prefix = ctx.prefix
    numbers = _numbers(ctx, what)
    owners = trusted_owners(ctx)
    recorded = told_candidates(prefix) | told_records(prefix)
    looked = {}
    with ctx.reporter.stage("generations", total=len(numbers), unit="generations") as stage:
        for count, number in enumerate(numbers, 1):
            ctx.runner.raise_if_cancelled()
            looked[number] = _with_marker(ctx, verify_generation(prefix, number, recorded, owners))
            stage.update(count)
    users, own, lost = _users(looked, what)
    entries = sorted({name for names in users.values() for name in names})
    paths = [*users]
    if what.everything:
        paths += [i.relative for i in installs(prefix) if i.relative not in users]
    named = named_manifests(prefix)
    seen: dict[str, Looked] = {}
    images: dict[str, tuple[str, ...]] = {}
    for path in paths:
        ctx.runner.raise_if_cancelled()
        seen[path] = _look_at(ctx, prefix.install_at(path), named.get(path), owners)
        if not seen[path].wrong and has_image(prefix.install_at(path)):
            images[path] = tuple(image_faults(prefix.install_at(path)))
    found = {path: each.wrong for path, each in seen.items()}
    checked = tuple(dict.fromkeys(what.names)) if what.names else tuple(entries)
    looked = {n: replace(each, unseen=(*each.unseen, *lost.get(n, ()))) for n, each in looked.items()}
    hints = {path: _hint(ctx, path, users.get(path, ())) for path, lines in found.items() if lines}
    faults = tuple(current_faults(prefix))
    signing = ctx.site.signing
    flip = None if signing is None else look_at_current_flip(prefix, signing, ctx.runner)
    return PrefixLook(
        checked,
        faults,
        looked,
        {k: tuple(v) for k, v in users.items()},
        found,
        own,
        known_current(prefix),
        hints,
        None if flip is None else flip[1],
        _way_back(ctx, faults, looked, recorded, owners),
        lost_lines(prefix),
        {path: each.made_at for path, each in seen.items() if each.made_at},
        images,
        {path: each.outside for path, each in seen.items() if each.outside},
        _not_ours(looked, checked),
    )


def _with_marker(ctx: Context, looked: LookedAt) -> LookedAt:
    """Return the look with the faults of a candidate's signature, if it is one."""
    if looked.number not in candidate_numbers(ctx.prefix) or looked.record is None:
        return looked
    try:
        faults = signature_faults(ctx.prefix, read_candidate(ctx.prefix, looked.number), ctx.signer)
    except EnvmgrError as error:
        faults = (Fault(f"candidates/{looked.number:04d}.json", error.message),)
    return replace(looked, faults=(*looked.faults, *faults))


def _not_ours(looked: Mapping[int, LookedAt], checked: Sequence[str]) -> dict[str, str]:
    records = [each.record for each in looked.values() if each.record is not None]
    found = {name: entry.not_ours for record in records for name, entry in record.entries.items() if entry.not_ours}
    return {name: tree for name, tree in sorted(found.items()) if name in checked}


def _way_back(
    ctx: Context,
    faults: Sequence[Fault],
    looked: Mapping[int, LookedAt],
    recorded: Mapping[int, str],
    owners: frozenset[int] | None,
) -> str:
    """Return what makes `current` right, or leads away from a generation of which it is not known what it held; empty
    where both are sound.
    """
    number = known_current(ctx.prefix)
    if not faults and (number is None or number not in looked or looked[number].can_be_made_again):
        return ""
    whole = newest_whole(ctx.prefix, recorded, owners)
    # The history's last generation, unless a signed flip is newer than all that the history says.
    last = last_signed(ctx.prefix, ctx.signer) or last_current(ctx.prefix)
    sound = last is not None and last in looked and not looked[last].faults
    return way_back(ctx.prefix, last if sound else whole)


def _numbers(ctx: Context, what: VerifyWhat) -> list[int]:
    complete = complete_numbers(ctx.prefix)
    if what.everything and (published := published_numbers(ctx.prefix)):
        return published
    if what.generations:
        for asked in what.generations:
            if asked not in complete:
                read_record(ctx.prefix, asked)  # raises
        return list(dict.fromkeys(what.generations))
    number = known_current(ctx.prefix)
    if number is None:
        last = last_current(ctx.prefix)
        number = last if last in complete else complete[-1] if complete else published_record(ctx).number
    return [number]


def _users(
    looked: Mapping[int, LookedAt], what: VerifyWhat
) -> tuple[dict[str, list[str]], dict[str, str], dict[int, tuple[str, ...]]]:
    """Return install -> the entries that use it, entry -> its own install, and generation -> what cannot be known of
    it.
    """
    users: dict[str, list[str]] = {}
    own: dict[str, str] = {}
    lost: dict[int, tuple[str, ...]] = {}
    for number, each in looked.items():
        if each.record is None:
            lost[number] = (f"generations/{number:04d}: which installs it stands on",)
            continue
        if what.names:
            require_published(what.names, each.record)
        for name in what.names or sorted(each.record.entries):
            entry = each.record.entries[name]
            own.setdefault(name, entry.path)
            for path in entry.paths:
                if name not in users.setdefault(path, []):
                    users[path].append(name)
    return users, own, lost


def _look_at(ctx: Context, install: Install, named: str | None, owners: frozenset[int] | None) -> Looked:
    try:
        return verify_install(install, ctx.reporter, named=named, owners=owners, outside=True)
    except EnvmgrError as error:  # a manifest that cannot be read affects only its install
        return Looked((error.message, *error.context[:1]))


def _differ(count: int, of: str) -> str:
    return f"{count} {'differs from its' if count == 1 else 'differ from their'} {of}"
