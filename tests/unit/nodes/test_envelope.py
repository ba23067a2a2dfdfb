"""A script's envelope: every script through real shells, every answer through every kind of noise."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envmgr.nodes.envelope import ScriptAnswer, begun, end_mark, marked, unwrap, wrap
from envmgr.system.shelltext import quote
from tests.helpers.scripts import begins_slowly
from tests.helpers.waiting import DEADLINE, long_enough, soon

NONCE = "0123456789abcdef"
SHELLS = ["dash", "bash"]


def answer(body: bytes, *, status: int = 0, limit: int = 1 << 20, nonce: str = NONCE) -> bytes:
    """What a node prints for a script's `body`."""
    return b"\n--envmgr:%s:begin--\n%s\n--envmgr:%s:end:%d:%d--\n" % (
        nonce.encode(),
        body,
        nonce.encode(),
        status,
        limit,
    )


def sent(
    shell: str, script: str, *, limit: int = 1 << 20, timeout: float = DEADLINE, hard: bool = False
) -> subprocess.Popen[bytes]:
    """The wrapped script, given to a shell as sshd does: in a session of its own, stdin left open."""
    process = subprocess.Popen(
        [f"/bin/{shell}", "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(wrap(script, NONCE, limit=limit, timeout=timeout, hard=hard).encode("utf-8", "surrogateescape"))
    process.stdin.flush()
    return process


def finished(process: subprocess.Popen[bytes], seconds: float = DEADLINE) -> tuple[bytes, bytes]:
    """stdout and stderr, at their end; stdin stays open until then, as `communicate` would not have it."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.read(), process.stderr.read()
    process.wait(seconds)
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()
    return out, err


def asked(shell: str, script: str, **options: int) -> ScriptAnswer:
    return unwrap(finished(sent(shell, script, **options))[0], NONCE)


def group(process: subprocess.Popen[bytes]) -> list[str]:
    """Command lines of the process group that the shell leads."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
            line = (path.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if int(fields[2]) == process.pid and fields[0] != "Z":
            found.append(line)
    return found


def ends_soon(process: subprocess.Popen[bytes]) -> bool:
    return soon(lambda: not group(process))


# -- the way there -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("script", "text", "reason"),
    [
        ("echo hello", "hello\n", ""),
        ("printf 'no newline'", "no newline", ""),
        ("", "", ""),
        ("echo before; exit 7; echo after", "before\n", "the script ended with status 7"),
        ("echo ok; if then", "", "the script ended with status 2"),
        ("}; echo 'it''s' \"$HOME\" >/dev/null; {", "", "the script ended with status 2"),
        ("cat <<'X'\nit's ${a} `b` \\ }\nX", "it's ${a} `b` \\ }\n", ""),
        ("cat; echo $?", "0\n", ""),  # our stdin is not the script's
        ("set -- a b; echo $#; f() { return 3; }; f; echo $?", "2\n3\n", ""),
        ("echo $#$envmgr_status", "0\n", ""),
        ("kill -KILL $(sh -c 'echo $PPID')", "", "the script ended with status 137"),
        ("PATH=; echo fine", "fine\n", ""),
        ("head() { :; }; sleep() { :; }; echo fine", "fine\n", ""),
    ],
)
def test_wrap_answers_what_the_script_prints(shell: str, script: str, text: str, reason: str) -> None:
    # how a syntax error's status is counted differs between shells; that it is caught does not
    found = asked(shell, script)
    assert found.status == "answered"
    if "status 2" in reason:
        assert found.reason.startswith("the script ended with status")
    else:
        assert (found.text, found.reason) == (text, reason)


@pytest.mark.parametrize("shell", SHELLS)
def test_wrap_takes_a_script_longer_than_an_argument_can_be(shell: str) -> None:
    script = "echo start\n" + "# it's a comment\n" * 20_000 + "echo end\n"
    assert len(script) > 300_000
    assert asked(shell, script).text == "start\nend\n"


@settings(max_examples=40)
@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=60))
def test_wrap_carries_every_character(text: str) -> None:
    found = asked("dash", f"printf %s {quote(text)}")
    assert (found.status, found.text) == ("answered", text)


@pytest.mark.parametrize("shell", SHELLS)
def test_wrap_cuts_the_answer_at_its_limit(shell: str) -> None:
    assert asked(shell, "yes", limit=5000) == ScriptAnswer("silent", "", "the answer is longer than 5.0 kB")
    assert asked(shell, "head -c 5000 /dev/zero | tr '\\0' x", limit=5000).text == "x" * 5000


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("shell", SHELLS)
def test_wrap_leaves_nothing_running_after_its_answer(shell: str, *, hard: bool) -> None:
    process = sent(
        shell, "sleep 1299 >/dev/null 2>&1 & (trap '' TERM; sleep 1298) >/dev/null 2>&1 & echo done", hard=hard
    )
    assert unwrap(finished(process)[0], NONCE).text == "done\n"
    assert ends_soon(process), group(process)
    assert process.returncode == (-signal.SIGKILL if hard else 0)


