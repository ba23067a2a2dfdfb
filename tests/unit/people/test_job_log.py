"""The lines of a job's log: whole ones, cut ones, those in another encoding, and a log that is no file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envmgr.errors import InputError
from envmgr.people import job_log
from envmgr.people.job_log import LoggedLoad, read_log

LINE = "envmgr: pydata/1.0, generation 12, digest f5b62cae, on c[1-2],d7\n"
LOADED = LoggedLoad("pydata/1.0", 12, "f5b62cae", "c[1-2],d7", "", "")
WITH_DRIVER = LINE.replace("d7\n", "d7, driver 535.54.03 on c1\n")


def loads(tmp_path: Path, content: bytes) -> list[LoggedLoad]:
    path = tmp_path / "job.out"
    path.write_bytes(content)
    return [*read_log(path).loads]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_line_is_found_in_each_encoding(tmp_path: Path, encoding: str) -> None:
    assert loads(tmp_path, f"prüfe\n{LINE}é\n".encode(encoding)) == [LOADED]


def test_line_of_windows_and_one_with_a_driver(tmp_path: Path) -> None:
    assert loads(tmp_path, LINE.replace("\n", "\r\n").encode()) == [LOADED]
    assert loads(tmp_path, WITH_DRIVER.encode()) == [LoggedLoad(*"pydata/1.0 12".split()[:1], 12, "f5b62cae", "c[1-2],d7", "535.54.03", "c1")]  # fmt: skip


def test_of_a_line_that_is_cut_only_whole_words_count(tmp_path: Path) -> None:
    found = {}
    for length in range(len(LINE)):
        for load in loads(tmp_path, LINE[:length].encode()):
            assert load.cut
            found[LINE[:length]] = (load.entry, load.generation, load.digest)
    assert set(found.values()) == {("pydata/1.0", None, ""), ("pydata/1.0", 12, ""), ("pydata/1.0", 12, "f5b62cae")}
    assert found["envmgr: pydata/1.0, generation 1"][1] is None
    assert found["envmgr: pydata/1.0, generation 12, digest f5b62cae"][2] == ""


def test_other_lines_of_envmgr_say_no_load(tmp_path: Path) -> None:
    said = b"envmgr: on c1: it is slow\n envmgr: a/1, generation 1, digest f5b62cae, on c1\nenvmgr: app/1: no runtime\n"
    assert loads(tmp_path, said) == []


def test_of_a_huge_log_only_the_beginning_and_the_end_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "_END", 1000)
    path = tmp_path / "job.out"
    other = LINE.replace("pydata", "other").encode()
    path.write_bytes(LINE.encode() + b"x\n" * 5000 + other + b"x\n" * 5000 + WITH_DRIVER.encode())
    log = read_log(path)
    assert [(load.entry, load.driver) for load in log.loads] == [("pydata/1.0", ""), ("pydata/1.0", "535.54.03")]
    assert log.unread == path.stat().st_size - 2000


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError, match="no regular file"):
            read_log(path)
