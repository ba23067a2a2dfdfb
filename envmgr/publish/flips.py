"""The flip: its file and signature, one rename that makes a generation current, a line in the history."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envmgr.errors import EnvmgrError
from envmgr.modules.node_paths import FLIP_STAMP
from envmgr.publish import flipfile
from envmgr.publish.records import RECORD, complete_numbers, current_number
from envmgr.publish.signature import Signer, require_allowed
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.files import atomic_write, clear_temporaries, explain_os_error, sync_folder
from envmgr.system.models import require_format
from envmgr.system.pulse import renew_listing
from envmgr.system.untrusted_files import FLIP, GENERATION, HISTORY, append_line, digest_of, read_bytes, why_unreadable
from envmgr.system.usernames import own_name
from envmgr.wording import utc_now


def seen_here(prefix: Prefix) -> int:
    """Return the highest sequence number that was ever seen signed here; 0 if there is no record, or it cannot be
    read.
    """
    return _read(prefix)[0]


def why_not_seen(prefix: Prefix) -> str:
    """Return why what was seen here cannot be read; empty if it can be, and if nothing looks."""
    return _read(prefix)[1]


def _read(prefix: Prefix) -> tuple[int, str]:
    try:
        lines = read_bytes(Path(FLIP_STAMP), FLIP).decode().split("\n")
        # A host may have used another prefix before: that prefix's numbers say nothing about this one.
        if lines[3] != str(prefix.root):
            return 0, ""
        highest = int(lines[2])
    except FileNotFoundError:
        return 0, ""
    except IndexError:
        return 0, "it is cut"
    except (OSError, EnvmgrError, ValueError) as error:
        return 0, why_unreadable(error)
    # A number above MOST would leave none for the next flip, which counts up from what was seen here.
    return (highest, "") if 0 <= highest <= flipfile.MOST else (0, f"no flip has the number {highest}")


FORMAT = 1
"""The number of the format of the history's lines; another one is refused."""


def flip(
    prefix: Prefix,
    number: int,
    before: int | None,
    reason: str,
    reporter: Reporter,
    *,
    action: flipfile.Action,
    signer: Signer | None,
    record: str | None = None,
    known: Collection[int] | None = None,
) -> int:
    """Make generation `number` current and write it down; return the flip's sequence number. Only under `publishing`.

    `before` is what was current. The flip is written, and signed if there is a `signer`, before `current` changes.
    `record` is the sha256 of the generation's record, if the caller has written or verified it. `known` is what
    `publishing` gave: the flips that existed when `before` was read.

    Raises:
        OvertakenError: another host's run has made a flip, or took this one for a dead run's.
        EnvmgrError: `not-signed`, `disk-full`, …; `current` is then untouched, and nothing is left, or the flip
            withdrawn.
    """
    path = prefix.generation(number) / RECORD
    known = flipfile.sequences(prefix) if known is None else known
    with explain_os_error(path):
        digest = record or digest_of(path, GENERATION)
    draft = flipfile.FlipRecord(
        sequence=_next_number(prefix),
        generation=number,
        record=digest,
        date=utc_now(),
        action=action,
        before=before,
        reason=reason,
        user=own_name(),
        host=socket.gethostname(),
    )
    # Written before `current` changes: a node that sees the new generation must find the flip that allows it.
    made = flipfile.write_flip(prefix, draft, known, None if signer is None else _Signing(signer, reporter))
    try:
        _rename(prefix, made)
    except BaseException:
        # A flip of `sign` names what is current already: `current` does not show whether that flip came.
        if known_current(prefix) != number or number == before:  # a signal may come when it is done
            with suppress(EnvmgrError):
                flipfile.withdraw(prefix, made.record.sequence)
        raise
    # From here on the flip is done: no error may be reported as its failure.
    try:
        sync_folder(prefix.current.parent)
    except OSError as error:
        reporter.say(
            f"warning: generation {number} is current; that it stays so after a crash of the host could not be "
            f"made sure: {error.strerror}"
        )
    _write_down(prefix, made.record, reporter)
    return made.record.sequence


def _rename(prefix: Prefix, made: flipfile.Flip) -> None:
    """Make the flip current, in one step. Without its link, which a withdrawing run removes, the flip does not
    happen.
    """
    pending = flipfile.pending_link(prefix, made.record.sequence)
    # gc on a host with locks of its own may have removed it since it was completed.
    if not (prefix.generation(made.record.generation) / RECORD).is_file():
        raise flipfile.OvertakenError(f"generation {made.record.generation} was removed")
    with explain_os_error(prefix.current):
        try:
            pending.replace(prefix.current)
        except FileNotFoundError:
            withdrawn = made.path.with_suffix(".withdrawn").exists()
            if known_current(prefix) == made.record.generation and not withdrawn:
                return  # the server was asked twice, and had done it
            if withdrawn or made.path.exists():  # the mount is there
                raise flipfile.OvertakenError(
                    f"flip {made.record.sequence} was withdrawn, as this run stood still"
                ) from None
            raise


