"""Signatures of flips, made and checked by `ssh-keygen -Y`, as git signs commits with SSH keys.

Sources: ssh-keygen(1), ALLOWED SIGNERS. Principals are taken from the list itself: `-Y find-principals` of OpenSSH 8.7
is broken.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import TypeAdapter, ValidationError

from envmgr.catalog.site_file import Signing
from envmgr.errors import CommandError, EnvmgrError, ErrorData, InputError
from envmgr.publish.candidate_record import CandidateRecord
from envmgr.publish.flipfile import FlipRecord, SignedFile
from envmgr.report import Reporter, SilentReporter
from envmgr.system.models import FrozenModel
from envmgr.system.run import Runner, clean_env
from envmgr.system.untrusted_files import ANYWHERE, SIGNERS, read_file_text

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

NAMESPACE = "envmgr-flip"
"""The purpose of a signature: one of a git commit or of a file is not valid for a flip."""

_CHECKED = 20.0  # seconds
_SIGNED = 180.0  # seconds, in which a hardware key is touched

State = Literal["signed", "unsigned", "expired", "wrong", "unchecked"]


@dataclass(frozen=True, slots=True)
class Signed:
    """The result of a check.

    `signed` by `who`; `expired`: by a key that was valid then and is not now; `wrong`: by no allowed key; `unchecked`:
    it could not be checked.
    """

    state: State
    who: str = ""
    reason: str = ""


class Signer(Protocol):
    """The signer of flips."""

    def sign(self, content: bytes, reporter: Reporter) -> bytes:
        """Return the signature of a flip's file. Raises EnvmgrError `not-signed`."""

    def judge(self, flip: SignedFile) -> Signed:
        """Return whether someone on the site's own list signed it."""


