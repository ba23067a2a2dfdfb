"""Candidates: complete generations that are not current, for tests on real nodes, and for volunteers.

`candidates/0043.json` marks generation 43 as one, with `.json.sig` beside it if the site signs. It is written before the
generation's record, and removed after the flip that makes the generation current. `candidate` is a link to the newest.
A marker has no sequence number, so nobody can pass it off as a flip, nor a flip as a marker. `candidates/withdrawn` has
the number of the last candidate that was withdrawn; those before it are, too.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from envmgr.errors import EnvmgrError, InputError
from envmgr.publish import records
from envmgr.publish.candidate_record import FORMAT, CandidateRecord
from envmgr.publish.flipfile import SignedFile
from envmgr.publish.flips import known_current, once_current
from envmgr.publish.signature import Signer, require_allowed
from envmgr.publish.verify import Fault, verify_generation
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.files import atomic_write, explain_os_error, pretty_json
from envmgr.system.models import require_format
from envmgr.system.untrusted_files import FLIP, read_bytes, why_unreadable
from envmgr.system.usernames import own_name
from envmgr.wording import one_line, utc_now


def mark(
    prefix: Prefix, number: int, parent: int | None, record: str, signer: Signer | None, reporter: Reporter
) -> None:
    """Write the marker of a generation whose record, of this sha256, is about to be written. Only under `publishing`.

    Raises:
        EnvmgrError: `not-signed`, `disk-full`, `not-writable`.
    """
    said = CandidateRecord(
        candidate=number, record=record, date=utc_now(), parent=parent, user=own_name(), host=socket.gethostname()
    )
    content = pretty_json(said.model_dump(mode="json")).encode()
    path = _marker(prefix, number)
    with explain_os_error(path):
        path.parent.mkdir(exist_ok=True)
        if signer is not None:
            made = Candidate(path, content, said)
            atomic_write(made.signature_path, signer.sign(content, reporter).decode(), mode=0o444)
            require_allowed(made, signer)
        atomic_write(path, content.decode(), mode=0o444)


@dataclass(frozen=True, slots=True)
class Candidate(SignedFile):
    """A marker as it lies there."""

    record: CandidateRecord


def read_candidate(prefix: Prefix, number: int) -> Candidate:
    """Return the marker of a generation.

    Raises:
        EnvmgrError: `no-generation`, `not-a-candidate`, `candidate-damaged`, `format-unknown`.
    """
    records.read_record(prefix, number)
    path = _marker(prefix, number)
    try:
        content = read_bytes(path, FLIP)
        said = CandidateRecord.model_validate(require_format(json.loads(content), FORMAT, path, "schema_version"))
    except FileNotFoundError:
        raise EnvmgrError(
            "not-a-candidate",
            f"generation {number} is no candidate",
            context=_why_none(prefix, number),
            hint=f"`envmgr rollback {number}` makes it current again"
            if number in once_current(prefix) and number != known_current(prefix)
            else "`envmgr history` lists generations, and marks candidates with c",
        ) from None
    except (OSError, InputError, ValueError, RecursionError) as error:
        raise EnvmgrError(
            "candidate-damaged",
            f"{path} cannot be read",
            context=why_unreadable(error),
            hint="make another candidate: `envmgr build --candidate ENTRY`, or `envmgr publish --candidate`",
        ) from None
    return Candidate(path, content, said)


def _why_none(prefix: Prefix, number: int) -> str:
    waiting = newest(prefix)
    others = "there is no candidate" if waiting is None else f"the newest candidate is {waiting}"
    was = "it was current before" if number in once_current(prefix) else "it was never one"
    return f"{'it is current' if known_current(prefix) == number else was}; {others}"


def newest(prefix: Prefix) -> int | None:
    """Return the number of the newest complete candidate that was not withdrawn."""
    complete, last = records.complete_numbers(prefix), last_withdrawn(prefix)
    return max((n for n in records.candidate_numbers(prefix).intersection(complete) if n > last), default=None)


def last_withdrawn(prefix: Prefix) -> int:
    """Return the number of the last candidate that was withdrawn, with those before it; 0 for none. Raise EnvmgrError
    `candidate-damaged`.
    """
    path = _withdrawn(prefix)
    try:
        return int(read_bytes(path, FLIP))
    except FileNotFoundError:
        return 0
    except (OSError, InputError, ValueError) as error:
        raise EnvmgrError(
            "candidate-damaged",
            f"{path} cannot be read: which candidates were withdrawn is not known",
            context="it is no number" if isinstance(error, ValueError) else why_unreadable(error),
            hint=f"`rm -rf {quote(str(path))}`, then `envmgr history`, and `envmgr promote --withdraw NUMBER` for what nobody may get",
        ) from None


def withdraw(prefix: Prefix, number: int, reporter: Reporter) -> None:
    """Offer a candidate, and those before it, to nobody any more. Only under `publishing`.

    Raises:
        EnvmgrError: `no-generation`, `not-a-candidate`, `candidate-damaged`; `disk-full`, `not-writable`.
    """
    read_candidate(prefix, number)
    shown = offered(prefix)
    with explain_os_error(_withdrawn(prefix)):
        if shown is not None and shown <= number:  # first: after a kill nobody gets what the file says is withdrawn
            _point(prefix, None)
        atomic_write(_withdrawn(prefix), f"{max(number, last_withdrawn(prefix))}\n", mode=0o444)
    settle_candidates(prefix, reporter)


def offered(prefix: Prefix) -> int | None:
    """Return the newest complete candidate that came after what is current: an older one lacks what was published since."""
    number, current = newest(prefix), known_current(prefix)
    return number if number is not None and number > (current or 0) else None


def find_same(
    prefix: Prefix,
    parent: int | None,
    entries: Mapping[str, records.PublishedEntry],
    manifests: Mapping[str, str],
    render: str,
) -> int | None:
    """Return the newest candidate on `parent` if it has exactly these entries, installs and templates."""
    number = newest(prefix)
    with suppress(EnvmgrError):
        if number is not None and read_candidate(prefix, number).record.parent == parent:
            record = records.read_record(prefix, number)
            if (record.entries, record.manifests, record.render) == (entries, manifests, render):
                return number
    return None


def told_candidates(prefix: Prefix) -> dict[int, str]:
    """Return candidate -> sha256 of its record, as its marker has it."""
    found: dict[int, str] = {}
    for number in records.candidate_numbers(prefix):
        with suppress(EnvmgrError):
            found[number] = read_candidate(prefix, number).record.record
    return found


def signature_faults(prefix: Prefix, found: Candidate, signer: Signer | None) -> tuple[Fault, ...]:
    """Return what is wrong with the signature of a marker; nothing where the site does not sign."""
    if signer is None or (judged := signer.judge(found)).state in ("signed", "expired"):
        return ()
    return (Fault(f"{found.path.relative_to(prefix.root)}.sig", f"{judged.state}: {judged.reason}"),)


def require_promotable(prefix: Prefix, found: Candidate, current: int | None, signer: Signer | None) -> None:
    """Require that a candidate was made from what is current, and is what its marker says.

    Raises:
        EnvmgrError: `candidate-outdated`; `candidate-withdrawn`, `generation-changed`.
    """
    said = found.record
    if said.parent != current:
        raise EnvmgrError(
            "candidate-outdated",
            f"candidate {said.candidate} was made from generation {said.parent or 'none'}, and {current} is current",
            context="to make it current would take back what was published since",
            hint=f"`envmgr promote {said.candidate} --rebase` makes a candidate with its changes on what is current",
        )
    require_same(prefix, found, signer)


def require_same(prefix: Prefix, found: Candidate, signer: Signer | None) -> None:
    """Require that a candidate is what its marker says, and that someone who may has signed that, if the site signs.

    Raises:
        EnvmgrError: `candidate-withdrawn`, `generation-changed`.
    """
    number = found.record.candidate
    require_offered(prefix, number)
    looked = verify_generation(prefix, number, {number: found.record.record}, None).faults
    faults = [f"{each.path}: {each.found}" for each in (*looked, *signature_faults(prefix, found, signer))]
    if faults:
        raise EnvmgrError(
            "generation-changed",
            f"candidate {number} is not what was made",
            context=faults[:10],
            hint="find out who changed it; `envmgr build --candidate ENTRY` makes another one",
        )


def require_offered(prefix: Prefix, number: int) -> None:
    """Raise EnvmgrError `candidate-withdrawn` for a candidate that was withdrawn."""
    if number <= last_withdrawn(prefix):
        raise EnvmgrError(
            "candidate-withdrawn",
            f"candidate {number} was withdrawn",
            hint="`envmgr publish --candidate ENTRY` makes another one of what is built",
        )


def settle_candidates(prefix: Prefix, reporter: Reporter) -> None:
    """Remove the markers of generations that became current, or are gone, and point `candidate` at the newest one that
    is left, if it came after what is current and was not withdrawn. Only under `publishing`.

    It never raises: after a flip, no error may be reported as the flip's failure.
    """
    try:
        if prefix.candidates.is_dir():
            _settle(prefix, reporter)
    except (OSError, EnvmgrError) as error:
        reporter.say(f"warning: {prefix.candidate} may not lead to the newest candidate: {one_line(str(error), 200)}")


def _settle(prefix: Prefix, reporter: Reporter) -> None:
    there = {*records.complete_numbers(prefix)} - once_current(prefix)
    waiting = records.candidate_numbers(prefix) & there
    kept = {_withdrawn(prefix).name, *(f"{number:04d}.json{end}" for number in waiting for end in ("", ".sig"))}
    for path in prefix.candidates.iterdir():
        if path.name not in kept:
            with suppress(OSError):
                path.unlink(missing_ok=True)
    waiting = frozenset(each for each in waiting if each > last_withdrawn(prefix))
    number = max((each for each in waiting if each > (known_current(prefix) or 0)), default=None)
    if number is None and waiting and prefix.candidate.is_symlink():
        reporter.say(
            f"candidate {max(waiting)} is older than what is current: `ENVMGR_USE=candidate` gives that now; "
            f"`envmgr promote {max(waiting)} --rebase` puts the candidate's changes on it"
        )
    _point(prefix, number)


def _point(prefix: Prefix, number: int | None) -> None:
    """Point the link at a candidate, in one step. Raise OSError."""
    if number is None:
        prefix.candidate.unlink(missing_ok=True)
        return
    target = str(prefix.generation(number).relative_to(prefix.root))
    with suppress(OSError):
        if str(prefix.candidate.readlink()) == target:
            return
    beside = prefix.candidate.with_name(".candidate.tmp")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(prefix.candidate)


def _withdrawn(prefix: Prefix) -> Path:
    return prefix.candidates / "withdrawn"


def _marker(prefix: Prefix, number: int) -> Path:
    return prefix.candidates / f"{number:04d}.json"
