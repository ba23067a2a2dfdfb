"""The promise of a signature: that a generation is what was signed, and that `current` is where the last flip put
it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from envmgr.catalog.site_file import Signing
from envmgr.errors import EnvmgrError
from envmgr.modules.node_paths import FLIP_STAMP
from envmgr.publish import flipfile
from envmgr.publish.flips import came, known_current, seen_here, why_not_seen
from envmgr.publish.records import RECORD, complete_numbers
from envmgr.publish.signature import KeySigner, Signer, State
from envmgr.report import Severity
from envmgr.store.prefix import Prefix
from envmgr.system.pulse import renew_listing
from envmgr.system.run import Runner
from envmgr.system.untrusted_files import GENERATION, digest_of

FlipState = State | Literal["replayed", "gap"]
Gap = tuple[int, int]
"""The first and the last of numbers in a row that have no file."""

_ACCEPTS = "sign, without flip "
_MOST_GAPS = 1000  # that one flip accepts: its file stays small


@dataclass(frozen=True, slots=True)
class FlipFault:
    """A fault of the flip in force, or that there is none; `path` is relative to the prefix.

    `right` is, for a replay, the generation that the newest signed flip names, if it is known and there.
    """

    state: FlipState
    path: str
    found: str
    right: int | None = None


def signed_before(prefix: Prefix) -> bool:
    """Return whether this site ever signed a flip, as far as the prefix or this machine's own check shows."""
    return seen_here(prefix) > 0 or flipfile.has_signatures(prefix)


@dataclass(frozen=True, slots=True)
class FlipLook:
    """The flip in force, as it was found: its number, None if there is none; its signer; its fault."""

    sequence: int | None
    who: str
    faults: tuple[FlipFault, ...]


def look_at_current_flip(prefix: Prefix, signing: Signing, runner: Runner) -> tuple[int, FlipLook] | None:
    """Return what `current` names, and the flip that made it so; None if it is damaged, or nothing was published.

    The flips, their links, `current` and the history are read one after the other, and a publish may change them one
    after the other: a fault counts only if all of them are the same before and after, also by a list that NFS has
    renewed.
    """
    while True:
        before = read_flip_state(prefix)
        if before[0] is None:
            return None
        look = _look(prefix, before[0], KeySigner(signing, runner))
        if why := why_not_seen(prefix):
            forgot = FlipFault("unchecked", FLIP_STAMP, f"what this host has seen cannot be read: {why}")
            look = replace(look, faults=(*look.faults, forgot))
        if look.faults:
            renew_listing(prefix.root)
            renew_listing(prefix.flips)
        if not look.faults or read_flip_state(prefix) == before:
            return before[0], look


def read_flip_state(prefix: Prefix) -> tuple[int | None, list[int], list[int], list[str], frozenset[int], int]:
    """Return everything on which a look is based. A flip that was withdrawn meanwhile leaves its number taken."""
    return (
        known_current(prefix),
        flipfile.sequences(prefix),
        flipfile.numbers_taken(prefix),
        flipfile.links(prefix),
        came(prefix),
        seen_here(prefix),
    )


def _look(prefix: Prefix, number: int, signer: KeySigner) -> FlipLook:
    """Return the flip that made generation `number`, which is `current`'s, current."""
    force = flipfile.in_force(prefix, number)
    newest = newest_signed(prefix, signer, after=0 if force is None else force.record.sequence)
    replays = [*find_replays(prefix, number, force, newest)]
    if force is None:
        unsigned = FlipFault("unsigned", "current", f"no flip made generation {number} current")
        return FlipLook(None, "", tuple(replays) or (unsigned,))
    who, faults = "", list[FlipFault]()
    where = str(force.path.relative_to(prefix.root))
    try:
        found = signer.judge(force)
        who = found.who
        if found.state != "signed":
            faults.append(FlipFault(found.state, f"{where}.sig", found.reason))
    except EnvmgrError as error:
        faults.append(FlipFault("wrong", f"{where}.sig", error.message))
    try:
        digest = digest_of(prefix.generation(number) / RECORD, GENERATION)
    except (OSError, EnvmgrError):
        # No flip has an empty digest: a record that cannot be read counts as another one.
        digest = ""
    if digest != force.record.record:
        faults.append(FlipFault("wrong", where, f"it names another generations/{number:04d}/{RECORD} than lies there"))
    faults += replays
    if open_gaps := gaps(prefix, signer):
        faults.append(
            FlipFault("gap", "flips", f"there is no flip {_shown(open_gaps[:5])}{', …' if len(open_gaps) > 5 else ''}")
        )
    most = signer.signing.expires_days
    made = datetime.datetime.fromisoformat(force.record.date)
    age = (datetime.datetime.now(datetime.UTC) - made).total_seconds() / 86400  # days
    if most is not None and age > most:
        words = f"it is {age:.0f} days old; signing.expires_days is {most:g}"
        faults.append(FlipFault("expired", where, words))
    return FlipLook(force.record.sequence, who, tuple(faults))


