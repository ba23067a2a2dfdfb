"""What the shell text of folders of modulefiles tells, run here on folders of many, closed and moved files, and what is made of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envmgr.audit.checks import hierarchy
from envmgr.audit.shell import folder_content as module
from envmgr.audit.shell.folder_content import by_folder, changed, contents, folder_content, names
from envmgr.audit.shell.shared_shell import shared
from envmgr.probe import shell as probe
from envmgr.probe.model import Facts, Fleet, Group
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, told
from tests.helpers.open_folders import open_to_all


def facts(folder: Path, room: Path, *, user: str | None = None) -> Facts:
    library = script_text(probe.__file__ or "", "library.sh")
    script = f"mark= who=/dev/null job=\nroom={room}\n{library}{folder_content(deep=False)}\nfolder_content modulefiles 1 {folder}"
    argv = ["/bin/sh", "-c", script, str(room / "stage")]
    if user is not None:
        argv = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", *argv]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd="/")
    return read_lines(done.stdout.splitlines())


@pytest.fixture
def room(tmp_path: Path) -> Path:
    path = tmp_path / "room"
    path.mkdir()
    path.chmod(0o777)
    return path


def tree(top: Path, packages: int, versions: int) -> Path:
    for package in range(packages):
        (top / f"p{package:02}").mkdir(parents=True)
        for version in range(versions):
            (top / f"p{package:02}/{version}.lua").write_text(f"-- {package} {version}\n")
    return top


def value(of: Facts) -> str:
    (folder,) = by_folder("modulefiles", Fleet((Group(of, ("c1",)),), {}, {}, ())).values()
    (found,) = contents(folder)
    return found


def test_changed_file_among_few_is_named(tmp_path: Path, room: Path) -> None:
    top = tree(tmp_path / "m", 3, 2)
    before = value(facts(top, room))
    (top / "p01/1.lua").write_text("-- another\n")
    assert changed(value(facts(top, room)), before) == "p01/1.lua"


def test_changed_file_among_thousands_is_named_by_its_folder(tmp_path: Path, room: Path) -> None:
    top = tree(tmp_path / "m", 40, 50)
    before = facts(top, room)
    assert len(before["modulefiles.files.1"].splitlines()) == 40
    (top / "p39/49.lua").write_text("-- 39 4x\n")  # the last of 2,000, and as long as it was
    assert changed(value(facts(top, room)), value(before)) == "p39/…"


def test_lost_and_new_files_are_named(tmp_path: Path, room: Path) -> None:
    top = tree(tmp_path / "m", 2, 2)
    before = value(facts(top, room))
    (top / "p00/1.lua").rename(top / "p00/9.lua")
    assert names(value(facts(top, room)), before) == "lacks p00/1.lua; has p00/9.lua"


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become another user")
def test_what_the_user_cannot_read_is_told(tmp_path: Path, room: Path) -> None:
    open_to_all(tmp_path)
    top = tree(tmp_path / "m", 2, 2)
    (top / "p00").chmod(0o700)
    (top / "p01/0.lua").chmod(0o600)
    assert facts(top, room, user="65534")["modulefiles.closed.1"].splitlines() == ["p00", "p01/0.lua"]
    assert "modulefiles.closed.1" not in facts(top, room)


def named(*lines: str) -> list[str]:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{shared('named_paths')}\nnamed_paths"],
        input="".join(f"{x}\n" for x in lines),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_paths_that_are_not_there_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    gone = tmp_path / "gone"
    found = named(f"x {gone}/.", f"x {gone}/bin", f"y {gone}/bin", f"x {tmp_path}/there", f"x {gone}s")
    assert found == [f"x {gone}", f"x {gone}s", f"y {gone}/bin"]


def test_blanks_in_names_of_modulefiles_end_nothing(tmp_path: Path, room: Path) -> None:
    gone = tmp_path / "gone"
    assert named(f"my tool/1.0 {gone}", "odd words without a path", f"my tool/1.0 {gone}/bin") == [
        f"my tool/1.0 {gone}"
    ]
    (tmp_path / "m").mkdir()
    (tmp_path / "m/my tool.lua").write_text(f'prepend_path("PATH", "{gone}/bin")\n')
    assert facts(tmp_path / "m", room)["modulefiles.absent.1"] == f"my tool.lua {gone}/bin"


OPENS = {"hierarchy.opens.gcc/13": "/m/gcc/13"}
HAS = {
    "hierarchy.sum.1": f"{'a' * 64} /m/gcc/13",
    "hierarchy.files.1": f"{'b' * 16}  ./hdf5/1.lua",
    "hierarchy.by.1": "gcc/13",
}


def test_folders_that_modules_open_are_compared() -> None:
    whole = OPENS | HAS
    assert told(hierarchy, evidence({"c1": whole, "c2": whole, "c3": whole})) == []
    absent = OPENS | {"hierarchy.absent": "/m/gcc/13"}
    (line,) = told(hierarchy, evidence({"c1": whole, "c2": absent, "c3": whole}))
    assert line.startswith(
        "warning c2: gcc/13: it opens /m/gcc/13, which is not there | it opens /m/gcc/13, as on c[1,3] | "
    )
    other = OPENS | HAS | {"hierarchy.sum.1": f"{'c' * 64} /m/gcc/13", "hierarchy.files.1": f"{'b' * 16}  ./hdf5/2.lua"}
    (line,) = told(hierarchy, evidence({"c1": whole, "c2": whole, "c3": other}))
    assert line.startswith("warning c3: /m/gcc/13: lacks hdf5/1.lua; has hdf5/2.lua | ")
    by_cpu = {"hierarchy.opens.gcc/13": "/m/zen3"} | HAS
    (line,) = told(hierarchy, evidence({"c1": whole, "c2": whole, "c3": by_cpu}))
    assert line.startswith("note c3: gcc/13: it opens /m/zen3 | ")
    fails = {"hierarchy.opens.gcc/13": "!"}
    (line,) = told(hierarchy, evidence({"c1": fails, "c2": whole, "c3": whole}))
    assert line.startswith("warning c1: gcc/13: it cannot be loaded | ")
    assert told(hierarchy, evidence({"c1": {}, "c2": whole, "c3": whole})) == []  # not drawn there


def test_slow_server_is_told_as_what_it_is() -> None:
    slow = {"hierarchy.names_only": "/m/gcc/13"}
    (line,) = told(hierarchy, evidence({"c1": OPENS | HAS, "c2": OPENS | slow, "c3": OPENS | HAS}))
    assert line.startswith(f"note c2: /m/gcc/13: contents not looked at: no end in {2 * module._SECONDS} s | ")
