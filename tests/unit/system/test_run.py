from __future__ import annotations

import gc
import itertools
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.errors import CommandError, EnvmgrError, Interrupted
from envmgr.system import processes
from envmgr.system.run import Completed, Runner, clean_env
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE, long_enough, soon

SH = "/bin/sh"


def sh(script: str, **options: object) -> Completed:
    return Runner().run([SH, "-c", script], **options)  # type: ignore[arg-type]


def stream(
    script: str, stdin: str = "", runner: Runner | None = None, **options: object
) -> tuple[list[str], Completed]:
    lines: list[str] = []
    done = (runner or Runner()).stream(
        [sys.executable, "-c", script],
        stdin=stdin,
        on_line=lines.append,
        **options,  # type: ignore[arg-type]
    )
    return lines, done


def alive(pid: int) -> bool:
    """Whether it still runs: a zombie that its new parent has not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_in(path: Path) -> int:
    assert soon(lambda: path.exists() and path.read_text().endswith("\n")), f"{path} was never written"
    return int(path.read_text())


def times_out(script: str, begun: Path) -> None:
    """The script does not end by itself, and is ended after it has made the file `begun`."""

    def run(limit: float) -> None:
        with pytest.raises(CommandError, match=rf"no end after {limit:g} s".replace(".", r"\.")):
            sh(script, timeout=limit)

    long_enough(run, lambda _: begun.exists())


@pytest.fixture
def cancelled_soon(tmp_path: Path) -> Iterator[tuple[Runner, Path]]:
    """A runner whose `cancel` another thread sets as soon as the file given with it is written."""
    runner, ready = Runner(), tmp_path / "ready"
    end = threading.Event()

    def cancel() -> None:
        while not end.is_set() and not (ready.exists() and ready.read_text().endswith("\n")):
            time.sleep(0.02)
        runner.cancel.set()

    thread = threading.Thread(target=cancel)
    thread.start()
    yield runner, ready
    end.set()
    thread.join()


@pytest.fixture(scope="module", autouse=True)
def quick_collections() -> Iterator[None]:
    """What pytest and hypothesis hold need not be looked at twice a test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.4)


@pytest.fixture(autouse=True)
def no_open_pipes() -> Iterator[None]:
    """Every test here fails when it leaves a pipe open or a zombie behind."""
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are what is compared
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(w.message) for w in caught if issubclass(w.category, ResourceWarning)] == []
    after = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert len(after) <= len(before)


def test_run_returns_output_and_status_as_text() -> None:
    done = sh("printf 'out ä'; printf err >&2; exit 3", check=False)
    assert (done.argv[:2], done.returncode, done.stdout, done.stderr) == ((SH, "-c"), 3, "out ä", "err")
    assert done.seconds > 0


def test_run_raises_for_a_failed_command_with_the_end_of_its_output() -> None:
    with pytest.raises(CommandError) as caught:
        sh("for n in $(seq 30); do echo line $n >&2; done; echo out; exit 7")
    error = caught.value
    assert (error.returncode, error.stdout, error.exit_code) == (7, "out\n", 3)
    assert error.message.endswith("` failed: exit status 7")
    assert error.context == tuple(f"line {n}" for n in range(19, 31))


def test_run_names_the_signal_that_ended_a_command() -> None:
    with pytest.raises(CommandError) as caught:
        sh("kill -9 $$")
    assert caught.value.render() == f"error[command-failed]: `{SH} -c kill -9 $$` failed: SIGKILL (out of memory?)"


def test_run_gives_stdin_and_then_its_end() -> None:
    text = "x" * 1_000_000
    assert Runner().run(["wc", "-c"], stdin=text).stdout.strip() == "1000000"
    assert Runner().run(["cat"]).stdout == ""


def test_run_does_not_mind_a_command_that_does_not_read_its_stdin() -> None:
    assert sh("exit 0", stdin="x" * 1_000_000).returncode == 0


def test_run_takes_folder_and_environment(tmp_path: Path) -> None:
    done = sh("pwd; echo $ONE-$HOME", cwd=tmp_path, env={"ONE": "1"})
    assert done.stdout == f"{tmp_path}\n1-\n"


def test_run_lets_nothing_of_our_environment_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD_X", "1")
    monkeypatch.setenv("PYTHONPATH", "/x")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("HOME", "/home/x")
    env = dict(line.split("=", 1) for line in sh("env").stdout.splitlines())
    assert env.keys() <= {*"PATH LANG LC_ALL TZ HOME USER LOGNAME TMPDIR PWD SHLVL _ OLDPWD".split()}
    assert (env["LC_ALL"], env["TZ"], env["HOME"]) == ("C.UTF-8", "UTC", "/home/x")
    assert clean_env(EXTRA="1", TZ="X") | {"EXTRA": "1", "TZ": "X"} == clean_env(EXTRA="1", TZ="X")


