"""Commands: in a process group, cancellable, with their output; or detached, where they may hang for good."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from envmgr.errors import CommandError, EnvmgrError, Interrupted
from envmgr.system.processes import (
    GRACE,
    POLL,
    as_text,
    close_pipes,
    end_child,
    give_up,
    has_ended,
    in_memory,
    rest_of_output,
    signal_group,
    write_some,
)
from envmgr.system.shelltext import script_text
from envmgr.system.usernames import Account


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished command. `seconds` is wall-clock."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float


def clean_env(**extra: str) -> dict[str, str]:
    """Return a small, predictable environment: no variable of the caller's shell gets into a build, a probe or a smoke
    test.
    """
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
        most_output: int | None = None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> Completed:
        """Run to the end and return the output as text. `timeout` is wall-clock seconds; `env` defaults to
        `clean_env()`.

        `on_tick` is called every 0.1 s while it runs, and may raise.

        With `new_group`, processes that the command leaves running end with it, and all of them end with this process,
        even by kill -9. `run_as` is for root only: the command starts as that user, with only that user's groups, also
        under the guard. `most_output` is bytes of stdout, and of stderr.

        Raises:
            CommandError: the command is missing, ran out of time, wrote too much or (with `check`) exited non-zero.
            Interrupted: `cancel` was set.
        """
        args = tuple(str(a) for a in argv)
        start = time.monotonic()
        environment = clean_env() if env is None else env
        with in_memory(stdin) as given:
            process, release = (
                self._spawn_guarded(args, environment, cwd, given, run_as)
                if new_group
                else (self._spawn(args, environment, cwd, given, run_as=run_as), None)
            )
        try:
            out, err = self._communicate(process, args, start, timeout, on_tick, group=new_group, most=most_output)
        except BaseException:
            end_child(process, group=new_group)
            raise
        finally:
            close_pipes(process)
            if release is not None:
                release()
        done = Completed(args, process.returncode, as_text(out), as_text(err), time.monotonic() - start)
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
        """Run a command that speaks in lines: `on_line` gets each stdout line, `on_tick` runs every 0.1 s and may
        raise.

        `stdin` is written, and the pipe then stays open until the child ends, so that a child can notice our death. A
        last line without a line break is left out: its writer died over it. The exit status is not judged here. Raises
        Interrupted when `cancel` is set.
        """
        args = tuple(str(a) for a in argv)
        start = time.monotonic()
        process = self._spawn(args, clean_env() if env is None else env, None, subprocess.PIPE, new_group=new_group)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        pending: bytes | memoryview = stdin.encode()
        rest, errors = b"", bytearray()
        try:
            os.set_blocking(process.stdin.fileno(), False)
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdin, selectors.EVENT_WRITE)
                open_pipes = {process.stdout, process.stderr}
                for pipe in open_pipes:
                    selector.register(pipe, selectors.EVENT_READ)
                while open_pipes or not has_ended(process):
                    ended = process.poll() is not None  # before the look: what it wrote last is in the pipes then
                    ready = selector.select(POLL) if open_pipes else []
                    for key, _ in ready:
                        if key.fileobj is process.stdin:
                            pending = write_some(key.fd, pending)
                            if not pending:
                                selector.unregister(process.stdin)
                            continue
                        chunk = os.read(key.fd, 65536)
                        if key.fileobj is process.stderr:
                            errors += chunk
                        else:
                            *lines, rest = (rest + chunk).split(b"\n")
                            for line in lines:
                                on_line(as_text(line))
                        if not chunk:
                            selector.unregister(key.fileobj)
                            open_pipes.discard(key.fileobj)
                    if not ready and ended:
                        break  # a process that it left behind holds the pipes: not waited for
                    self.raise_if_cancelled()
                    on_tick()
        except BaseException:
            end_child(process, group=new_group)
            raise
        finally:
            close_pipes(process)
        return Completed(args, process.returncode, "", as_text(bytes(errors)), time.monotonic() - start)

    def _communicate(
        self,
        process: subprocess.Popen[bytes],
        args: tuple[str, ...],
        start: float,
        timeout: float | None,
        on_tick: Callable[[], None],
        *,
        group: bool,
        most: int | None,
    ) -> tuple[bytes, bytes]:
        ended: float | None = None
        while True:
            going_on = False
            try:
                out, err = process.communicate(timeout=POLL)
            except subprocess.TimeoutExpired as late:
                out, err, going_on = late.output or b"", late.stderr or b"", True
            if most is not None and max(len(out), len(err)) > most:
                end_child(process, group=group)
                raise CommandError(args, None, "", "", reason=f"it wrote more than {most} bytes")
            if not going_on:
                return out, err
            self.raise_if_cancelled()
            on_tick()
            now = time.monotonic()
            if process.poll() is not None:  # it is gone, but something that it left running holds its output
                ended = ended or now
                if group and now - ended > GRACE:
                    signal_group(process.pid, signal.SIGKILL)
                if now - ended > 2 * GRACE:
                    return rest_of_output(process)
            elif timeout is not None and now - start > timeout:
                end_child(process, group=group)
                out, err = rest_of_output(process)
                raise CommandError(args, None, as_text(out), as_text(err), reason=f"no end after {timeout:g} s")

    def raise_if_cancelled(self) -> None:
        """Raise Interrupted if the runner was cancelled; for loops that wait for something other than a command."""
        if self.cancel.is_set():
            raise Interrupted

    def _spawn_guarded(
        self, args: tuple[str, ...], env: Mapping[str, str], cwd: Path | None, stdin: IO[bytes], run_as: Account | None
    ) -> tuple[subprocess.Popen[bytes], Callable[[], None]]:
        """Start the command under run.guard.sh; return it, and a function that ends its group after the command has
        ended.
        """
        # Searched here, because the shell of the guard would turn a missing program into an exit status.
        if shutil.which(args[0], path=env.get("PATH", os.defpath)) is None:
            raise _missing(args[0], "no such program")
        reader, writer = os.pipe()
        try:
            if run_as is not None:
                os.fchown(reader, run_as.uid, run_as.gid)  # the watcher opens it again, by its name
            guarded = ("/bin/sh", "-c", script_text(__file__, "guard.sh"), "envmgr-guard", str(reader), *args)
            process = self._spawn(guarded, env, cwd, stdin, new_group=True, pass_fds=(reader,), run_as=run_as)
        except BaseException:
            os.close(writer)
            raise
        finally:
            os.close(reader)

        def release() -> None:
            signal_group(
                process.pid, signal.SIGKILL
            )  # the watcher, and what the command left; its number is still theirs
            os.close(writer)

        return process, release

    def _spawn(
        self,
        args: tuple[str, ...],
        env: Mapping[str, str],
        cwd: Path | None,
        stdin: IO[bytes] | int,
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
                cwd=cwd or Path("/"),  # nothing of the folder that the caller stands in is read: it may be a stranger's
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=new_group,
                pass_fds=pass_fds,
                **(run_as.of_a_child() if run_as is not None else {}),
            )
        except OSError as error:  # missing, not executable, no interpreter, no such folder, too many arguments
            raise _missing(args[0], str(error)) from None


def _missing(command: str, reason: str) -> EnvmgrError:
    return EnvmgrError(
        "command-missing", f"cannot run `{command}`", context=reason, hint="is it installed and executable?"
    )


_POLL = 0.005  # seconds
_GRACE = 0.5


@dataclass(frozen=True, slots=True)
class Detached:
    """A command that may be left behind. `returncode` is None if it was; `output` is what it had written by then."""

    returncode: int | None
    output: str
    error: str


def run_detached(
    argv: Sequence[str], *, seconds: float, stdin: str = "", check: Callable[[], None] = lambda: None
) -> Detached:
    """Run `argv` in `/`, for `seconds` of wall-clock time at most; `check` is called in between and may raise.

    A command that has not ended by then gets SIGTERM, and half a second later SIGKILL; it is not waited for.
    """
    # Files in memory instead of pipes: a process that hangs may hold them, and no reader waits for their end.
    with in_memory(stdin) as given, in_memory() as out, in_memory() as err:
        process = subprocess.Popen(
            argv, stdin=given, stdout=out, stderr=err, cwd="/", env=clean_env(), start_new_session=True
        )
        end = time.monotonic() + seconds
        try:
            while process.poll() is None and time.monotonic() < end:
                check()
                time.sleep(_POLL)
        finally:
            code = process.poll()
            if code is None:  # it may have files to tidy up; one that hangs in the kernel hears nothing
                end_child(process, group=True, grace=_GRACE, wait=0)
            # Also after a normal end: processes that the command left must not stay.
            signal_group(process.pid, signal.SIGKILL)
            if code is None:
                give_up(process)
        return Detached(code, _read(out), _read(err))


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "surrogateescape")
