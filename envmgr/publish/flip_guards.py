"""The conditions under which a run makes, signs or removes something where flips are signed: no replay, a good flip,
a generation as it was published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envmgr.errors import EnvmgrError
from envmgr.publish.flip_checks import FlipFault, find_replays, mend_of, newest_signed, read_flip_state, signed_before
from envmgr.publish.flipfile import in_force, newest_first
from envmgr.publish.flips import known_current, told_records
from envmgr.publish.records import RECORD, SPECS, start_over, way_back
from envmgr.publish.signature import Signer
from envmgr.publish.verify import LookedAt, newest_whole, verify_generation
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.pulse import renew_listing


def require_unchanged_generation(
    prefix: Prefix, number: int, signer: Signer, reporter: Reporter, *, made_again: bool = False
) -> str | None:
    """Require that what is signed, or built upon by what is signed, is what was published: by a signed flip if there is
    one, else by the history.

    Return the sha256 of its record; None if nothing names it. If it is `made_again`, only the parts count from which a
    new one is made: the record and the specs. If nothing names it on a site that has signed before, that is a warning.

    Raises:
        EnvmgrError: `generation-changed`, with what is not as it was.
    """
    # A signed flip outranks the history, to which any user with write access can add lines.
    told = told_records(prefix)
    for flip in newest_first(prefix):
        if flip.record.generation == number and signer.judge(flip).state in ("signed", "expired"):
            told[number] = flip.record.record
            break
    looked = verify_generation(prefix, number, told, None)
    faults = [
        f"{f.path}: {f.found}" for f in looked.faults if not made_again or f.path.split("/", 2)[-1] in (RECORD, SPECS)
    ]
    if faults:
        raise EnvmgrError(
            "generation-changed",
            f"generation {number} is not what was published: it is not signed again",
            context=faults[:10],
            hint=f"find out who changed it; {_instead(prefix, looked, told)}",
        )
    if number not in told and signed_before(prefix):
        reporter.say(
            f"warning: nothing tells that generation {number} is what was published: there is no signed flip of "
            "it, and no history"
        )
    return told.get(number)


def _instead(prefix: Prefix, looked: LookedAt, told: Mapping[int, str]) -> str:
    """Return what leads on from a generation that was changed."""
    if looked.number == known_current(prefix) and looked.can_be_made_again:
        return "`envmgr publish` makes a new one with the same entries"
    whole = newest_whole(prefix, told, None)
    return start_over(prefix) if whole is None else way_back(prefix, whole)


def require_good_flip(prefix: Prefix, number: int, signer: Signer) -> None:
    """Require that the generation which a signed one is made from is in force by a good flip itself, once the site has
    signed one: otherwise a publish would make right what nodes refuse.

    Raises:
        EnvmgrError: `flip-untrusted`.
    """
    if not signed_before(prefix):
        return
    require_not_replayed(prefix, signer)
    force = in_force(prefix, number)
    fault = FlipFault("unsigned", "current", f"no flip made generation {number} current")
    if force is not None:
        found = signer.judge(force)
        # An expired key was valid when it signed, so the flip still names what was published.
        if found.state in ("signed", "expired"):
            return
        fault = FlipFault(found.state, f"{force.path.relative_to(prefix.root)}.sig", found.reason)
    raise _untrusted(number, fault, _MADE, mend_of(fault.state))


_MADE = "nothing is made from it"


def _untrusted(number: int, fault: FlipFault, what: str, hint: str) -> EnvmgrError:
    return EnvmgrError(
        "flip-untrusted",
        f"generation {number} is current by a flip that is {fault.state}: {what}",
        context=f"{fault.path}: {fault.found}",
        hint=hint,
    )


@dataclass(frozen=True, slots=True)
class Replay:
    """Someone moved `current` back, to generation `number`. `right` is the one that the newest signed flip names; None
    if that is unknown, or gone.
    """

    number: int
    fault: FlipFault
    right: int | None

    def error(self, what: str) -> EnvmgrError:
        """Return the error. `what` says what is not done."""
        return _untrusted(self.number, self.fault, what, mend_of("replayed", right=self.right))


def require_not_replayed(prefix: Prefix, signer: Signer | None, what: str = _MADE) -> None:
    """Require that no flip was replayed; no command may repair a replay or remove the evidence of it.

    Raises:
        EnvmgrError: `flip-untrusted` if someone moved `current` back.
    """
    if signer is not None and (replay := find_replay(prefix, signer)) is not None:
        raise replay.error(what)


def find_replay(prefix: Prefix, signer: Signer) -> Replay | None:
    """Return the replay; None if `current` is where the newest signed flip put it, or is damaged. See
    `look_at_current_flip`.
    """
    while True:
        before = read_flip_state(prefix)
        number = before[0]
        if number is None:
            return None
        force = in_force(prefix, number)
        newest = newest_signed(prefix, signer, after=0 if force is None else force.record.sequence)
        fault = next(find_replays(prefix, number, force, newest), None)
        if fault is None:
            return None
        renew_listing(prefix.root)
        renew_listing(prefix.flips)
        if read_flip_state(prefix) == before:
            return Replay(number, fault, fault.right)
