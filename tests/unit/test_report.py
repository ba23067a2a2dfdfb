from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr import report
from envmgr.report import LoggedReporter, SilentReporter, Stage
from envmgr.wording import binary_size, size_text
from tests.helpers.waiting import DEADLINE

LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})Z (.*)")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345, "12.3 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (1_500_000_000, "1.50 GB"),
        (1_234_000_000_000, "1234.00 GB"),
    ],
)
def test_size_has_decimal_units(count: int, text: str) -> None:
    assert size_text(count) == text


def test_size_that_somebody_made_up_is_text_as_well() -> None:
    assert size_text(10**400) == "1000000000.00 GB"


@given(st.integers(0, 10**15))
def test_size_is_as_large_as_the_count_within_a_rounding(count: int) -> None:
    number, unit = size_text(count).split()
    value = float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
    assert abs(value - count) <= max(0.5, count * 0.051)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (65536, "64 KiB"),
        (1536 << 10, "1.5 MiB"),
        (8 << 20, "8 MiB"),
        (1 << 40, "1024 GiB"),
        (8247123456, "7.7 GiB"),
    ],
)
def test_size_of_memory_has_binary_units(count: int, text: str) -> None:
    assert binary_size(count) == text


class Updates:
    def __init__(self, events: list[str]) -> None:
        self.events = events

    def update(self, done: int, *, total: int | None = None, detail: str = "") -> None:
        self.events.append(f"update {done} of {total} {detail}")


class Recorder:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @contextmanager
    def stage(self, label: str, *, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        self.events.append(f"stage {label} of {total} {unit}")
        yield Updates(self.events)
        self.events.append(f"end {label}")

    def say(self, text: str) -> None:
        self.events.append(f"say {text}")

    def log(self, text: str) -> None:
        self.events.append(f"log {text}")


def texts(path: Path) -> list[str]:
    """The log's lines without their times, which are checked."""
    found = [LINE.fullmatch(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert all(found)
    now = datetime.datetime.now(datetime.UTC)
    times = [datetime.datetime.fromisoformat(m[1] + "+00:00") for m in found if m]
    assert times == sorted(times)
    assert all(abs((now - t).total_seconds()) < 60 for t in times)
    return [m[2] for m in found if m]


def test_logged_reporter_makes_its_file_at_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "var" / "log" / "x.log"
    reporter = LoggedReporter(SilentReporter(), path)
    reporter.close()
    assert not path.parent.exists()
    reporter.log("first")
    reporter.close()
    assert texts(path) == ["first"]


def test_logged_reporter_writes_each_line_with_its_time_at_once(tmp_path: Path) -> None:
    reporter = LoggedReporter(SilentReporter(), tmp_path / "x.log")
    reporter.log("one\ntwo\n\nfour ä")
    reporter.log("")
    assert texts(tmp_path / "x.log") == ["one", "two", "", "four ä", ""]
    reporter.close()


def test_logged_reporter_says_to_the_person_and_logs_for_the_file_only(tmp_path: Path) -> None:
    inner = Recorder()
    reporter = LoggedReporter(inner, tmp_path / "x.log")
    reporter.say("hello")
    reporter.log("detail")
    with reporter.stage("unpack", total=3, unit="files") as stage:
        stage.update(1, total=4, detail="zlib")
    reporter.close()
    assert inner.events == ["say hello", "stage unpack of 3 files", "update 1 of 4 zlib", "end unpack"]
    assert texts(tmp_path / "x.log") == ["hello", "detail", "begin unpack", "end unpack"]


def test_logged_reporter_logs_no_end_of_a_stage_that_failed(tmp_path: Path) -> None:
    reporter = LoggedReporter(SilentReporter(), tmp_path / "x.log")
    with pytest.raises(ValueError, match="broke"), reporter.stage("unpack"):
        raise ValueError("broke")
    reporter.close()
    assert texts(tmp_path / "x.log") == ["begin unpack"]


def test_logged_reporter_writes_names_that_are_not_utf_8(tmp_path: Path) -> None:
    reporter = LoggedReporter(SilentReporter(), tmp_path / "x.log")
    reporter.log(os.fsdecode(b"a\xff"))
    reporter.close()
    assert texts(tmp_path / "x.log") == [r"a\udcff"]


def test_logged_reporter_goes_on_after_close(tmp_path: Path) -> None:
    reporter = LoggedReporter(SilentReporter(), tmp_path / "x.log")
    for text in ("a", "b"):
        reporter.log(text)
        reporter.close()
        reporter.close()
    assert texts(tmp_path / "x.log") == ["a", "b"]


def test_logged_reporter_survives_a_full_disk_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_regular", lambda path: os.open(path, os.O_WRONLY))  # a device stands for the disk
    inner = Recorder()
    reporter = LoggedReporter(inner, Path("/dev/full"))
    for n in range(3):
        reporter.log(f"line {n}")
    reporter.say("still here")
    reporter.close()
    reporter.log("after")
    reporter.close()
    assert inner.events == [
        "say warning: the log /dev/full cannot be written: No space left on device",
        "say still here",
    ]


def test_logged_reporter_survives_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "log" / "x.log"
    inner = Recorder()
    reporter = LoggedReporter(inner, path)
    reporter.say("hello")
    reporter.close()
    assert inner.events == [f"say warning: the log {path} cannot be written: Not a directory", "say hello"]


def test_logged_reporter_leaves_no_file_open_after_a_full_disk() -> None:
    code = (
        "import gc, warnings\n"
        "from pathlib import Path\n"
        "from envmgr.report import LoggedReporter, SilentReporter\n"
        "reporter = LoggedReporter(SilentReporter(), Path('/dev/full'))\n"
        "reporter.log('x' * 100000)\n"
        "reporter.close()\n"
        "del reporter\n"
        "gc.collect()\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=False, timeout=DEADLINE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_logged_reporter_keeps_the_lines_of_several_threads_whole(tmp_path: Path) -> None:
    reporter = LoggedReporter(SilentReporter(), tmp_path / "x.log")

    def work(name: str) -> None:
        for n in range(50):
            reporter.log(f"{name * 50} {n}\n{name} next")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reporter.close()
    lines = texts(tmp_path / "x.log")
    assert sorted(lines[::2]) == sorted(f"{name * 50} {n}" for name in "abcd" for n in range(50))
    assert lines[1::2] == [f"{before[0]} next" for before in lines[::2]]


def test_silent_reporter_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    reporter = SilentReporter()
    reporter.say("x")
    reporter.log("y")
    with reporter.stage("z", total=1, unit="files") as stage:
        stage.update(1, total=2, detail="d")
    assert capfd.readouterr() == ("", "")
