"""What the inventory says of modulefiles that other tools made: its shell text, run here on folders of few, many, closed and moved files."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.audit.inventory.facts import NodeInventory, read_inventory
from envmgr.probe.shell import read_answer
from tests.helpers.inventory_texts import changes, place, run

__all__ = ["place"]  # a fixture
AS_NOBODY = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups")


@pytest.fixture
def top(place: Path) -> Path:
    folder = place / "m"
    for package in ("a", "b"):
        (folder / package).mkdir(parents=True)
        for version in (1, 2):
            (folder / f"{package}/{version}.lua").write_text(
                f'prepend_path("PATH", "{place}/sw/{package}/{version}/bin")\n'
            )
            (place / f"sw/{package}/{version}/bin").mkdir(parents=True)
    return folder


def read(answer: str) -> NodeInventory:
    found = read_inventory(read_answer(answer)[0], scope="login")
    return replace(found, values={at: value for at, value in found.values.items() if not at[1].endswith("/")})


def look(place: Path, top: Path, *argv: str) -> str:
    return run("login", place, *argv, "sh", before=f"MODULEPATH={top}:/sw/modules:{place}/none")


def test_changed_file_lost_file_and_lost_software_are_each_a_row(place: Path, top: Path) -> None:
    before = read(look(place, top))
    assert {key for kind, key in before.values} == {f"{top}/{of}/{n}.lua" for of in "ab" for n in (1, 2)}
    (top / "a/1.lua").write_text(f'prepend_path("PATH", "{place}/sw/a/1/bin") -- changed\n')
    (top / "b/2.lua").unlink()
    shutil.rmtree(place / "sw/a/2")
    found = changes(before, read(look(place, top)))
    assert sorted(found) == [
        ("modfile", f"{top}/a/1.lua"),
        ("modfile", f"{top}/b/2.lua"),
        ("modpath", f"{place}/sw/a/2/bin"),
    ]
    assert found["modpath", f"{place}/sw/a/2/bin"][1] == f"not there: {top}/a/2.lua names it"
    assert found["modfile", f"{top}/b/2.lua"][1] is None


def test_modulefile_that_names_no_software_that_is_there_says_so(place: Path, top: Path) -> None:
    (top / "a/1.lua").write_text('prepend_path("PATH", "/apps/none/1/bin")\nsetenv("TMPDIR", "/scratch/none")\n')
    found = read(look(place, top)).values
    assert found["modpath", "/apps/none/1/bin"] == f"not there: {top}/a/1.lua names it, and no software that is there"
    assert found["modpath", "/scratch/none"] == f"not there: {top}/a/1.lua names it"


def test_name_of_a_file_that_holds_a_line_is_no_fact_of_another_kind(place: Path, top: Path) -> None:
    (top / "a/3.lua\nmount\t\tx").touch(0)
    assert "inventory.mount" not in look(place, top, *(AS_NOBODY if os.geteuid() == 0 else ()))


def test_very_many_files_are_a_row_for_each_folder(place: Path, top: Path) -> None:
    for number in range(400):
        (top / f"a/n{number:03}.lua").write_text(f"-- {number}\n")
    before = read(look(place, top))
    assert {key for kind, key in before.values if kind == "modfile"} == {f"{top}/a", f"{top}/b"}
    (top / "b/1.lua").write_text("-- another\n")
    assert [*changes(before, read(look(place, top)))] == [("modfile", f"{top}/b")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_what_the_user_cannot_read_is_closed(place: Path, top: Path) -> None:
    (top / "a/1.lua").chmod(0o600)
    (place / "sw/b").chmod(0o700)
    found = read(look(place, top, *AS_NOBODY)).values
    assert found["modfile", f"{top}/a/1.lua"] == "closed"
    assert found["modpath", f"{place}/sw/b"] == f"closed: {top}/b/1.lua names it"


def test_folder_that_hangs_closes_its_kinds(place: Path, top: Path) -> None:
    (place / "bin").mkdir()
    (place / "bin/find").write_text("#!/bin/sh\nexec sleep 1000\n")
    (place / "bin/find").chmod(0o755)
    answer = run("login", place, "sh", before=f"MODULEPATH={top}; PATH={place}/bin:$PATH; modules_test=yes", seconds=2)
    assert {"modfile", "modpath"} <= read(answer).closed
