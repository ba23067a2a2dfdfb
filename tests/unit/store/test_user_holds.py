"""Holds of users: a reader believes only the owner of a file, and takes few, short and bounded rows."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

import pytest

from envmgr.store.user_holds import make_holds_folder, read_holds
from tests.helpers.evidence import site as made_site

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