@dataclass(frozen=True, slots=True)
class _Signing:
    signer: Signer
    reporter: Reporter

    def sign(self, content: bytes) -> bytes:
        return self.signer.sign(content, self.reporter)

    def judge(self, made: flipfile.Flip) -> None:
        require_allowed(made, self.signer)


def settle(prefix: Prefix, reporter: Reporter) -> frozenset[int]:
    """Settle what a killed run left, and return the numbers of the flips that stay. Only under `publishing`.

    A flip that never came is withdrawn; one that came gets its line in the history. Links that were not renamed are
    stopped first: from then on a run that only stood still makes nothing current.
    """
    # An old list of NFS could hide a flip or a link that another host has just made.
    for folder in (prefix.root, prefix.flips):
        renew_listing(folder)
        clear_temporaries(folder)
    # A run that stands still may go on in the middle of this: its rename must fail then.
    flipfile.stop_all(prefix)
    flipfile.withdraw_lone_signatures(prefix)
    stay = {*flipfile.sequences(prefix)}
    told = _told(prefix)
    # Nothing is withdrawn on a guess: a flip that came would be lost for good.
    if told is None:  # nothing says what came
        return frozenset(stay)
    current = known_current(prefix)
    force = None if current is None else flipfile.in_force(prefix, current)
    # A kill between the rename and the history leaves only the line missing.
    if force is not None and force.record.sequence not in told:
        _write_down(prefix, force.record, reporter)
    done = 0 if force is None else force.record.sequence
    last = max(told, default=0)
    if told.get(last) == current:  # by the history; its own flip may be lost
        done = max(done, last)
    for sequence in sorted(stay):
        if sequence <= done:
            continue
        if sequence not in told and _never_came(prefix, sequence, current, told):
            flipfile.withdraw(prefix, sequence)
            stay.discard(sequence)
            reporter.log(f"flip {sequence} was written and never came: it is withdrawn")
        # If locks are not shared, another host may flip during this run: then the warning would be wrong.
        elif current is not None and known_current(prefix) == current:
            reporter.say(_moved(sequence, current, told))
    flipfile.clear_stopped(prefix, stay)
    return frozenset(stay)


def _never_came(prefix: Prefix, sequence: int, current: int | None, told: Mapping[int, int]) -> bool:
    """Return whether the run that wrote it was killed before the rename, so that its link still exists.

    For a signed flip nothing else shows it: a user who moves `current` back can also remove its line from the history.
    The flip itself says what it was to follow.
    """
    stopped = flipfile.stop(prefix, sequence)
    if not os.path.lexists(f"{flipfile.flip_path(prefix, sequence)}.sig"):
        return stopped or current is not None
    last = told.get(max(told, default=0)) if current is None else current
    try:
        return stopped and flipfile.read_flip(prefix, sequence).record.before == last
    except EnvmgrError:
        return stopped


def _moved(sequence: int, current: int, told: Mapping[int, int]) -> str:
    if sequence in told:
        found = f"flip {sequence} made {told[sequence]} current"
        return f"warning: `current` names generation {current}, and {found}: something else than envmgr moved it"
    found = f"flip {sequence} is newer and signed: something else than envmgr moved `current`, or wrote the flip"
    return f"warning: `current` names generation {current}, and {found}"


def lost_lines(prefix: Prefix) -> str:
    """Return what the history has lost, in words; empty if nothing. The newest flip's line may be about to be
    written.
    """
    current = known_current(prefix)
    if current is None:
        return ""
    force, told = flipfile.in_force(prefix, current), _told(prefix) or {}
    newest = 0 if force is None else force.record.sequence
    if lost := [n for n in flipfile.sequences(prefix) if n < newest and n not in told]:
        return f"has no line of {'flip' if len(lost) == 1 else 'flips'} {', '.join(map(str, lost))}"
    with suppress(OSError):
        if prefix.history.stat().st_size == 0:
            return "is empty"
    return "" if flips(prefix) else "has no line, and there is no flip"


def write_history_again(prefix: Prefix, reporter: Reporter, signer: Signer | None) -> None:
    """Write the history from the flips' files; if these are lost, too, by a new flip to what is current. Only under
    `publishing`.
    """
    if rows := flips(prefix):
        atomic_write(prefix.history, "".join(f"{_line(row)}\n" for row in rows))
        return
    number = current_number(prefix)
    if number is not None:
        flip(prefix, number, number, f"rollback to {number}", reporter, action="rollback", signer=signer)


def came(prefix: Prefix) -> frozenset[int]:
    """Return the sequence numbers of flips that made their generation current, according to the history."""
    return frozenset(_told(prefix) or ())


