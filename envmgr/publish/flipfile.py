"""The files of flips: `flips/000123.json`, written before `current` changes, and `.json.sig` beside it if the site
signs.

The flip in force is the highest one whose generation is `current`'s. A later one whose rename never came is withdrawn
by the next run: it is renamed to `000123.withdrawn`, so that its number stays taken.

Locks may stay on each client of a file server, so nothing here relies on one. The new link lies in
`.current.000123.tmp` before the flip is written: only one host can make it, its rename over `current` is the flip, and
a run that withdraws the flip first renames the link to `.current.000123.stopped`. So either it came, or its rename
finds nothing. The stopped link goes when the flip is withdrawn. A flip that never came has one of the two links as long
as its file lies there, whichever run is killed, and readers look for both.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field

from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Prefix
from envmgr.system.files import explain_os_error, pretty_json, sync_folder, write_new
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.pulse import link_new, renew_listing
from envmgr.system.untrusted_files import FLIP, SIGNATURE, read_bytes, why_unreadable

FORMAT = 1
"""The number of the format of flips; another one is refused."""

MOST = 10**12 - 1
"""The highest sequence number: shells count them, too."""

Action = Literal["publish", "rollback", "sign"]

_LINK = re.compile(r"\.current\.(?P<number>[0-9]{6,12})\.(?P<kind>tmp|stopped)")

_NAME = re.compile(r"([0-9]{6,12})\.(json|json\.sig|withdrawn)")


class FlipRecord(FrozenModel):
    """The content that a site signs. `record` is the sha256 of the generation's record, which names all its files and
    the manifests of its installs.

    `before` is the generation that was current; `date` is UTC.
    """

    schema_version: int = FORMAT
    sequence: int = Field(ge=1, le=MOST)
    generation: int = Field(ge=1)
    record: str = Field(pattern="^[0-9a-f]{64}$")
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
    action: Action
    before: int | None
    reason: str
    user: str
    host: str

    def text(self) -> str:
        """Return the text of its file: a line for each field, which nodes read without a JSON parser."""
        return pretty_json(self.model_dump(mode="json"))


@dataclass(frozen=True, slots=True)
class SignedFile:
    """A JSON file that a site signs; `content` is byte for byte what lies there."""

    path: Path
    content: bytes

    @property
    def date(self) -> str:
        """The time at which it was written, by its own words: UTC."""
        return str(json.loads(self.content)["date"])

    @property
    def signature_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.sig")

    def signature(self) -> bytes | None:
        """Return the signature; None if there is none. Raise EnvmgrError `flip-damaged`."""
        try:
            return read_bytes(self.signature_path, SIGNATURE)
        except FileNotFoundError:
            return None
        except (OSError, InputError) as error:
            raise _damaged(self.signature_path, error) from None


@dataclass(frozen=True, slots=True)
class Flip(SignedFile):
    """A flip as it lies there."""

    record: FlipRecord


def flip_path(prefix: Prefix, sequence: int) -> Path:
    return prefix.flips / f"{sequence:06d}.json"


def numbers_taken(prefix: Prefix) -> list[int]:
    """Return every sequence number that has a file, also withdrawn ones, ascending."""
    return sorted({int(match[1]) for match in _names(prefix)})


def sequences(prefix: Prefix) -> list[int]:
    """Return the numbers of the flips that are not withdrawn, ascending."""
    return sorted(int(match[1]) for match in _names(prefix) if match[2] == "json")


def has_signatures(prefix: Prefix) -> bool:
    """Return whether a flip has a signature beside it, good or not."""
    return any(match[2] == "json.sig" for match in _names(prefix))


def read_flip(prefix: Prefix, sequence: int) -> Flip:
    """Return the flip. Raise EnvmgrError `flip-damaged`, `format-unknown`."""
    path = flip_path(prefix, sequence)
    try:
        content = read_bytes(path, FLIP)
        record = FlipRecord.model_validate(require_format(json.loads(content), FORMAT, path, "schema_version"))
    except (OSError, InputError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from None
    # The highest file name wins, and only the content is signed: a copy under a higher name must not count.
    if record.sequence != sequence:
        raise _damaged(path, ValueError(f"it says that it is flip {record.sequence}"))
    return Flip(path, content, record)


def newest_first(prefix: Prefix) -> Iterator[Flip]:
    """Yield the flips that can be read, the highest first; a damaged flip affects only itself.

    Raises:
        EnvmgrError: `format-unknown` for a flip that a later envmgr wrote: its content decides what is in force.
    """
    for sequence in reversed(sequences(prefix)):
        try:
            found = read_flip(prefix, sequence)
        except EnvmgrError as error:
            if error.reference == "format-unknown":
                raise
            continue
        yield found


def in_force(prefix: Prefix, number: int | None) -> Flip | None:
    """Return the highest flip that made generation `number` current, which is what `current` names; never one that is
    being withdrawn.
    """
    of_it = (flip for flip in newest_first(prefix) if flip.record.generation == number)
    return next((flip for flip in of_it if not _is_half_withdrawn(prefix, flip)), None)


def _is_half_withdrawn(prefix: Prefix, flip: Flip) -> bool:
    """Return whether its link is stopped and its signature is removed, but its file is not yet.

    This is a flip of `sign`, which names what is current already.
    """
    stopped = os.path.lexists(stopped_link(prefix, flip.record.sequence))
    return stopped and not os.path.lexists(flip.signature_path)


class Signs(Protocol):
    """The signer of a flip that is being written."""

    def sign(self, content: bytes) -> bytes:
        """Return the signature of the flip's file. Raises EnvmgrError."""

    def judge(self, made: Flip) -> None:
        """Check the signature, which exists before the flip's file. Raises EnvmgrError if no node would accept it."""