def test_run_keeps_big_output_of_both_streams() -> None:
    done = sh("head -c 3000000 /dev/zero | tr '\\0' a; head -c 3000000 /dev/zero | tr '\\0' b >&2")
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 3_000_000)
    assert (set(done.stdout), set(done.stderr)) == ({"a"}, {"b"})


def test_run_shows_bytes_that_are_not_utf_8() -> None:
    assert sh(r"printf 'a\377b\303\244'").stdout == r"a\xffbä"


@pytest.mark.parametrize("new_group", [True, False])
def test_run_tells_a_command_that_is_missing(new_group: bool) -> None:
    with pytest.raises(EnvmgrError) as caught:
        Runner().run(["no-such-command", "--help"], new_group=new_group)
    error = caught.value
    assert (error.reference, error.message) == ("command-missing", "cannot run `no-such-command`")
    assert error.hint == "is it installed and executable?"


@pytest.mark.parametrize("new_group", [True, False])
def test_run_tells_a_command_that_cannot_be_executed(tmp_path: Path, new_group: bool) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    with pytest.raises(EnvmgrError) as caught:
        Runner().run([tmp_path / "tool"], new_group=new_group)
    assert (caught.value.reference, caught.value.message) == ("command-missing", f"cannot run `{tmp_path / 'tool'}`")


def test_run_tells_a_program_that_the_kernel_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"\x7fELF no program")
    (tmp_path / "tool").chmod(0o755)
    with pytest.raises(EnvmgrError) as caught:
        Runner().run([tmp_path / "tool"], new_group=False)
    assert caught.value.reference == "command-missing"
    assert caught.value.context == (f"[Errno 8] Exec format error: '{tmp_path / 'tool'}'",)


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_run_tells_a_folder_that_is_none(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvmgrError) as caught:
        Runner().run(["true"], cwd=tmp_path / kind)
    assert str(tmp_path / kind) in caught.value.context[0]


def test_run_ends_a_command_that_takes_too_long_and_keeps_what_it_wrote() -> None:
    def ended(limit: float) -> tuple[float, CommandError]:
        with pytest.raises(CommandError) as caught:
            sh("echo begun; echo trouble >&2; sleep 1200", timeout=limit)
        return limit, caught.value

    limit, error = long_enough(ended, lambda found: found[1].stderr)
    assert error.message == f"`{SH} -c echo begun; echo trouble >&2; sleep 1200` failed: no end after {limit:g} s"
    assert (error.returncode, error.stdout, error.stderr) == (None, "begun\n", "trouble\n")