def _next_number(prefix: Prefix) -> int:
    # A lost file must not free its number: a host that saw a higher one reports the new flip as a replay.
    return max([*flipfile.numbers_taken(prefix), *(_told(prefix) or ()), seen_here(prefix)], default=0) + 1


def _told(prefix: Prefix) -> dict[int, int] | None:
    """Return sequence -> generation of the flips that came, by the history; None for a history that cannot be read.

    Raise EnvmgrError `format-unknown`: a line in this format must not follow those of another one.
    """
    try:
        return {row["sequence"]: row["to"] for row in _history(prefix) if 0 < row["sequence"] <= flipfile.MOST}
    except OSError:
        return None
    except EnvmgrError as error:
        if error.reference == "format-unknown":
            raise
        return None


def _write_down(prefix: Prefix, record: flipfile.FlipRecord, reporter: Reporter) -> None:
    try:
        append_line(prefix.history, _line(_row(record)))  # the last one may be cut, by a full disk or a kill
    except (OSError, EnvmgrError) as error:
        # `current` has changed already: an error would report a publish that worked as a failure.
        why = error.message if isinstance(error, EnvmgrError) else error.strerror
        reporter.say(
            f"warning: generation {record.generation} is current, but {prefix.history} could not be written: {why}"
        )


def _line(row: Mapping[str, object]) -> str:
    return json.dumps({"schema": FORMAT, **row})


def _row(record: flipfile.FlipRecord) -> dict[str, object]:
    return {
        "time": record.date,
        "user": record.user,
        "host": record.host,
        "from": record.before,
        "to": record.generation,
        "reason": record.reason,
        "sequence": record.sequence,
        **({"record": record.record} if record.action == "publish" else {}),
    }


def known_current(prefix: Prefix) -> int | None:
    """Return `current_number`, or None if `current` is damaged."""
    try:
        return current_number(prefix)
    except EnvmgrError:
        return None


def last_current(prefix: Prefix) -> int | None:
    """Return what `current` names, or named before it was damaged; None before the first publish."""
    number = known_current(prefix)
    if number is None:
        number = next((int(f["to"]) for f in reversed(flips(prefix))), None)
    return number if number is not None else max(complete_numbers(prefix, candidates=False), default=None)


def once_current(prefix: Prefix) -> set[int]:
    """Return the generations that flips made current; if the history cannot be read, those that the flips' own files
    name.
    """
    with suppress(OSError, EnvmgrError):
        return {int(row["to"]) for row in flips(prefix)}
    return {made.record.generation for made in flipfile.newest_first(prefix)}


def told_records(prefix: Prefix) -> dict[int, str]:
    """Return generation -> sha256 of its record, as its publish wrote it down; later lines cannot change that."""
    found: dict[int, str] = {}
    for row in flips(prefix):
        if isinstance(row.get("record"), str):
            # The first line counts: a later one, which anybody with write access can add, must not change what was
            # published.
            found.setdefault(row["to"], row["record"])
    return found


def flips(prefix: Prefix) -> list[dict[str, Any]]:
    """Return every publish and rollback, oldest first: `{time, user, host, from, to, reason, sequence}`, for a publish
    with the sha256 of its record (`record`).

    Lines that were cut are left out; what a kill kept from the history is taken from the flips' own files.

    Raises:
        InputError: `file-irregular`, `file-too-large`; EnvmgrError: `format-unknown` for a line that a later envmgr
            wrote.
    """
    rows = _history(prefix)
    told = {row["sequence"] for row in rows}
    # The usual case reads one file; flips are read one by one only where the history lacks some.
    if told.issuperset(flipfile.sequences(prefix)):
        return rows
    force = flipfile.in_force(prefix, known_current(prefix))
    for made in flipfile.newest_first(prefix):
        sequence = made.record.sequence
        # A flip above the one in force may still wait for its rename: it is not history yet.
        if sequence not in told and force is not None and sequence <= force.record.sequence:
            later = (i for i, row in enumerate(rows) if row["sequence"] > sequence)
            rows.insert(next(later, len(rows)), _row(made.record))
    return rows


def _history(prefix: Prefix) -> list[dict[str, Any]]:
    found = []
    with suppress(FileNotFoundError):
        # `replace`: one line with damaged bytes must not hide all the others.
        for line in read_bytes(prefix.history, HISTORY).decode(errors="replace").split("\n"):
            with suppress(ValueError, RecursionError):
                # A kill or a full disk cuts lines: one that cannot be read says nothing of the others.
                row = json.loads(line)
                if isinstance(row, dict) and isinstance(row.get("to"), int):
                    require_format(row, FORMAT, prefix.history)
                    if isinstance(row.get("sequence"), int):
                        found.append({key: value for key, value in row.items() if key != "schema"})
    return found