class OvertakenError(Exception):
    """Another run made a flip since this one looked: its change must be put on what is current by now. The caller
    begins again.
    """


def pending_link(prefix: Prefix, sequence: int) -> Path:
    """Return the link that becomes `current` with the flip."""
    return prefix.root / f".current.{sequence:06d}.tmp"


def stopped_link(prefix: Prefix, sequence: int) -> Path:
    """Return the same link after a run has stopped the flip, which it then withdraws."""
    return prefix.root / f".current.{sequence:06d}.stopped"


def is_pending(prefix: Prefix, sequence: int) -> bool:
    """Return whether a flip did not come: its link was not renamed to `current`.

    The links are looked at in this order because a stopped link has its other name at once.
    """
    return any(os.path.lexists(link(prefix, sequence)) for link in (pending_link, stopped_link))


def links(prefix: Prefix) -> list[str]:
    """Return the names of all pending and stopped links."""
    with suppress(FileNotFoundError), os.scandir(prefix.root) as entries:
        return sorted(entry.name for entry in entries if _LINK.fullmatch(entry.name))
    return []


def stop(prefix: Prefix, sequence: int) -> bool:
    """Keep every run from making this flip current, from now on. Return whether it had not come; if it had, its link is
    gone.
    """
    with explain_os_error(prefix.root), suppress(FileNotFoundError):
        pending_link(prefix, sequence).replace(stopped_link(prefix, sequence))
    return os.path.lexists(stopped_link(prefix, sequence))


def stop_all(prefix: Prefix) -> None:
    """Stop each flip whose link was not renamed; remove other files with such a name."""
    for link in prefix.root.glob(".current.*.tmp"):
        if match := _LINK.fullmatch(link.name):
            stop(prefix, int(match["number"]))
        else:
            with explain_os_error(link):
                link.unlink(missing_ok=True)


def clear_stopped(prefix: Prefix, settled: Collection[int]) -> None:
    """Remove the links of flips that are settled, or have no file any more. Only under the publish lock."""
    for name in links(prefix):
        match = _LINK.fullmatch(name)
        if match and match["kind"] == "stopped":
            number = int(match["number"])
            if number not in settled and flip_path(prefix, number).exists():
                continue  # another host just withdraws it
            with explain_os_error(prefix.root):
                (prefix.root / name).unlink(missing_ok=True)


