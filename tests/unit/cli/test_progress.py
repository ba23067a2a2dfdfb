from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from envmgr.cli import progress as console
from envmgr.cli.progress import PlainReporter, amount, make_reporter
from envmgr.report import SilentReporter
from envmgr.wording import counted, duration
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE


@pytest.mark.parametrize(
    ("done", "unit", "text"),
    [
        (12_345_678, "bytes", "12.3 MB"),
        (0, "packages", "0 packages"),
        (1, "packages", "1 package"),
        (2, "packages", "2 packages"),
        (1, "entries", "1 entry"),
        (3, "entries", "3 entries"),
        (7, "", "7"),
        (1, "", "1"),
    ],
)
def test_amount_is_short_and_has_a_unit(done: int, unit: str, text: str) -> None:
    assert amount(done, unit) == text


@pytest.mark.parametrize(
    ("number", "plural", "text"),
    [(1, "errors", "1 error"), (0, "errors", "0 errors"), (1, "entries", "1 entry"), (2, "", "2")],
)
def test_counted_takes_the_singular_for_one(number: int, plural: str, text: str) -> None:
    assert counted(number, plural) == text


def test_plain_reporter_tells_a_stage_once_it_is_done(capfd: pytest.CaptureFixture[str]) -> None:
    reporter = PlainReporter()
    with reporter.stage("download", total=3_000_000, unit="bytes") as stage:
        stage.update(1_000_000, detail="zlib")
        stage.update(3_000_000)
        assert capfd.readouterr() == ("", "")
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"download: 3\.0 MB in 0\.\d s\n", err)


def test_plain_reporter_tells_a_stage_without_amounts(capfd: pytest.CaptureFixture[str]) -> None:
    with PlainReporter().stage("solve"):
        pass
    assert re.fullmatch(r"solve: done in 0\.\d s\n", capfd.readouterr().err)


def test_plain_reporter_tells_a_long_stage_now_and_then(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_EVERY", 0.0)
    with PlainReporter().stage("unpack", total=4, unit="packages") as stage:
        stage.update(1, detail="zlib")
        stage.update(2, total=5)
    *lines, last = capfd.readouterr().err.splitlines()
    assert lines == ["unpack: 1 of 4 packages zlib (0 s)", "unpack: 2 of 5 packages (0 s)"]
    assert last.startswith("unpack: 2 packages in ")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (61, "1 min"), (3599, "59 min"), (7500, "2 h 05 min")]
)
def test_time_of_a_stage_is_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_plain_reporter_is_silent_on_a_stage_that_failed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="x"), PlainReporter().stage("solve"):
        raise ValueError("x")
    assert capfd.readouterr().err == ""


def test_plain_reporter_says_on_stderr_and_does_not_show_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    reporter = PlainReporter()
    reporter.say("[bold]hello[/bold] ä")
    reporter.log("secret")
    assert capfd.readouterr() == ("", "[bold]hello[/bold] ä\n")


def test_plain_reporter_keeps_the_lines_of_several_threads_whole(capfd: pytest.CaptureFixture[str]) -> None:
    reporter = PlainReporter()

    def work(name: str) -> None:
        for _ in range(50):
            reporter.say(name * 40)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(capfd.readouterr().err.splitlines()) == sorted(name * 40 for name in "abcd" for _ in range(50))


def test_make_reporter_is_silent_when_asked_and_plain_without_a_terminal() -> None:
    assert isinstance(make_reporter(quiet=True), SilentReporter)
    assert isinstance(make_reporter(quiet=False), PlainReporter)


def on_a_terminal(code: str) -> str:
    """What the code writes to its stderr, a terminal."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stderr=terminal, env={**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    )
    os.close(terminal)
    data = b""
    try:
        while chunk := os.read(controller, 65536):
            data += chunk
    except OSError:
        pass  # Linux tells the end of a terminal like this
    os.close(controller)
    assert process.wait(timeout=DEADLINE) == 0
    return data.decode()


def test_live_reporter_shows_markup_of_others_as_text_and_ends_with_one_line_a_stage() -> None:
    text = on_a_terminal(
        "from envmgr.cli.progress import make_reporter\n"
        "reporter = make_reporter(quiet=False)\n"
        "assert type(reporter).__name__ == 'LiveReporter'\n"
        "reporter.say('a [bold]b[/bold] [/x]')\n"
        "with reporter.stage('download', total=2, unit='packages') as stage:\n"
        "    stage.update(1, detail='zlib')\n"
        "    stage.update(2, total=2)\n"
        "with reporter.stage('unpack'): pass\n"
    )
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "a [bold]b[/bold] [/x]\r\n" in plain
    assert re.search(r"✓ download 2 packages 0\.\d s", plain)
    assert re.search(r"✓ unpack +0\.\d s", plain)


def test_live_reporter_shows_how_many_of_how_many_and_the_time() -> None:
    text = on_a_terminal(
        "from envmgr.cli.progress import make_reporter\n"
        "reporter = make_reporter(quiet=False)\n"
        "with reporter.stage('build', total=13, unit='steps') as stage:\n"
        "    stage.update(7, detail='install')\n"
        "    reporter._progress.refresh()\n"
    )
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert re.search(r"build \S+ +7 of 13 steps install 0:00:\d\d", plain), plain


def test_live_reporter_takes_stages_of_several_threads() -> None:
    text = on_a_terminal(
        "import threading\n"
        "from envmgr.cli.progress import LiveReporter\n"
        "reporter = LiveReporter()\n"
        "def work(name):\n"
        "    for n in range(5):\n"
        "        with reporter.stage(f'{name}{n}', total=3) as stage:\n"
        "            for k in range(3): stage.update(k)\n"
        "threads = [threading.Thread(target=work, args=(name,)) for name in 'abc']\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
    )
    assert sorted(set(re.findall(r"✓\S* ([abc][0-4]) 2", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)))) == sorted(
        f"{name}{n}" for name in "abc" for n in range(5)
    )
