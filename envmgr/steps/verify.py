"""The look at what is published: `current`, generations with their records, installs with their manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from envmgr.errors import EnvmgrError, InputError
from envmgr.publish.candidates import read_candidate, signature_faults, told_candidates
from envmgr.publish.flip_checks import last_signed, look_at_current_flip
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
from envmgr.steps import Context, published_record, require_published, trusted_owners
from envmgr.steps.verify_result import PrefixLook
from envmgr.store.image import has_image, image_faults
from envmgr.store.prefix import Install, Prefix, installs
from envmgr.store.verify import Looked, verify_install


@dataclass(frozen=True, slots=True)
class VerifyWhat:
    """The scope of `verify`: `names` are entries, none for all; `generations` are numbers, none for the current one.

    `everything` is all that exists.
    """

    names: tuple[str, ...] = ()
    generations: tuple[int, ...] = ()
    everything: bool = False


_INSTALL = "an install never changes: find the cause"


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
    unused = (path for path, each in found.installs.items() if each.wrong and path not in found.users)
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
    users, own = _users(looked, what)
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
    checked = tuple(dict.fromkeys(what.names)) if what.names else tuple(entries)
    hints = {path: _hint(ctx, path, users.get(path, ())) for path, each in seen.items() if each.wrong}
    faults = tuple(current_faults(prefix))
    signing = ctx.site.signing
    flip = None if signing is None else look_at_current_flip(prefix, signing, ctx.runner)
    return PrefixLook(
        checked,
        faults,
        looked,
        users,
        seen,
        own,
        known_current(prefix),
        hints,
        None if flip is None else flip[1],
        _way_back(ctx, faults, looked, recorded, owners),
        lost_lines(prefix),
        images,
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


def _users(looked: Mapping[int, LookedAt], what: VerifyWhat) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return install -> the entries that use it, and entry -> its own install."""
    users: dict[str, list[str]] = {}
    own: dict[str, str] = {}
    for record in (each.record for each in looked.values() if each.record is not None):
        if what.names:
            require_published(what.names, record)
        for name in what.names or sorted(record.entries):
            entry = record.entries[name]
            own.setdefault(name, entry.path)
            for path in entry.paths:
                if name not in users.setdefault(path, []):
                    users[path].append(name)
    return users, own


def _look_at(ctx: Context, install: Install, named: str | None, owners: frozenset[int] | None) -> Looked:
    try:
        return verify_install(install, ctx.reporter, named=named, owners=owners, outside=True)
    except EnvmgrError as error:  # a manifest that cannot be read affects only its install
        return Looked((error.message, *error.context[:1]))