def find_replays(
    prefix: Prefix, number: int, force: flipfile.Flip | None, newest: flipfile.Flip | None
) -> Iterator[FlipFault]:
    """Yield at most one replay. `force` is what made generation `number` current; `newest` a newer flip that someone
    signed who may.

    If nothing made it current, only `newest` shows a replay: the others may be lost.
    """
    right = None if newest is None else newest.record.generation
    # A hint to roll back to a generation that `gc` removed would lead nowhere.
    right = right if right in complete_numbers(prefix) else None
    if force is not None:
        where, ours = str(force.path.relative_to(prefix.root)), force.record.sequence
        seen, last = seen_here(prefix), max(came(prefix), default=0)
        if ours < seen:
            yield FlipFault("replayed", where, f"flip {ours} is in force, and this host has seen flip {seen}", right)
            return
        if ours < last:
            yield FlipFault("replayed", where, f"flip {ours} is in force, and flip {last} came after it", right)
            return
    if newest is None or (newest.record.before == number and flipfile.is_pending(prefix, newest.record.sequence)):
        return  # a run is about to make it follow this one
    signed = f"flip {newest.record.sequence} of generation {newest.record.generation} is signed"
    if force is not None:
        yield FlipFault("replayed", where, f"flip {ours} is in force, and {signed}", right)
    else:
        yield FlipFault(
            "replayed", "current", f"no flip made generation {number} current (was its flip lost?), and {signed}", right
        )


def newest_signed(prefix: Prefix, signer: Signer, *, after: int = 0) -> flipfile.Flip | None:
    """Return the flip with the highest number above `after` that an allowed key signed, in force or not."""
    for flip in flipfile.newest_first(prefix):
        if flip.record.sequence <= after:
            return None
        if _is_signed(flip, signer):
            return flip
    return None


def last_signed(prefix: Prefix, signer: Signer | None) -> int | None:
    """Return the generation of the newest signed flip, if the history does not have that flip and it is not pending: it
    came, and its line was taken away. Otherwise None.
    """
    if signer is None:
        return None
    newest = newest_signed(prefix, signer, after=max(came(prefix), default=0))
    return None if newest is None or flipfile.is_pending(prefix, newest.record.sequence) else newest.record.generation


def highest_signed(prefix: Prefix, signer: Signer) -> int:
    """Return the floor that node-setup leaves on nodes: they accept no flip before it; 0 if nothing was signed."""
    newest = newest_signed(prefix, signer)
    return max(seen_here(prefix), 0 if newest is None else newest.record.sequence)


def gaps(prefix: Prefix, signer: Signer) -> list[Gap]:
    """Return the numbers without a file, above the lowest that has one, that no signed flip says are lost: a withdrawn
    flip keeps its own file, and nothing in envmgr removes one.
    """
    taken = flipfile.numbers_taken(prefix)
    missing = [(low + 1, high - 1) for low, high in pairwise(taken) if high - low > 1]
    # Without gaps no signature is checked: each check starts ssh-keygen.
    if not missing:
        return []
    accepted = list[Gap]()
    for flip in flipfile.newest_first(prefix):
        if (told := _accepted(flip.record)) and _is_signed(flip, signer):
            # A flip accepts only losses below its own number, so that a later loss is still found.
            accepted += [(low, high) for low, high in told if high < flip.record.sequence]
    return [(low, high) for low, high in missing if not any(a <= low and high <= b for a, b in accepted)]


def accepting(lost: Sequence[Gap]) -> str:
    """Return the reason of a signed flip that says that these numbers are lost; of very many, the first ones."""
    return f"{_ACCEPTS}{_shown(lost[:_MOST_GAPS])}" if lost else "sign"


def _accepted(record: flipfile.FlipRecord) -> list[Gap]:
    if record.action != "sign" or not record.reason.startswith(_ACCEPTS):
        return []
    given = record.reason.removeprefix(_ACCEPTS).split(", ")
    found = (re.fullmatch(r"([0-9]{1,12})(?: to ([0-9]{1,12}))?", each) for each in given)
    return [(int(each[1]), int(each[2] or each[1])) for each in found if each]


def _is_signed(flip: flipfile.Flip, signer: Signer) -> bool:
    with suppress(EnvmgrError):
        return signer.judge(flip).state in ("signed", "expired")
    return False


def _shown(lost: Sequence[Gap]) -> str:
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in lost)


def severity_of(state: str) -> Severity:
    """Return the severity of a finding about a flip in that state."""
    return "warning" if state in ("expired", "unchecked", "gap") else "error"


def mend_of(state: str, beside: Collection[str] = (), right: int | None = None) -> str:
    """Return what to do about a flip in that state (`right`: see `FlipFault`). While a replay is in force nothing is
    signed: repair that first.
    """
    if "replayed" in beside and state in ("unsigned", "wrong", "expired", "stale"):
        state = "replayed"
    match state:
        case "unsigned":
            return "check with `envmgr verify` that what is current is what you published; then run `envmgr sign`"
        case "expired" | "stale":
            return "`envmgr sign` signs it again"
        case "gap":
            return (
                "someone took flips away: find out who; where a backup has them, put them back; where nothing has "
                "them, `envmgr sign --accept-gap` records that, signed"
            )
        case "unchecked":
            return "see what the reason says; then audit again"
        case "replayed":
            number = "NUMBER" if right is None else right
            return (
                f"someone moved `current` back: find out who; `envmgr rollback {number}` makes the right one "
                "current, signed"
            )
        case _:
            return (
                "its key was taken out of the list, or someone changed what was signed: find out who, and by "
                "`envmgr verify` what; where the generation is as it was published, `envmgr sign` signs it; else "
                "`envmgr publish` publishes the same entries again"
            )
