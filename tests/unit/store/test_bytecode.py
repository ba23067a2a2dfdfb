"""The bytecode of an install: the same bytes for any number of processes, and never a part of a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envmgr.store.bytecode import compile_python

FILES = {
    "small.py": "VERSION = 1\n",
    # Modules that compileall loads have such a constant too, which marshal marks.
    "shared.py": "def f(x):\n    return x in {'linux', 'android'} or x in {None, 1}\n",
    "inner/deep.py": "'''Doc.'''\nclass A:\n    def f(self, a=1, *, b='some text'):\n        return [a, b, (1, 2, 3)]\n",
    "inner/latin.py": "# coding: latin-1\nNAME = '\xe9'\n",
    "inner/tests/case.py": "x = 1\n",
}


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    made = tmp_path / "staging"
    (made / "bin").mkdir(parents=True)
    (made / "bin/python").symlink_to(Path(sys.executable).resolve())
    for name, text in FILES.items():
        path = library(made) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    return made


def library(staging: Path) -> Path:
    return staging / "lib" / f"python3.{sys.version_info.minor}"


def compiled(staging: Path, jobs: int, **options: Any) -> tuple[dict[str, bytes], dict[str, dict[str, Any]]]:
    """The bytecode of the files, and the events."""
    said: dict[str, dict[str, Any]] = {}
    compile_python(staging, "/final", jobs, lambda event, **facts: said.update({event: facts}), **options)
    return {str(path.relative_to(staging)): path.read_bytes() for path in staging.rglob("*.pyc")}, said


def test_any_number_of_processes_writes_what_several_of_compileall_write(staging: Path) -> None:
    argv = [sys.executable, "-s", "-S", "-B", "-m", "compileall", "-q", "-f", "-j", "2", "-s", staging, "-p", "/final"]
    argv += ["--invalidation-mode", "unchecked-hash", library(staging)]
    subprocess.run(argv, check=True, env={"PYTHONHASHSEED": "0"})
    found = {str(path.relative_to(staging)): path.read_bytes() for path in staging.rglob("*.pyc")}
    assert len(found) == len(FILES)
    for jobs in (1, 2, 3, 16):
        again, events = compiled(staging, jobs)
        assert again == found, jobs
        assert events["compiling"] == {"files": len(FILES)}


def test_what_does_not_compile_is_told_and_does_no_harm(staging: Path) -> None:
    (library(staging) / "python2.py").write_text("print 1\n")
    (library(staging) / "null.py").write_bytes(b"x = 1\0")
    (library(staging) / "deep.py").write_text("-" * 100_000 + "1")
    (library(staging) / "folder.py").mkdir()
    (library(staging) / "gone.py").symlink_to("nowhere")
    found, events = compiled(staging, 2)
    assert len(found) == len(FILES)
    log = sorted(line.partition(": ")[0].rpartition("/")[2] for line in events["compiled"]["log"].splitlines())
    assert log == ["deep.py", "null.py", "python2.py"]


def test_folders_named_tests_can_be_left_out(staging: Path) -> None:
    found, events = compiled(staging, 2, tests=False)
    assert len(found) == len(FILES) - 1
    assert events["compiling"] == {"files": len(FILES) - 1}


def test_old_bytecode_is_replaced_and_not_what_it_links_to(staging: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    cache = library(staging) / "__pycache__"
    cache.mkdir()
    (cache / f"small.{sys.implementation.cache_tag}.pyc").symlink_to(other)
    (cache / f"shared.{sys.implementation.cache_tag}.pyc").hardlink_to(other)
    assert len(compiled(staging, 2)[0]) == len(FILES)
    assert other.read_text() == "mine"


def test_file_that_cannot_be_written_is_an_error(staging: Path) -> None:
    (library(staging) / "inner/__pycache__").write_text("a file")
    with pytest.raises(
        ChildProcessError, match=r"^bytecode was not written: lib/python3\.\d+/inner/\w+\.py: File exists\nlib"
    ):
        compiled(staging, 2)


def test_process_that_is_killed_is_an_error(staging: Path) -> None:
    (staging / "bin/python").unlink()
    (staging / "bin/python").write_text("#!/bin/sh\nkill -9 $$\n")
    (staging / "bin/python").chmod(0o755)
    with pytest.raises(ChildProcessError, match=r"^bytecode was not compiled: exit status -9"):
        compiled(staging, 2)