@dataclass(frozen=True, slots=True)
class KeySigner:
    """A signer for the user of this process, with the site's key; a public key represents one in an agent or a hardware
    key.
    """

    signing: Signing
    runner: Runner

    def sign(self, content: bytes, reporter: Reporter) -> bytes:
        """See `Signer`."""
        key = self.signing.key
        if key is None:
            raise EnvmgrError(
                "not-signed",
                "this site signs its flips, and names no key",
                context="signing.key in site.yaml",
                hint="under `signing` in site.yaml: `key: FILE`, a private key, or the public one of a key "
                "that your agent or a hardware key holds",
            )
        # `clean_env` drops the agent's socket, and the display on which ssh-keygen asks for a passphrase.
        kept = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SSH_SK_PROVIDER", "DISPLAY", "WAYLAND_DISPLAY")
        environ = clean_env(**{name: os.environ[name] for name in kept if name in os.environ})
        argv = ("ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key))
        try:
            with reporter.stage(f"signing with {key}"):  # in the group of the terminal: it may ask for a passphrase
                done = self.runner.run(argv, stdin=content.decode(), env=environ, timeout=_SIGNED, new_group=False)
        except CommandError as error:
            raise EnvmgrError(
                "not-signed",
                f"the flip could not be signed with {key}",
                context=_last_line(error.stderr) or error.message,
                hint="is the key there, readable for this user, and loaded by its agent? `ssh-add -l` lists "
                "what is; nothing was changed",
            ) from None
        return done.stdout.encode()

    def judge(self, flip: SignedFile) -> Signed:
        """See `Signer`."""
        return check_signature(flip, self.signing, self.runner)


def require_allowed(flip: SignedFile, signer: Signer) -> None:
    """Raise EnvmgrError `not-signed` for a signature that no node would accept."""
    found = signer.judge(flip)
    if found.state != "signed":
        raise EnvmgrError(
            "not-signed",
            "the key that signed is not among those that the site allows",
            context=found.reason,
            hint=f'add a line `NAME namespaces="{NAMESPACE}" KEYTYPE KEY` with its public key to the list that '
            "signing.allowed_signers names, then `envmgr node-setup --apply` for the nodes",
        )


def check_signature(flip: SignedFile, signing: Signing, runner: Runner) -> Signed:
    """Return whether someone of the site's list signed it, for this purpose. Raise EnvmgrError `flip-damaged`."""
    if flip.signature() is None:
        return Signed("unsigned", reason="it is not there")
    try:
        names = list(principals(signers_text(signing)))
        reason = ""
        for name in names:
            said, reason = _verify(flip, signing, name, runner)
            if said:
                return Signed("signed", name)
        # A second look at the flip's own date tells a key that has expired from one that was never allowed.
        # Without a time zone ssh-keygen reads local time, which is UTC in `clean_env`.
        at = flip.date.translate({ord(mark): None for mark in "-:TZ"})
        for name in names:
            if _verify(flip, signing, name, runner, f"verify-time={at}")[0]:
                return Signed("expired", name, f"the key of {name} was valid at {flip.date}, and is not any more")
    except (EnvmgrError, InputError) as error:
        return Signed("unchecked", reason=error.message)
    return Signed("wrong", reason=f"nobody of {signing.allowed_signers} signed it: {reason}")


def signers_text(signing: Signing) -> str:
    """Return the site's list, as nodes get it.

    Raises:
        InputError: `file-missing`, `file-unreadable`, `file-irregular`; `signers-empty` for a list without names.
    """
    text = read_file_text(signing.allowed_signers, SIGNERS, tree=ANYWHERE)
    if not [*principals(text)]:
        raise InputError(
            "signers-empty",
            f"{signing.allowed_signers} names nobody",
            context="signing.allowed_signers in site.yaml",
            hint=f'a line is `NAME namespaces="{NAMESPACE}" KEYTYPE KEY`, with the public key',
        )
    return text


def principals(text: str) -> Iterator[str]:
    """Yield the names in a list of allowed signers, each once."""
    seen = set[str]()
    for line in text.split("\n"):
        words = line.split(None, 1)
        if len(words) < 2 or words[0].startswith("#"):
            continue
        for name in words[0].strip('"').split(","):
            # `!NAME` is a negated pattern of ssh: it excludes a name, and nobody signs as that.
            if name and not name.startswith("!") and name not in seen:
                seen.add(name)
                yield name


def _verify(flip: SignedFile, signing: Signing, name: str, runner: Runner, *options: str) -> tuple[bool, str]:
    """Return whether the signature is `name`'s, and ssh-keygen's message if it is not.

    The content is what was read before, even if the file has changed.
    """
    argv = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", name, "-f", str(signing.allowed_signers)]
    argv += ["-s", str(flip.signature_path), *(f"-O{option}" for option in options)]
    done = runner.run(argv, stdin=flip.content.decode(), timeout=_CHECKED, check=False)
    return done.returncode == 0, _last_line(done.stderr) or _last_line(done.stdout)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


_MOST = 64 << 10  # bytes of a flip, and of an answer


class _Answer(FrozenModel):
    signature: str = ""
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class RootSigner(KeySigner):
    """Asks root's process to sign. Signatures are judged here, with the list that everybody can read."""

    connection: Connection

    def sign(self, content: bytes, reporter: Reporter) -> bytes:
        """See `Signer`."""
        with reporter.stage(f"signing with {self.signing.key}"):
            try:
                self.connection.send_bytes(content)
                answer = _Answer.model_validate_json(self.connection.recv_bytes(_MOST))
            except (OSError, EOFError, ValidationError) as error:
                self.runner.raise_if_cancelled()
                raise EnvmgrError(
                    "not-signed",
                    "root's process that signs is gone",
                    context=str(error),
                    hint="run the same command again",
                ) from None
        self.runner.raise_if_cancelled()
        if answer.error is not None:
            raise answer.error.as_error()
        return answer.signature.encode()


def start_root_signer(signing: Signing, runner: Runner) -> RootSigner:
    """Fork a signer, from a process that is still root and has no threads. The signer ends with this process."""
    from multiprocessing.connection import Pipe  # only where root signs

    ours, theirs = Pipe()
    if os.fork() == 0:
        # A copy of our end in the child would keep the pipe open, and the child would never see that we died.
        ours.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the other one, which says why
        # The end of the pipe is an EOFError: it is how the child learns that its work is over.
        with suppress(BaseException):
            _serve(theirs, KeySigner(signing, runner))
        # The parent's exit handlers and buffers must not run a second time in the child.
        os._exit(0)
    theirs.close()
    return RootSigner(signing, runner, ours)


def _serve(connection: Connection, signer: KeySigner) -> None:
    signable: TypeAdapter[FlipRecord | CandidateRecord] = TypeAdapter(FlipRecord | CandidateRecord)
    while True:
        content = connection.recv_bytes(_MOST)
        try:
            # Root's key signs nothing else, whatever the build user's process sends.
            signable.validate_json(content)
            answer = _Answer(signature=signer.sign(content, SilentReporter()).decode())
        except ValidationError:
            answer = _Answer(
                error=ErrorData.of(EnvmgrError("not-signed", "what should be signed is no flip and no candidate"))
            )
        except EnvmgrError as error:
            answer = _Answer(error=ErrorData.of(error))
        connection.send_bytes(answer.model_dump_json().encode())