def write_flip(prefix: Prefix, record: FlipRecord, known: Collection[int], signing: Signs | None = None) -> Flip:
    """Write the flip's link and file, each made exclusively. The signature is written and judged first: a flip is never
    seen without a good one.

    `known` are the flips that existed when what is current was read, which is what this one stands on.

    Raises:
        OvertakenError: there are others by now, or one takes its number.
        EnvmgrError: `disk-full`, `not-writable`, `mount-lost`, whatever `signing` raises; nothing of it is left then.
    """
    with explain_os_error(prefix.flips):
        prefix.flips.mkdir(mode=0o755, exist_ok=True)
    flip = Flip(flip_path(prefix, record.sequence), record.text().encode(), record)
    pending = pending_link(prefix, record.sequence)
    with ExitStack() as made:
        try:
            with explain_os_error(pending, but=FileExistsError):
                # The link comes before the signature: it reserves the number while a person may have to touch a key.
                pending.symlink_to(f"generations/{record.generation:04d}")
            made.callback(_forget, pending)
            signature = None if signing is None else signing.sign(flip.content)
            if not os.path.lexists(pending):  # a key is touched in three minutes
                raise OvertakenError(f"flip {record.sequence} was stopped before it was written")
            with explain_os_error(prefix.flips, but=FileExistsError):
                _write(flip, signature, signing)
        except FileExistsError:
            raise OvertakenError(f"flip {record.sequence} is taken") from None
        made.callback(withdraw, prefix, record.sequence)
        # Two hosts may write at once: each looks after its own file exists, so at least one of them sees the other.
        renew_listing(prefix.flips)
        if others := {*sequences(prefix)} - {*known, record.sequence}:
            raise OvertakenError(f"flip {max(others)} was made since this run looked")
        made.pop_all()
    return flip


def _write(flip: Flip, signature: bytes | None, signing: Signs | None) -> None:
    """Write the files of a flip. Raise FileExistsError if the number is taken by now; nothing of ours stays after any
    failure.
    """
    with ExitStack() as made:
        if signature is not None and signing is not None:
            _link(flip.signature_path, signature)
            made.callback(_forget, flip.signature_path)
            signing.judge(flip)
        _link(flip.path, flip.content)
        made.callback(_forget, flip.path)
        # After a crash of the host, `current` must not name a generation whose flip is lost.
        sync_folder(flip.path.parent)
        made.pop_all()


def _link(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, by link(2): a client that makes files for a user may lack exclusive
    creation.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
    try:
        write_new(draft, content, mode=0o444)
        link_new(draft, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
            raise
        write_new(path, content, mode=0o444)  # no second names there
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _forget(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def withdraw(prefix: Prefix, sequence: int) -> None:
    """Withdraw a flip. Its link is stopped first: a run that stood still cannot make it current any more.

    Then its signature goes: a flip that never came into force is not left signed. The stopped link goes last: until
    then readers know that the flip did not come. Another host may do the same at the same time.
    """
    path = flip_path(prefix, sequence)
    with explain_os_error(path):
        stop(prefix, sequence)
        path.with_name(f"{path.name}.sig").unlink(missing_ok=True)
        try:
            path.rename(path.with_suffix(".withdrawn"))
        except FileNotFoundError:
            if not path.with_suffix(".withdrawn").exists():
                raise
        stopped_link(prefix, sequence).unlink(missing_ok=True)


def withdraw_lone_signatures(prefix: Prefix) -> None:
    """Remove signatures of flips that a killed run did not write any more; their numbers stay taken. Only under the
    publish lock.
    """
    lone = {int(match[1]) for match in _names(prefix) if match[2] == "json.sig"} - {*sequences(prefix)}
    for sequence in lone:
        path = flip_path(prefix, sequence)
        with explain_os_error(path):
            # The number is marked as taken before the signature goes: a kill in between must not free it.
            with suppress(FileExistsError):
                write_new(path.with_suffix(".withdrawn"), b"", mode=0o444)
            path.with_name(f"{path.name}.sig").unlink(missing_ok=True)


def _names(prefix: Prefix) -> Iterator[re.Match[str]]:
    with suppress(FileNotFoundError), os.scandir(prefix.flips) as entries:
        for entry in entries:
            if match := _NAME.fullmatch(entry.name):
                yield match


def _damaged(path: Path, error: Exception) -> EnvmgrError:
    return EnvmgrError(
        "flip-damaged",
        f"{path} cannot be read",
        context=why_unreadable(error),
        hint="`envmgr sign` writes a new one for the generation that is current",
    )