@pytest.mark.parametrize("shell", SHELLS)
def test_wrap_kills_the_script_when_nobody_waits_any_more(shell: str) -> None:
    process = sent(shell, "echo begun; sleep 1299; echo never")
    assert process.stdout is not None
    assert process.stdin is not None
    while b"begin--" not in process.stdout.readline():
        pass
    assert soon(lambda: any("sleep 1299" in line for line in group(process)))
    process.stdin.close()
    assert ends_soon(process), group(process)
    assert not unwrap(b"\n--envmgr:%s:begin--\n" % NONCE.encode() + process.stdout.read(), NONCE).text
    process.wait()
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()


@pytest.mark.parametrize("shell", SHELLS)
def test_wrap_kills_the_script_after_its_time(shell: str) -> None:
    def answered(limit: float) -> tuple[subprocess.Popen[bytes], bytes]:
        process = sent(shell, "sleep 1299", timeout=limit)
        return process, finished(process)[0]

    process, out = long_enough(answered, lambda found: begun(found[1], NONCE), first=1)
    assert unwrap(out, NONCE) == ScriptAnswer("silent", "", "half an answer: 0 B and no end")
    assert ends_soon(process), group(process)


@pytest.mark.parametrize("shell", SHELLS)
def test_wrap_lets_the_script_tidy_up_when_its_time_is_over(shell: str, tmp_path: Path) -> None:
    """On a busy node that takes its time, too."""
    file = tmp_path / "f"
    begins = tmp_path / "begun"
    script = f"trap 'sleep 4.2; rm {file}' EXIT; trap 'trap \"\" TERM; exit 1' TERM; touch {file} {begins}; sleep 1299"
    long_enough(lambda limit: finished(sent(shell, script, timeout=limit)), lambda _: begins.exists(), first=1)
    assert soon(lambda: not file.exists())


@pytest.mark.parametrize("shell", SHELLS)
def test_wrap_ends_a_script_that_missed_the_first_signal(shell: str, tmp_path: Path) -> None:
    file = tmp_path / "f"
    process = sent(shell, begins_slowly(file))
    assert soon(file.exists)
    assert process.stdin is not None
    process.stdin.close()
    assert soon(lambda: not file.exists())
    finished(process)
    assert ends_soon(process), group(process)


def test_marked_keeps_exported_functions_and_environment_of_its_shell() -> None:
    script = "module >/dev/null 2>&1; echo $?; env | grep -c '^envmgr'"
    done = subprocess.run(
        ["bash", "-c", marked(script, NONCE, limit=999)],
        capture_output=True,
        check=True,
        env={**os.environ, "BASH_FUNC_module%%": "() { return 9; }"},
    )
    assert unwrap(done.stdout, NONCE).text == "9\n0\n"


# -- the way back ------------------------------------------------------------------------------------------------------

NOISE = st.binary(max_size=200).filter(lambda noise: b"--envmgr:" not in noise)


@given(NOISE, st.text(st.characters(blacklist_categories=["Cs"])), NOISE)
def test_unwrap_finds_the_answer_in_any_noise(before: bytes, text: str, after: bytes) -> None:
    assert unwrap(before + answer(text.encode()) + after, NONCE) == ScriptAnswer("answered", text, "")


@given(st.binary(max_size=300))
def test_unwrap_never_fails(output: bytes) -> None:
    found = unwrap(output, NONCE)
    assert found.status == "silent"
    assert "\n" not in found.reason
    assert found.reason


@given(NOISE, st.binary(max_size=200), st.integers(0, 400))
def test_unwrap_never_takes_a_part_for_the_whole(before: bytes, body: bytes, cut: int) -> None:
    output = before + answer(body)
    found = unwrap(output[:cut], NONCE)
    if found.status == "answered":
        assert found == unwrap(output, NONCE)


def test_unwrap_takes_bytes_that_are_no_text() -> None:
    assert unwrap(answer(b"a\xffb\0c"), NONCE).text == "a\\xffb\0c"


def test_unwrap_undoes_a_terminals_line_ends_and_keeps_the_scripts_own() -> None:
    assert unwrap(answer(b"a\nb\n").replace(b"\n", b"\r\n"), NONCE).text == "a\nb\n"
    assert unwrap(answer(b"a\r\nb"), NONCE).text == "a\r\nb"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (b"", "no answer"),
        (b" \n\n", "no answer"),
        (answer(b"").replace(b":0:", b": head141:"), "/usr/bin/head does not run there"),
        (b"Welcome to the cluster!\nbye\n", 'no answer among 28 B of output, which begin "Welcome to the cluster!"'),
        (b"x" * 1000, f'no answer among 1.0 kB of output, which begin "{"x" * 30}…"'),
        (b"\n\n\x1b[31mred\x1b[0m", 'no answer among 14 B of output, which begin "[31mred [0m"'),
        (answer(b"a" * 1234)[: 1234 + 35], "half an answer: 1.2 kB and no end"),
        (answer(b"x", nonce="feedbeef"), f"the answer of another run (feedbeef, asked by {NONCE})"),
        (answer(b"x" * 5000, limit=4096), "the answer is longer than 4.1 kB"),
        (answer(b"x" * (5 << 20), limit=4 << 20), "the answer is longer than 4.2 MB"),
        (
            end_mark(NONCE) + b"0:99--\n",
            'no answer among 38 B of output, which begin "--envmgr:0123456789abcdef:end:…"',
        ),
    ],
)
def test_unwrap_says_what_is_wrong_in_one_line(output: bytes, reason: str) -> None:
    assert unwrap(output, NONCE) == ScriptAnswer("silent", "", reason)
