"""Root's part of signing: a process that stays root while envmgr becomes the build user, and signs flips, nothing else.

So the key can be root's alone, out of reach of what a build runs. The build user's process cannot be traced by others of that user, and its
children are not given the socket.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

from pydantic import ValidationError

from envmgr.catalog.site_file import Signing
from envmgr.errors import EnvmgrError, ErrorData
from envmgr.publish.flipfile import Flip, FlipRecord
from envmgr.publish.signature import KeySigner, Signed, check_signature
from envmgr.report import Reporter, SilentReporter
from envmgr.system.models import FrozenModel
from envmgr.system.run import Runner

_SIZE = struct.Struct("!I")
_MOST = 64 << 10  # bytes of a flip, and of an answer


class _Answer(FrozenModel):
    signature: str = ""
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class RootSigner:
    """Asks root's process to sign. Signatures are judged here, with the list that everybody can read."""

    signing: Signing
    runner: Runner
    connection: socket.socket

    def sign(self, content: bytes, reporter: Reporter) -> bytes:
        """See `Signer`."""
        with reporter.stage(f"signing with {self.signing.key}"):
            try:
                _send(self.connection, content)
                answer = _Answer.model_validate_json(_receive(self.connection))
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

    def judge(self, flip: Flip) -> Signed:
        """See `Signer`."""
        return check_signature(flip, self.signing, self.runner)


def start_root_signer(signing: Signing, runner: Runner) -> RootSigner:
    """Forks: for a process that is root still, and has no threads. The other process ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork() == 0:
        ours.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the other one, which says why
        with suppress(BaseException):
            _serve(theirs, KeySigner(signing, runner))
        os._exit(0)
    theirs.close()
    return RootSigner(signing, runner, ours)


def _serve(connection: socket.socket, signer: KeySigner) -> None:
    while True:
        content = _receive(connection)
        try:
            FlipRecord.model_validate_json(content)
            answer = _Answer(signature=signer.sign(content, SilentReporter()).decode())
        except ValidationError:
            answer = _Answer(error=ErrorData.of(EnvmgrError("not-signed", "what should be signed is no flip")))
        except EnvmgrError as error:
            answer = _Answer(error=ErrorData.of(error))
        _send(connection, answer.model_dump_json().encode())


def _send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(_SIZE.pack(len(data)) + data)


def _receive(connection: socket.socket) -> bytes:
    size = _SIZE.unpack(_exactly(connection, _SIZE.size))[0]
    if size > _MOST:
        raise EOFError(f"{size} bytes")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError("the connection was closed")
        data += piece
    return data