@pytest.mark.usefixtures("short_grace")
def test_run_kills_what_ignores_sigterm_at_a_timeout(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    times_out(f"trap '' TERM; echo $$ >{pid}; while :; do sleep 1; done", pid)
    assert not alive(pid_in(pid))


def test_run_gives_children_their_grace_though_their_leader_ends_at_once(tmp_path: Path) -> None:
    """As of srun in a script: it takes its job out of the queue when it hears that it has to end."""
    told, ready = tmp_path / "told", tmp_path / "ready"
    child = f"trap 'sleep 0.5; touch {told}; exit' TERM; touch {ready}; while :; do sleep 0.05; done"
    times_out(f'sh -c "{child}" & wait', ready)
    assert told.exists()


@pytest.mark.usefixtures("short_grace")
def test_run_returns_though_a_daemon_of_the_command_keeps_the_pipes(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = sh(f"setsid sh -c 'echo $$ >{pid}; exec sleep 1200' & while ! [ -s {pid} ]; do sleep 0.02; done; echo done")
    assert (done.returncode, done.stdout) == (0, "done\n")
    os.kill(pid_in(pid), signal.SIGKILL)


@pytest.mark.usefixtures("short_grace")
def test_run_is_not_held_up_by_a_daemon_that_keeps_the_pipes(tmp_path: Path) -> None:
    """It left our process group, so we cannot end it; its command's timeout must count all the same."""
    pid = tmp_path / "pid"
    times_out(f"setsid sh -c 'echo $$ >{pid}; exec sleep 1200' & sleep 1200", pid)
    os.kill(pid_in(pid), signal.SIGKILL)


def test_run_ends_what_a_finished_command_left_behind(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = sh(
        f"sh -c 'echo $$ >{pid}; exec sleep 1200' >/dev/null 2>&1 & while ! [ -s {pid} ]; do sleep 0.02; done; echo ok"
    )
    assert done.stdout == "ok\n"
    assert soon(lambda: not alive(pid_in(pid)))


@pytest.mark.parametrize("patience", ["", "trap '' TERM; "], ids=["meek", "ignores-sigterm"])
def test_run_cancelled_by_another_thread_kills_the_whole_group(
    tmp_path: Path, cancelled_soon: tuple[Runner, Path], patience: str
) -> None:
    runner, ready = cancelled_soon
    child, grandchild = tmp_path / "child", tmp_path / "grandchild"
    inner = f"echo $$ >{grandchild}; sleep 1200; sleep 1200"
    script = f"{patience}echo $$ >{child}; ({patience}sh -c '{inner}') & while ! [ -s {grandchild} ]; do sleep 0.02; done; echo 1 >{ready}; sleep 1200; sleep 1200"
    with pytest.raises(Interrupted):
        runner.run([SH, "-c", script])
    assert soon(lambda: not alive(pid_in(child)))
    assert soon(lambda: not alive(pid_in(grandchild)))


def test_run_does_not_start_once_cancelled(tmp_path: Path) -> None:
    event = threading.Event()
    event.set()
    with pytest.raises(Interrupted):
        Runner(event).run(["touch", tmp_path / "f"])
    with pytest.raises(Interrupted):
        Runner(event).stream(["touch", tmp_path / "f"], stdin="", on_line=print)
    assert list(tmp_path.iterdir()) == []


def test_run_cancelled_stops_several_threads(cancelled_soon: tuple[Runner, Path]) -> None:
    runner, ready = cancelled_soon
    ended: list[str] = []

    def work() -> None:
        try:
            runner.run(["sleep", "1200"])
        except Interrupted:
            ended.append("interrupted")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert soon(lambda: sum(len(p.read_text().split()) for p in Path("/proc/self/task").glob("*/children")) >= 4)
    ready.write_text("1\n")
    for thread in threads:
        thread.join(DEADLINE)
    assert ended == ["interrupted"] * 4


def test_run_dies_with_us_even_by_kill_9(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"from envmgr.system.run import Runner; Runner().run(['/bin/sh', '-c', 'echo $$ >{pid}; sleep 1200; sleep 1200'])"
    us = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    child = pid_in(pid)
    us.kill()
    us.wait()
    assert soon(lambda: not alive(child))


# Says a number, and goes on once the file of this name is there: with status 1 when it never comes.
ANSWERED = f"""
import os, sys, time
for n in sys.argv[1:]:
    print(n, flush=True)
    end = time.monotonic() + {DEADLINE}
    while not os.path.exists(n):
        sys.exit(1) if time.monotonic() > end else time.sleep(0.01)
"""


def test_stream_gives_each_line_as_it_comes(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in "abc"]
    done = Runner().stream([sys.executable, "-c", ANSWERED, *files], stdin="", on_line=lambda line: Path(line).touch())
    assert done.returncode == 0


def test_stream_returns_stderr_and_status_unjudged() -> None:
    lines, done = stream("import sys; print('a'); print(); sys.stderr.write('bad\\n'); sys.exit(5)")
    assert (lines, done.stdout, done.stderr, done.returncode) == (["a", ""], "", "bad\n", 5)


def test_stream_leaves_out_a_line_that_its_writer_died_over() -> None:
    lines, done = stream("import os; os.write(1, b'whole\\nhal'); os.kill(os.getpid(), 9)")
    assert (lines, done.returncode) == (["whole"], -9)


def test_stream_shows_bytes_that_are_not_utf_8() -> None:
    assert stream(r"import os; os.write(1, b'a\xff\xc3'); os.write(1, b'\xa4\n'); os.write(2, b'\xfe')")[0] == [
        r"a\xffä"
    ]


def test_stream_takes_big_output_of_both_streams_and_long_lines() -> None:
    script = "import os\nfor n in range(30): os.write(2, b'e' * 100000); os.write(1, b'o' * 99999 + b'\\n')"
    lines, done = stream(script)
    assert lines == ["o" * 99999] * 30
    assert done.stderr == "e" * 3_000_000


def test_stream_writes_big_input_to_a_child_that_talks_first() -> None:
    script = "import os, sys\nos.write(1, b'o' * 500000 + b'\\n')\nprint(len(sys.stdin.readline()))"
    lines, _ = stream(script, stdin="i" * 500_000 + "\n")
    assert lines == ["o" * 500_000, "500001"]


def test_stream_does_not_mind_a_child_that_never_reads() -> None:
    lines, done = stream("print('no')", stdin="i" * 1_000_000)
    assert (lines, done.returncode) == (["no"], 0)


def test_stream_keeps_stdin_open_until_the_child_ends() -> None:
    script = (
        "import select, sys\n"
        "print(sys.stdin.readline().strip(), flush=True)\n"
        "print('end' if select.select([sys.stdin], [], [], 0.5)[0] else 'open', flush=True)\n"
    )
    assert stream(script, stdin="request\n")[0] == ["request", "open"]


def test_stream_lets_the_child_notice_our_death(tmp_path: Path) -> None:
    child = f"import os, sys; open({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n'); sys.stdin.read(); open({str(tmp_path / 'told')!r}, 'w')"
    code = f"import sys; from envmgr.system.run import Runner; Runner().stream([sys.executable, '-c', {child!r}], stdin='x', on_line=print)"
    us = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    pid = pid_in(tmp_path / "pid")
    us.kill()
    us.wait()
    assert soon((tmp_path / "told").exists)
    assert soon(lambda: not alive(pid))


def test_stream_ticks_while_nothing_is_said(tmp_path: Path) -> None:
    ticks, third = itertools.count(1), tmp_path / "third"
    command = [sys.executable, "-c", ANSWERED, str(third)]

    def tick() -> None:
        if next(ticks) == 3:
            third.touch()

    assert Runner().stream(command, stdin="", on_line=str, on_tick=tick).returncode == 0


def test_stream_ends_the_child_when_a_callback_raises(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"import os, time; open({str(pid)!r}, 'w').write(f'{{os.getpid()}}\\n'); print('x', flush=True); time.sleep(1200)"

    def refuse(line: str) -> None:
        raise ValueError(line)

    with pytest.raises(ValueError, match="x"):
        Runner().stream([sys.executable, "-c", script], stdin="", on_line=refuse)
    assert not alive(pid_in(pid))


def test_stream_cancelled_by_another_thread_ends_the_group(tmp_path: Path, cancelled_soon: tuple[Runner, Path]) -> None:
    runner, ready = cancelled_soon
    pid = tmp_path / "pid"
    script = f"sh -c 'echo $$ >{pid}; sleep 1200; sleep 1200' & while ! [ -s {pid} ]; do sleep 0.02; done; echo 1 >{ready}; sleep 1200"
    with pytest.raises(Interrupted):
        runner.stream([SH, "-c", script], stdin="x" * 1_000_000, on_line=print)
    assert soon(lambda: not alive(pid_in(pid)))


def test_stream_is_not_held_up_by_a_daemon_that_keeps_the_pipes(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    lines: list[str] = []
    script = f"setsid sh -c 'echo $$ >{pid}; exec sleep 1200' & while ! [ -s {pid} ]; do sleep 0.02; done; echo done"
    done = Runner().stream([SH, "-c", script], stdin="", on_line=lines.append)
    assert (lines, done.returncode) == (["done"], 0)
    os.kill(pid_in(pid), signal.SIGKILL)


def test_stream_reads_what_a_child_wrote_last_though_it_ended_between_two_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look finds nothing; before it is known whether the child has ended, the child writes, and ends."""
    go, pid = tmp_path / "go", tmp_path / "pid"

    class LateSelector(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            found = super().select(timeout)
            if not found and pid.exists() and not go.exists():
                go.touch()
                os.waitid(os.P_PID, int(pid.read_text()), os.WEXITED | os.WNOWAIT)
            return found

    monkeypatch.setattr(selectors, "DefaultSelector", LateSelector)
    script = 'echo $$ >"$1/new" && mv "$1/new" "$1/pid"; while [ ! -e "$1/go" ]; do sleep 0.01; done; echo last'
    lines: list[str] = []
    done = Runner().stream(["/bin/sh", "-c", script, "sh", tmp_path], stdin="", on_line=lines.append)
    assert (lines, done.returncode) == (["last"], 0)


def test_command_stands_in_no_folder_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs read files of the folder that they stand in, and a caller may stand in a stranger's."""
    monkeypatch.chdir(tmp_path)
    assert sh("pwd").stdout == "/\n"
    assert sh("pwd", cwd=tmp_path).stdout == f"{tmp_path}\n"


def test_command_gets_all_of_its_input_however_late_it_reads() -> None:
    """More than a pipe holds, to one that does not read for longer than we look at once; no input is an end of file."""
    text = "x" * 300_000
    assert Runner().run(["sh", "-c", "sleep 0.4; wc -c"], stdin=text, timeout=10).stdout == "300000\n"
    assert Runner().run(["sh", "-c", "sleep 0.2; wc -c"], timeout=DEADLINE, new_group=False).stdout == "0\n"
    leaves = ["sh", "-c", "exec <&-; sleep 0.2; echo done"]
    assert Runner().run(leaves, stdin=text, timeout=DEADLINE).stdout == "done\n"


@pytest.mark.parametrize("stream", [1, 2])
def test_run_ends_a_command_that_writes_without_end(stream: int) -> None:
    with pytest.raises(CommandError, match="it wrote more than 1048576 bytes"):
        Runner().run(["sh", "-c", f"exec yes >&{stream}"], most_output=1 << 20)
