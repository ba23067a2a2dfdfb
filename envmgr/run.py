"""The only subprocess calls: own process group, cancellable, output kept, errors that carry the command."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import CommandError, EnvmgrError, Interrupted

_POLL = 0.1  # seconds between looks at the cancel flag
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished command. `seconds` is wall-clock."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float


def clean_env(**extra: str) -> dict[str, str]:
    """A small, predictable environment: nothing of the caller's shell leaks into a build, a probe or a smoke test."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    env |= {key: os.environ[key] for key in ("HOME", "USER", "LOGNAME", "TMPDIR") if key in os.environ}
    return env | extra


class Runner:
    """Runs commands. `cancel`, once set (Ctrl-C, SIGTERM), ends every running child's process group."""

    def __init__(self, cancel: threading.Event | None = None) -> None:
        self.cancel = cancel or threading.Event()

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
        timeout: float | None = None,
        check: bool = True,
        new_group: bool = True,
    ) -> Completed:
        """Run to the end and return the output as text. `timeout` is wall-clock seconds; `env` defaults to `clean_env()`.

        Raises:
            CommandError: the command is missing, ran out of time or (with `check`) exited non-zero.
            Interrupted: `cancel` was set.
        """
        args = tuple(str(a) for a in argv)
        start = time.monotonic()
        process = self._spawn(args, env, cwd, new_group=new_group)
        data: bytes | None = stdin.encode()
        try:
            while True:
                try:
                    out, err = process.communicate(data, timeout=_POLL)
                    break
                except subprocess.TimeoutExpired:
                    data = None
                    self._raise_if_cancelled()
                    if timeout is not None and time.monotonic() - start > timeout:
                        _end(process, group=new_group)
                        out, err = process.communicate()
                        raise CommandError(
                            args, None, _text(out), _text(err), reason=f"no end after {timeout:g} s"
                        ) from None
        except BaseException:
            _end(process, group=new_group)
            raise
        done = Completed(args, process.returncode, _text(out), _text(err), time.monotonic() - start)
        if check and done.returncode != 0:
            raise CommandError(args, done.returncode, done.stdout, done.stderr)
        return done

    def stream(
        self,
        argv: Sequence[str | Path],
        *,
        stdin: str,
        on_line: Callable[[str], None],
        on_tick: Callable[[], None] = lambda: None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command that speaks in lines: `on_line` gets each stdout line, `on_tick` runs every 0.1 s and may raise.

        `stdin` is written, and the pipe then stays open until the child ends, so that a child can notice our death.
        The exit status is not judged here. Raises Interrupted when `cancel` is set.
        """
        args = tuple(str(a) for a in argv)
        start = time.monotonic()
        process = self._spawn(args, env, None, new_group=True)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        errors: list[bytes] = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)  # type: ignore[union-attr]
        reader.start()
        rest = b""
        try:
            with suppress(BrokenPipeError):  # it died at once; its exit status and stderr say why
                process.stdin.write(stdin.encode())
                process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                while True:
                    if selector.select(_POLL):
                        chunk = os.read(process.stdout.fileno(), 65536)
                        if not chunk:
                            break
                        *lines, rest = (rest + chunk).split(b"\n")
                        for line in lines:
                            on_line(_text(line))
                    self._raise_if_cancelled()
                    on_tick()
            process.wait()
        except BaseException:
            _end(process, group=True)
            raise
        finally:
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    pipe.close()
            reader.join(timeout=_GRACE)
            process.stderr.close()
        return Completed(args, process.returncode, "", _text(b"".join(errors)), time.monotonic() - start)

    def _raise_if_cancelled(self) -> None:
        if self.cancel.is_set():
            raise Interrupted

    def _spawn(
        self, args: tuple[str, ...], env: Mapping[str, str] | None, cwd: Path | None, *, new_group: bool
    ) -> subprocess.Popen[bytes]:
        self._raise_if_cancelled()
        try:
            return subprocess.Popen(
                args,
                env=dict(clean_env() if env is None else env),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=new_group,
            )
        except (FileNotFoundError, PermissionError) as error:
            raise EnvmgrError(
                "command-missing", f"cannot run `{args[0]}`", context=str(error), hint="is it installed and executable?"
            ) from None


def _end(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """SIGTERM, a short grace, SIGKILL: to the whole group when the child leads one."""
    for sig, wait in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _GRACE)):
        try:
            if group:
                os.killpg(process.pid, sig)
            elif process.poll() is None:
                process.send_signal(sig)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            continue
        if sig == signal.SIGTERM and group:
            continue  # the leader is gone; its children get the SIGKILL at once
        return


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
