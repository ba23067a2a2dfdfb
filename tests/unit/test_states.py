"""What a hint made of a cluster, by three states of it: before a drift, with it, and once the hint was followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.states import State, Thing, differences, of_hint, thing_at

PATH = ("c2", "/root/x.sh")
OTHER = ("c1", "/root/x.sh")


def text(*lines: str, mode: str = "0:0") -> Thing:
    return Thing("-rw-r--r--", mode, lines)


@pytest.mark.parametrize(
    ("was", "had", "has", "harmed", "lost"),
    [
        (text("a", "b"), text("a", "b", "bad"), text("a", "b"), False, False),
        (text("a", "b"), text("bad", "a", "b", "more"), text("a", "b", "more"), False, False),
        (text("a", "b"), text("a", "b", "bad"), text("a"), True, True),
        (text("a", "b"), text("a", "b", "bad"), None, True, True),
        (text("a", "b"), text("a"), text("a"), False, True),
        (text("a", "b"), text("a", "b"), text("a"), True, False),
        (text("a"), text("a"), text("a", "bad"), True, False),
        (text("a"), text("a", mode="1:1"), text("a"), False, False),
        (text("a"), text("a", mode="1:1"), text("a", mode="2:2"), False, True),
        (None, text("bad", "more"), text("more"), False, False),
        (None, text("bad"), None, False, False),
        (None, None, text("bad"), True, False),
        (text("a"), None, text("a"), False, False),
        (text("a"), None, text("b"), False, True),
    ],
)
def test_healthy_lines_stay_and_what_the_drift_took_comes_back(
    was: Thing | None, had: Thing | None, has: Thing | None, harmed: bool, lost: bool
) -> None:
    states: list[State] = [{PATH: thing} if thing else {} for thing in (was, had, has)]
    assert of_hint(*states) == (["/root/x.sh on c2"] * harmed, ["/root/x.sh on c2"] * lost)


def test_what_the_drift_brought_may_be_moved_and_not_copied_to_what_was_healthy() -> None:
    drift = text("bad")
    moved: State = {("c2", "/root/away/x.sh"): drift, ("c2", "/root/away"): Thing("drwxr-xr-x", "0:0")}
    assert of_hint({}, {PATH: drift}, moved) == ([], [])
    healthy: State = {OTHER: text("good")}
    assert of_hint(healthy, {**healthy, PATH: drift}, {OTHER: drift, PATH: drift}) == (["/root/x.sh on c1"], [])
    behind: State = {(node, PATH[1]): text("good", "new") for node in ("c1", "c3")}
    assert of_hint({}, behind, {**behind, PATH: text("good", "new")}) == ([], [])
    others: State = {PATH: text("good"), **{key: text("good") for key in behind}}
    assert of_hint(others, {**others, **behind}, {**behind, PATH: text("good", "new")}) == ([], [])


def test_a_mount_is_a_thing_too() -> None:
    at, over = ("c2", "mount of /opt/x"), Thing("mount", "", ("/ rw tmpfs t",))
    home: State = {("c2", "mount of /home"): Thing("mount", "", ("/ rw ext4 x",))}
    assert of_hint(home, {**home, at: over}, home) == ([], [])
    assert of_hint(home, {**home, at: over}, {}) == (["mount of /home on c2"], [])
    assert differences(home, {**home, at: over}) == ["mount of /opt/x on c2"]


def test_comments_and_blank_lines_do_not_count_and_bytes_do(tmp_path: Path) -> None:
    file, like = tmp_path / "a", tmp_path / "b"
    file.write_text("# more\n\n  export A=1\n")
    like.write_text("export A=1\n")
    assert thing_at(file) == thing_at(like)
    like.write_bytes(b"\0\1")
    file.write_bytes(b"\0\2")
    assert thing_at(file) != thing_at(like)
    like.chmod(0o600)
    (tmp_path / "c").symlink_to("a")
    assert [thing.kind for thing in map(thing_at, (like, tmp_path / "c", tmp_path)) if thing] == [
        "-rw-------",
        "l",
        "drwx------",
    ]
    assert thing_at(tmp_path / "none") is None
