"""Local processes on the event loop: one bounded answer each, and nothing is left running."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from envmgr.nodes.clients import Call, Client, Loop
from tests.helpers.waiting import DEADLINE, soon

END = b"\n--end--"
ENV = {"PATH": "/usr/bin:/bin"}


def call(script: str, *, stdin: bytes = b"", most: int = 1 << 20, timeout: float = DEADLINE) -> Call:
    return Call("c1", ("/bin/sh", "-c", script), ENV, stdin, END, most, timeout)


def run(calls: Sequence[Call], on_tick: Callable[[], None] = lambda: None) -> list[Client]:
    ended: list[Client] = []
    running: list[Client] = []

    def tick() -> None:
        if not running:
            running.extend(loop.start(each, ended.append) for each in calls)
            loop.stop()
        on_tick()
        for client in running:
            client.look(time.monotonic())

    loop = Loop(tick)
    loop.run()
    return ended


def test_a_large_script_is_sent_whole_and_its_answer_taken() -> None:
    text = b"x" * (5 << 20)
    [client] = run([call("head -c 5242880 | wc -c; printf '\\n--end--\\n'", stdin=text)])
    assert client.output.split() == [b"5242880", b"--end--"]
    assert (client.ending, client.status) == ("exit", 0)


def test_stdin_stays_open_until_the_answer_is_there() -> None:
    [client] = run(
        [call("read -r line; sleep 0.3; read -r line && echo more || echo over; ", stdin=b"one\n", timeout=1)]
    )
    assert (client.ending, bytes(client.output)) == ("timeout", b"")


def test_an_answer_without_an_end_is_cut_off() -> None:
    [client] = run([call("yes", most=100_000)])
    assert client.ending == "overflow"
    assert len(client.output) < 1_000_000


def test_a_process_that_lives_on_after_its_answer_is_not_waited_for() -> None:
    start = time.monotonic()
    [client] = run([call("printf 'a\\n--end--\\n'; exec sleep 1000")])
    assert (client.ending, bytes(client.output)) == ("exit", b"a\n--end--\n")
    assert time.monotonic() - start < DEADLINE
    assert soon(lambda: client.process.poll() is not None)


def test_a_process_that_closed_its_output_is_not_waited_for() -> None:
    [client] = run([call("exec >&-; exec sleep 1000")])
    assert (client.ending, client.status) == ("exit", None)
    assert soon(lambda: client.process.poll() is not None)


def test_one_that_holds_stderr_does_not_hold_the_answer() -> None:
    """As a kept ssh connection does."""
    [client] = run([call("echo why >&2; sleep 5 >&- & exit 255")])
    assert (client.ending, client.status, client.errors) == ("exit", 255, b"why\n")
    assert client.ended - client.began < 4


def test_many_run_at_once_and_none_is_lost() -> None:
    start = time.monotonic()
    ended = run([call(f"sleep 1; echo {number}") for number in range(60)])
    assert sorted(int(client.output) for client in ended) == list(range(60))
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, TimeoutError])
def test_an_exception_ends_all_that_runs_and_comes_out(error: type[BaseException]) -> None:
    ended: list[Client] = []

    def tick() -> None:
        if not ended:
            ended.append(loop.start(call("exec sleep 1000"), dropped.append))
        else:
            raise error

    dropped: list[Client] = []
    loop = Loop(tick)
    with pytest.raises(error):
        loop.run()
    assert dropped == ended
    assert dropped[0].ending == "dropped"
    assert dropped[0].process.poll() is not None


def test_an_exception_of_whoever_takes_an_answer_ends_all_that_runs() -> None:
    running: list[Client] = []

    def take(client: Client) -> None:
        if client.ending != "dropped":
            raise TimeoutError

    def tick() -> None:
        if not running:
            running.extend(loop.start(call(script), take) for script in ("echo one", "exec sleep 1000"))

    loop = Loop(tick)
    with pytest.raises(TimeoutError):
        loop.run()
    assert [client.ending for client in running] == ["exit", "dropped"]
    assert all(client.process.poll() is not None for client in running)


def test_it_runs_in_any_thread_and_closes_all_its_files() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    answers: list[bytes] = []

    def ask() -> None:
        answers.extend(bytes(client.output) for client in run([call("echo one"), call("echo one")]))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert answers == [b"one\n"] * 6
    assert len(list(Path("/proc/self/fd").iterdir())) == before
