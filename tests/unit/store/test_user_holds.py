"""Holds of users: a reader believes only the owner of a file, and takes few, short and bounded rows."""

from __future__ import annotations

import datetime
import json
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from envmgr.catalog.site_file import UserSettings
from envmgr.store.user_holds import clear_false_holds, make_holds_folder, read_holds
from tests.helpers.evidence import site as made_site
from tests.helpers.open_folders import open_to_all

PATH = "store/sci/1.0-0123abcd"


def day(days: int) -> str:
    return (datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=days)).isoformat()


def holds(until: str = "", installs: object = (PATH,)) -> dict[str, object]:
    return {"schema": 1, "environments": "mine", "until": until or day(9), "installs": installs}


def folder(tmp_path: Path):
    site = made_site().model_copy(update={"prefix": tmp_path})
    (tmp_path / "var").mkdir()
    make_holds_folder(site)
    return site, tmp_path / "var/users"


def test_a_hold_names_its_install_user_and_day(tmp_path: Path) -> None:
    site, place = folder(tmp_path)
    assert place.stat().st_mode & 0o7777 == 0o1777
    (place / str(os.getuid())).write_text(json.dumps(holds()))
    (found,) = read_holds(site)
    assert found[0] == PATH
    assert found[1].startswith("environments of ")
    assert found[1].endswith(f"held until {day(9)}")


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(holds(until=day(-1))),
        json.dumps(holds(until=day(5000))),
        json.dumps(holds(installs=["store/../../etc/passwd-01234567"])),
        json.dumps(holds(installs=["generations/0001"])),
        json.dumps(holds(installs=[PATH] * 3000)),
        json.dumps({**holds(), "more": 1}),
        "[" * 100_000,
        "x" * 100_000,
        "",
        "\x00",
    ],
)
def test_what_is_no_hold_holds_nothing(tmp_path: Path, text: str) -> None:
    site, place = folder(tmp_path)
    (place / str(os.getuid())).write_text(text)
    assert [*read_holds(site)] == []


def test_another_owner_a_link_and_a_pipe_hold_nothing_and_nothing_waits(tmp_path: Path) -> None:
    site, place = folder(tmp_path)
    text = json.dumps(holds())
    (place / "54321").write_text(text)
    (tmp_path / "elsewhere").write_text(text)
    (place / str(os.getuid())).symlink_to(tmp_path / "elsewhere")
    assert [*read_holds(site)] == []
    (place / str(os.getuid())).unlink()
    os.link(tmp_path / "elsewhere", place / str(os.getuid()))
    assert [*read_holds(site)] == []
    (place / str(os.getuid())).unlink()
    os.mkfifo(place / str(os.getuid()))
    assert [*read_holds(site)] == []
    assert [*read_holds(site.model_copy(update={"prefix": tmp_path / "missing"}))] == []


def test_what_is_no_hold_is_removed_and_told_and_nothing_elsewhere(tmp_path: Path) -> None:
    site, place = folder(tmp_path)
    own, temporary = place / str(os.getuid()), place / f".{os.getuid()}.1.2.tmp"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("stays")
    own.write_text(json.dumps(holds()))
    temporary.write_text("a write under way")
    (place / "54321/closed").mkdir(parents=True)
    (place / "54321/closed/link").symlink_to(tmp_path / "elsewhere")
    (place / "54321/closed").chmod(0o500)
    (place / "54322").symlink_to(tmp_path / "elsewhere")
    (place / "54323").write_text(json.dumps(holds()))
    (place / "wrong\nname").write_text("")
    me = pwd.getpwuid(os.getuid()).pw_name
    names = ["54321", "54322", "54323", "wrong\\nname"]
    assert [*clear_false_holds(site, dry_run=True)] == [
        f"would remove {place}/{name} of {me}: no hold" for name in names
    ]
    assert [*clear_false_holds(site)] == [f"removed {place}/{name} of {me}: no hold" for name in names]
    assert {*place.iterdir()} == {own, temporary}
    assert (tmp_path / "elsewhere/file").read_text() == "stays"
    assert [*clear_false_holds(site)] == []


def test_in_a_folder_that_the_site_names_other_things_stay(tmp_path: Path) -> None:
    site, _ = folder(tmp_path)
    (other := tmp_path / "other").mkdir()
    for name in ("file", "54321"):
        (other / name).write_text("")
    site = site.model_copy(update={"users": UserSettings(holds=other)})
    assert len([*clear_false_holds(site)]) == 1
    assert [*other.iterdir()] == [other / "file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone becomes another user")
def test_folder_that_the_build_user_cannot_empty_keeps_nobody_from_holding(tmp_path: Path) -> None:
    """Neither can root at once, where it is nested too deep."""
    site, place = folder(tmp_path)
    open_to_all(tmp_path)
    for name in ("54321", "54322"):
        (place / name).mkdir(mode=0o700)
        os.chown(place / name, 54320, 54320)
    (place / "54321/file").write_text("")
    os.chown(place, 65534, 65534)
    os.seteuid(65534)
    try:
        told = [*clear_false_holds(site)]
    finally:
        os.seteuid(0)
    (aside,) = place.iterdir()
    assert aside.name.startswith("no-hold-")
    assert told == [
        f"{place}/54321 of uid 54320 is no hold; only root can remove {aside} ([Errno 13] Permission denied: '{aside.name}')",
        f"removed {place}/54322 of uid 54320: no hold",
    ]
    assert [*clear_false_holds(site)] == [f"removed {aside} of uid 54320: no hold"]
    subprocess.run(
        ["sh", "-c", "mkdir 54321; cd 54321; for i in $(seq 1500); do mkdir a; cd a; done"], cwd=place, check=True
    )
    try:
        (told_of,) = clear_false_holds(site)
        (aside,) = place.iterdir()
        assert told_of.startswith(f"{place}/54321 of root is no hold; only root can remove {aside} (")
    finally:  # pytest cannot remove it either
        subprocess.run(["rm", "-rf", place], check=True)
