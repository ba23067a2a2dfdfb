"""Which lines of a build are shown, and in what two of its wheels differ."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from envmgr.backends.wheels.build_call import SourceBuild, _excerpt
from envmgr.backends.wheels.build_child import _differing
from envmgr.errors import EnvmgrError
from envmgr.store.isolation import Isolation
from envmgr.system.run import Runner
from envmgr.wheels.lockfile import LockedRow


def test_lines_of_a_failed_build(tmp_path: Path) -> None:
    log = tmp_path / "log"
    frames = "".join(f'  File "/tmp/{n}.py", line {n}, in <module>\n    work()\n' for n in range(30))
    log.write_text(
        f"$ python hook\nTraceback (most recent call last):\n{frames}ModuleNotFoundError: No module named 'x'\n"
    )
    assert _excerpt(log)[-2:] == ["    work()", "ModuleNotFoundError: No module named 'x'"]
    log.write_text("$ cc\nrunning build\nfast.c:1:2: error: no such thing\n    1 | x\nerror: command 'cc' failed\n")
    assert _excerpt(log)[0] == "fast.c:1:2: error: no such thing"
    assert _excerpt(tmp_path / "absent") == []


def test_build_on_a_full_disk_says_so(tmp_path: Path) -> None:
    """Whatever wrote the file: uv, a compiler, the package itself."""
    says = ("sh", "-c", "echo 'fast.c: fatal error: No space left on device' >>log; exit 1", "sh")
    source = SourceBuild(
        row=LockedRow(name="here", version="1.0", sha256="0" * 64),
        sdist=tmp_path / "here-1.0.tar.gz",
        patches=(),
        python=Path("/usr/bin/python3.11"),
        cache=tmp_path,
        isolation=Isolation(says, "none"),
        runner=Runner(),
    )
    with pytest.raises(EnvmgrError) as told:
        source.ask("wheel", tmp_path)
    assert str(told.value).startswith(f"error[disk-full]: no space left for {tmp_path}\n")


def test_files_in_which_two_wheels_differ(tmp_path: Path) -> None:
    def wheel(place: str, content: str, year: int) -> Path:
        path = tmp_path / place / "here-1.0-py3-none-any.whl"
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(zipfile.ZipInfo("here.py", (year, 1, 1, 0, 0, 0)), content)
            archive.writestr(zipfile.ZipInfo("here-1.0.dist-info/RECORD"), content)
        return path

    first = wheel("one", "x", 2020)
    assert _differing(first, wheel("two", "y", 2020)) == ["here.py"]
    assert _differing(first, wheel("three", "x", 2021)) == ["here.py"]
    assert _differing(first, wheel("four", "x", 2020)) == ["the order of its files"]
