"""What a signature stands for: that a generation is what was signed, and that `current` is where the last flip put it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envmgr.catalog.site_file import Signing
from envmgr.errors import EnvmgrError
from envmgr.modules.nodesetup import FLIP_STAMP
from envmgr.publish.flipfile import Flip, in_force, newest_first
from envmgr.publish.flips import came, told_records
from envmgr.publish.record import RECORD, SPECS
from envmgr.publish.signature import Signer, check_signature
from envmgr.publish.verify import verify_generation
from envmgr.store.prefix import Prefix
from envmgr.system.reading import FLIP, GENERATION, digest_of, read_bytes
from envmgr.system.run import Runner

FlipState = Literal["unsigned", "wrong", "unchecked", "replayed", "expired"]


@dataclass(frozen=True, slots=True)
class FlipFault:
    """What is wrong with the flip in force, or that there is none; `path` is relative to the prefix."""

    state: FlipState
    path: str
    found: str


def require_unchanged_generation(prefix: Prefix, number: int, signer: Signer, *, made_again: bool = False) -> None:
    """What is signed, or built upon by what is signed, must be what was published: by a signed flip where there is one.

    Of one that is `made_again` only that counts which a new one is made from: the record and the specs.

    Raises:
        EnvmgrError: `generation-changed`, with what is not as it was.
    """
    told = told_records(prefix)
    for flip in newest_first(prefix):
        if flip.record.generation == number and signer.judge(flip).state in ("signed", "expired"):
            told[number] = flip.record.record
            break
    looked = verify_generation(prefix, number, told, None)
    faults = [f for f in looked.faults if not made_again or f.path.split("/", 2)[-1] in (RECORD, SPECS)]
    if faults:
        raise EnvmgrError(
            "generation-changed", f"generation {number} is not what was published: it is not signed again",
            context=[f"{fault.path}: {fault.found}" for fault in faults[:10]],
            hint="find out who changed it; `envmgr verify --repair` publishes the same entries as a new generation",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FlipLook:
    """The flip in force, as it was found: its number, None where there is none; who signed it; what is wrong."""

    sequence: int | None
    who: str
    faults: tuple[FlipFault, ...]


def look_at_flip(prefix: Prefix, number: int, signing: Signing, runner: Runner, *, seen: int = 0) -> FlipLook:
    """The flip that made generation `number`, which is `current`'s, current. `seen` is the highest sequence number that this host ever
    checked.
    """
    force = in_force(prefix, number)
    if force is None:
        return FlipLook(None, "", (FlipFault("unsigned", "current", f"no flip made generation {number} current"),))
    who, faults = "", list[FlipFault]()
    where = str(force.path.relative_to(prefix.root))
    try:
        found = check_signature(force, signing, runner)
        who = found.who
        if found.state != "signed":
            faults.append(FlipFault(found.state, f"{where}.sig", found.reason))
    except EnvmgrError as error:
        faults.append(FlipFault("wrong", f"{where}.sig", error.message))
    try:
        digest = digest_of(prefix.generation(number) / RECORD, GENERATION)
    except (OSError, EnvmgrError):
        digest = ""
    if digest != force.record.record:
        faults.append(FlipFault("wrong", where, f"it names another generations/{number:04d}/{RECORD} than lies there"))
    faults += _order(prefix, force, where, seen)
    if signing.expires_days is not None and (age := _age_in_days(force)) > signing.expires_days:
        words = f"it is {age:.0f} days old; signing.expires_days is {signing.expires_days:g}"
        faults.append(FlipFault("expired", where, words))
    return FlipLook(force.record.sequence, who, tuple(faults))


def _order(prefix: Prefix, force: Flip, where: str, seen: int) -> Iterator[FlipFault]:
    ours = force.record.sequence
    came_after = [sequence for sequence in sorted(came(prefix)) if sequence > ours]
    if ours < seen:
        yield FlipFault("replayed", where, f"flip {ours} is in force, and this host has seen flip {seen}")
    elif came_after:
        yield FlipFault("replayed", where, f"flip {ours} is in force, and flip {came_after[-1]} came after it")


def seen_here(prefix: Prefix) -> int:
    """The highest sequence number that root's check on this machine ever saw signed; 0 where none runs here."""
    with suppress(OSError, EnvmgrError, ValueError):
        lines = read_bytes(Path(FLIP_STAMP), FLIP).decode().splitlines()
        if lines[3:4] == [str(prefix.root)]:
            return int(lines[2])
    return 0


def mend_of(state: str) -> str:
    """What is done about a flip in that state."""
    match state:
        case "unsigned":
            return "is what is current what you published? `envmgr verify` tells; then `envmgr sign`"
        case "expired":
            return "`envmgr sign` signs it anew"
        case "unchecked":
            return "see what the reason says; then audit again"
        case "replayed":
            return "someone moved `current` back: find out who; `envmgr rollback NUMBER` makes the right one current, signed"
        case _:
            return (
                "someone changed what was signed: find out who, and by `envmgr verify` what; where the generation is as it was published, "
                "`envmgr sign` signs it; else `envmgr verify --repair` publishes the same entries anew"
            )


def _age_in_days(flip: Flip) -> float:
    made = datetime.datetime.fromisoformat(flip.record.date)
    return (datetime.datetime.now(datetime.UTC) - made).total_seconds() / 86400
