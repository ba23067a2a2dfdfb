"""The only subprocess calls: own process group, cancellable, output kept, errors that carry the command."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import CommandError, EnvmgrError, Interrupted
from envmgr.system.processes import group_runs
from envmgr.system.shelltext import script_text
from envmgr.system.users import Account

_POLL = 0.1  # seconds between looks at the cancel flag
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL, and for children that hold the output after their parent


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
        run_as: Account | None = None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> Completed:
        """Run to the end and return the output as text. `timeout` is wall-clock seconds; `env` defaults to `clean_env()`.

        `on_tick` is called every 0.1 s while it runs, and may raise.

        With `new_group`, what the command leaves running ends with it, and all of it ends with us, even by kill -9.
        `run_as` is for root only: the command starts as that user, with no group but theirs, under the guard as well.

        Raises:
            CommandError: the command is missing, ran out of time or (with `check`) exited non-zero.
            Interrupted: `cancel` was set.
        """
        args = tuple(str(a) for a in argv)
        start = time.monotonic()
        environment = clean_env() if env is None else env
        process, release = (
            self._spawn_guarded(args, environment, cwd, run_as)
            if new_group
            else (self._spawn(args, environment, cwd, run_as=run_as), None)
        )
        try:
            out, err = self._communicate(process, args, stdin.encode(), start, timeout, on_tick, group=new_group)
        except BaseException:
            _end(process, group=new_group)
            raise
        finally:
            _close_pipes(process)
            if release is not None:
                release()
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
        new_group: bool = True,
    ) -> Completed:
        """Run a command that speaks in lines: `on_line` gets each stdout line, `on_tick` runs every 0.1 s and may raise.

        `stdin` is written, and the pipe then stays open until the child ends, so that a child can notice our death. A last
        line without a line break is left out: its writer died over it. The exit status is not judged here.
        Raises Interrupted when `cancel` is set.
        """
        args = tuple(str(a) for a in argv)
        start = time.monotonic()
        process = self._spawn(args, clean_env() if env is None else env, None, new_group=new_group)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        pending = stdin.encode()
        rest, errors = b"", bytearray()
        try:
            os.set_blocking(process.stdin.fileno(), False)
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdin, selectors.EVENT_WRITE)
                open_pipes = {process.stdout, process.stderr}
                for pipe in open_pipes:
                    selector.register(pipe, selectors.EVENT_READ)
                while open_pipes or not _has_ended(process):
                    ended = process.poll() is not None  # before the look: what it wrote last is in the pipes then
                    ready = selector.select(_POLL) if open_pipes else []
                    for key, _ in ready:
                        if key.fileobj is process.stdin:
                            pending = _write_some(key.fd, pending)
                            if not pending:
                                selector.unregister(process.stdin)
                            continue
                        chunk = os.read(key.fd, 65536)
                        if key.fileobj is process.stderr:
                            errors += chunk
                        else:
                            *lines, rest = (rest + chunk).split(b"\n")
                            for line in lines:
                                on_line(_text(line))
                        if not chunk:
                            selector.unregister(key.fileobj)
                            open_pipes.discard(key.fileobj)
                    if not ready and ended:
                        break  # a process that it left behind holds the pipes: not waited for
                    self.raise_if_cancelled()
                    on_tick()
        except BaseException:
            _end(process, group=new_group)
            raise
        finally:
            _close_pipes(process)
        return Completed(args, process.returncode, "", _text(bytes(errors)), time.monotonic() - start)

    def _communicate(
        self,
        process: subprocess.Popen[bytes],
        args: tuple[str, ...],
        stdin: bytes,
        start: float,
        timeout: float | None,
        on_tick: Callable[[], None],
        *,
        group: bool,
    ) -> tuple[bytes, bytes]:
        data: bytes | None = stdin
        ended: float | None = None
        while True:
            try:
                return process.communicate(data, timeout=_POLL)
            except subprocess.TimeoutExpired:
                data = None
            self.raise_if_cancelled()
            on_tick()
            now = time.monotonic()
            if process.poll() is not None:  # it is gone, but something that it left running holds its output
                ended = ended or now
                if group and now - ended > _GRACE:
                    _signal_group(process.pid, signal.SIGKILL)
                if now - ended > 2 * _GRACE:
                    return _rest(process)
            elif timeout is not None and now - start > timeout:
                _end(process, group=group)
                out, err = _rest(process)
                raise CommandError(args, None, _text(out), _text(err), reason=f"no end after {timeout:g} s")

    def raise_if_cancelled(self) -> None:
        """For loops that wait for something else than a command. Raises Interrupted."""
        if self.cancel.is_set():
            raise Interrupted

    def _spawn_guarded(
        self, args: tuple[str, ...], env: Mapping[str, str], cwd: Path | None, run_as: Account | None = None
    ) -> tuple[subprocess.Popen[bytes], Callable[[], None]]:
        """The command under run.guard.sh, and what ends its group when the command has ended."""
        if shutil.which(args[0], path=env.get("PATH", os.defpath)) is None:
            raise _missing(args[0], "no such program")
        reader, writer = os.pipe()
        try:
            if run_as is not None:
                os.fchown(reader, run_as.uid, run_as.gid)  # the watcher opens it again, by its name
            guarded = ("/bin/sh", "-c", script_text(__file__, "guard.sh"), "envmgr-guard", str(reader), *args)
            process = self._spawn(guarded, env, cwd, new_group=True, pass_fds=(reader,), run_as=run_as)
        except BaseException:
            os.close(writer)
            raise
        finally:
            os.close(reader)

        def release() -> None:
            _signal_group(
                process.pid, signal.SIGKILL
            )  # the watcher, and what the command left; its number is still theirs
            os.close(writer)

        return process, release

    def _spawn(
        self,
        args: tuple[str, ...],
        env: Mapping[str, str],
        cwd: Path | None,
        *,
        new_group: bool = False,
        pass_fds: tuple[int, ...] = (),
        run_as: Account | None = None,
    ) -> subprocess.Popen[bytes]:
        self.raise_if_cancelled()
        try:
            return subprocess.Popen(
                args,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=new_group,
                pass_fds=pass_fds,
                user=None if run_as is None else run_as.uid,
                group=None if run_as is None else run_as.gid,
                extra_groups=None if run_as is None else run_as.groups(),
            )
        except OSError as error:  # missing, not executable, no interpreter, no such folder, too many arguments
            raise _missing(args[0], str(error)) from None


def _missing(command: str, reason: str) -> EnvmgrError:
    return EnvmgrError(
        "command-missing", f"cannot run `{command}`", context=reason, hint="is it installed and executable?"
    )


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _end(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """SIGTERM, a short grace, SIGKILL: to the whole group when the child leads one.

    The grace is everybody's: a leader that ends at once must not take it from a child that has something to take back, as
    srun its place in the queue.
    """
    for sig in (signal.SIGTERM, signal.SIGKILL):
        if group:
            _signal_group(process.pid, sig)
        elif process.poll() is None:
            process.send_signal(sig)
        end = time.monotonic() + _GRACE
        while time.monotonic() < end:
            if process.poll() is not None and not (group and group_runs(process.pid)):
                return
            time.sleep(_POLL / 4)


def _rest(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What an ended command had still written; somebody it left behind may hold the pipes, and is not waited for."""
    try:
        return process.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired as late:
        return late.output or b"", late.stderr or b""


def _write_some(descriptor: int, data: bytes) -> bytes:
    """Write what the pipe takes now; returns the rest, nothing once the reader is gone (its exit status says why)."""
    with suppress(BlockingIOError):
        try:
            return data[os.write(descriptor, data[:65536]) :]
        except BrokenPipeError:
            return b""
    return data


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL)
    except subprocess.TimeoutExpired:
        return False
    return True


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
