"""What a signature stands for: that a generation is what was signed, and that `current` is where the last flip put it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from envmgr.catalog.site_file import Signing
from envmgr.errors import EnvmgrError
from envmgr.publish.flipfile import Flip, in_force, newest_first
from envmgr.publish.flips import came, told_records
from envmgr.publish.record import RECORD
from envmgr.publish.signature import Signer, check_signature
from envmgr.publish.verify import verify_generation
from envmgr.store.prefix import Prefix
from envmgr.system.reading import GENERATION, digest_of
from envmgr.system.run import Runner

FlipState = Literal["unsigned", "wrong", "unchecked", "replayed", "expired"]


@dataclass(frozen=True, slots=True)
class FlipFault:
    """What is wrong with the flip in force, or that there is none; `path` is relative to the prefix."""

    state: FlipState
    path: str
    found: str


def require_unchanged_generation(prefix: Prefix, number: int, signer: Signer) -> None:
    """What is signed, or built upon by what is signed, must be what was published: by a signed flip where there is one.

    Raises:
        EnvmgrError: `generation-changed`, with what is not as it was.
    """
    told = told_records(prefix)
    for flip in newest_first(prefix):
        if flip.record.generation == number and signer.judge(flip).state in ("signed", "expired"):
            told[number] = flip.record.record
            break
    looked = verify_generation(prefix, number, told, None)
    if looked.faults:
        raise EnvmgrError(
            "generation-changed", f"generation {number} is not what was published: it is not signed again",
            context=[f"{fault.path}: {fault.found}" for fault in looked.faults[:10]],
            hint="find out who changed it; `envmgr verify --repair` publishes the same entries as a new generation",
        )  # fmt: skip


def flip_faults(prefix: Prefix, number: int, signing: Signing, runner: Runner, *, seen: int = 0) -> Iterator[FlipFault]:
    """What is wrong with the flip that made generation `number`, which is `current`'s, current. `seen` is the highest sequence number
    that this host ever checked.
    """
    force = in_force(prefix, number)
    if force is None:
        yield FlipFault("unsigned", "current", f"no flip made generation {number} current")
        return
    where = str(force.path.relative_to(prefix.root))
    signed = _signed(force, signing, runner)
    if signed is not None:
        yield FlipFault(signed.state, where, signed.found)
    try:
        digest = digest_of(prefix.generation(number) / RECORD, GENERATION)
    except (OSError, EnvmgrError):
        digest = ""
    if digest != force.record.record:
        yield FlipFault(
            "wrong", where, f"it is of another generations/{number:04d}/{RECORD} than the one that lies there"
        )
    later = [flip for flip in newest_first(prefix) if flip.record.sequence > force.record.sequence]
    if force.record.sequence < seen:
        yield FlipFault(
            "replayed", where, f"flip {force.record.sequence} is in force, and this host has seen flip {seen}"
        )
    elif came_later := [flip.record.sequence for flip in later if flip.record.sequence in came(prefix)]:
        yield FlipFault(
            "replayed", where, f"flip {force.record.sequence} is in force, and flip {came_later[0]} came after it"
        )
    if signing.expires_days is not None and (age := _age_in_days(force)) > signing.expires_days:
        yield FlipFault("expired", where, f"it is {age:.0f} days old; signing.expires_days is {signing.expires_days:g}")


def _signed(flip: Flip, signing: Signing, runner: Runner) -> FlipFault | None:
    where = str(flip.signature_path.name)
    try:
        found = check_signature(flip, signing, runner)
    except EnvmgrError as error:
        return FlipFault("wrong", where, error.message)
    return None if found.state == "signed" else FlipFault(found.state, where, found.reason)


def _age_in_days(flip: Flip) -> float:
    made = datetime.datetime.fromisoformat(flip.record.date)
    return (datetime.datetime.now(datetime.UTC) - made).total_seconds() / 86400
