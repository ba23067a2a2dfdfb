"""The lines of a job's output: whole ones, cut ones, and an output that is no file or says nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envmgr.errors import InputError
from envmgr.people import job_output
from envmgr.people.job_output import JobLoad, read_job_output

LINE = "envmgr: pydata/1.0, generation 12, digest f5b62cae, on c[1-2],d7\n"
LOADED = JobLoad("pydata/1.0", 12, "f5b62cae")


def loads(path: Path, content: str) -> tuple[JobLoad, ...]:
    path.write_text(content, "latin-1")
    found, owner = read_job_output(path)
    assert owner == os.geteuid()
    return found


def fault(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_job_output(path)
    return caught.value.render()


def test_last_line_of_an_entry_counts(tmp_path: Path) -> None:
    other = "envmgr: user/mine, generation 12, digest 01234567, on c1\r\n"
    again = LINE.replace("12", "13")
    assert loads(tmp_path / "out", f"pr\xfcfe\n{LINE}\xe9\n{other}") == (LOADED, JobLoad("user/mine", 12, "01234567"))
    assert loads(tmp_path / "out", LINE + again) == (JobLoad("pydata/1.0", 13, "f5b62cae"),)


def test_line_that_is_cut_and_other_lines_do_not_count(tmp_path: Path) -> None:
    cut = LINE[: LINE.index(", on") + 4]
    said = f"{cut}\nenvmgr: on c1: it is slow\n {LINE}envmgr: app/1: no runtime\nenvmgr: a/1, generation , digest , on c1\n"
    (tmp_path / "out").write_text(said)
    assert fault(tmp_path / "out") == (
        f"error[job-output]: {tmp_path}/out does not say what the job loaded\n"
        "  it has no line `envmgr: ENTRY, generation NUMBER, digest DIGEST, on NODES`\n\n"
        "hint: scripts that `envmgr job` prints write this line; for another job, compare generations: "
        "`envmgr history` lists them"
    )


def test_of_a_huge_output_only_the_beginning_and_the_end_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_output, "_END", 1000)
    far, end = (LINE.replace("pydata", name) for name in ("far", "end"))
    found = loads(tmp_path / "out", f"{LINE}{'x' * 5000}\n{far}{'x' * 5000}\n{end}")
    assert found == (LOADED, JobLoad("end/1.0", 12, "f5b62cae"))


def test_what_cannot_be_read_is_said_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    hint = "hint: name the file that the job's output went to, or the number of a generation"
    for path, why in (
        (tmp_path / "pipe", f"job's output {tmp_path}/pipe is a pipe, and no regular file"),
        (tmp_path, f"job's output {tmp_path} is a folder, and no regular file"),
        (tmp_path / "none", f"[Errno 2] No such file or directory: '{tmp_path}/none'"),
    ):
        said = f"error[job-output]: cannot read the job's output {path}\n  {why}\n\n{hint}"
        assert fault(path) == said
