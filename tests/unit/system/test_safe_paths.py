"""What is changed, given away or removed where others can write: each race is played, at the call between which they would win it."""

from __future__ import annotations

import ast
import os
import pwd
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.wheels.locking import _give
from envmgr.builds.prepare import _give_public, _give_to_group, clean_leftovers
from envmgr.catalog.site import Site, load_site
from envmgr.errors import EnvmgrError
from envmgr.publish.generations import publishing
from envmgr.report import LoggedReporter, SilentReporter
from envmgr.store.manifest import remove_install
from envmgr.store.prefix import Prefix
from envmgr.store.tree import make_read_only
from envmgr.system import users
from envmgr.system.files import atomic_write, remove_tree
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change, remove_below, way_to
from envmgr.system.users import Account, require_account, runs_for_root
from tests.helpers.places import ROOT

NOBODY = pwd.getpwnam("nobody")
NOGROUP = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give files away")


def strangers(path: Path) -> Path:
    os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of root's with a file in it, where nobody is to reach."""
    folder = tmp_path / "victim"
    (folder / "inner").mkdir(parents=True)
    (folder / "file").write_text("kept")
    (folder / "inner/file").write_text("kept")
    return folder


def seen(folder: Path) -> list[tuple[str, int, int, int]]:
    return [(str(p), s.st_mode, s.st_uid, s.st_gid) for p in (folder, *sorted(folder.rglob("*"))) for s in (p.lstat(),)]


def after(monkeypatch: pytest.MonkeyPatch, call: str, name: str, do: Callable[[], object]) -> list[str]:
    """Once, when `os.<call>` has come back from what has this last name; the list has it then."""
    real, done = getattr(os, call), list[str]()

    def hooked(path: Any, *rest: Any, **more: Any) -> Any:
        found = real(path, *rest, **more)
        if not done and _last_name(path) == name:
            done.append(name)
            do()
        return found

    monkeypatch.setattr(os, call, hooked)
    return done


def after_listing(monkeypatch: pytest.MonkeyPatch, name: str, do: Callable[[], object]) -> list[str]:
    """Once, when a folder was listed, and what lies in it was looked at."""
    real, done = os.scandir, list[str]()

    @contextmanager
    def hooked(path: Any = ".") -> Iterator[Iterator[os.DirEntry[str]]]:
        with real(path) as entries:
            found = list(entries)
        for entry in found:
            entry.stat(follow_symlinks=False)
        if not done and _last_name(path) == name:
            done.append(name)
            do()
        yield iter(found)

    monkeypatch.setattr(os, "scandir", hooked)
    return done


def _last_name(path: Any) -> str:
    if isinstance(path, int):
        return Path(f"/proc/self/fd/{path}").readlink().name
    return Path(os.fsdecode(path)).name


def becomes_a_link(path: Path, target: Path) -> Callable[[], None]:
    def swap() -> None:
        path.rename(path.with_name(f"{path.name}.before"))
        path.symlink_to(target)

    return swap


# The way to a place


@as_root
def test_way_tells_who_else_could_change_what_lies_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "way").symlink_to("a")

    def fault(path: str) -> str:
        with way_to(tmp_path / path) as way:
            return way.fault.replace(str(tmp_path), "HERE")

    for path in ("a/b/c", "way/b/c", "a/../a/b/c", "a/b"):
        assert fault(path) == ""
    (tmp_path / "a").chmod(0o777)
    assert fault("way/b/c") == "HERE/a can be written by everyone"
    (tmp_path / "a").chmod(0o1777)
    assert fault("way/b/c") == ""
    strangers(tmp_path / "a/b")
    assert fault("a/b/c") == "HERE/a/b belongs to nobody, neither to you nor to root"
    strangers(tmp_path / "way")
    assert fault("way/x") == "HERE/way belongs to nobody, neither to you nor to root"
    with way_to(tmp_path / "way/x") as way:
        assert (way.name, way.link) == ("x", str(tmp_path / "way"))


def test_way_of_links_in_a_circle_ends(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"), way_to(tmp_path / "one/x"):
        pass


# The prefix, which root makes for the build user


def prepare(monkeypatch: pytest.MonkeyPatch, prefix: Path) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    monkeypatch.setattr(users, "_PACKAGE", Path("/usr"))
    runs_for_root("nobody", prefix, mask=0o022)


@as_root
def test_prefix_that_becomes_a_link_before_it_is_given_away_takes_nothing_with_it(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, before = tmp_path / "sw", seen(victim)
    played = after(monkeypatch, "mkdir", "sw", becomes_a_link(prefix, victim))
    with pytest.raises(EnvmgrError):
        prepare(monkeypatch, prefix)
    assert played
    assert seen(victim) == before


@as_root
def test_prefix_is_not_made_where_somebody_else_could_put_another(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = tmp_path / "door"
    door.mkdir()
    strangers(door)
    (door / "way").symlink_to(victim)
    strangers(door / "way")
    before = seen(victim)
    for place in (door / "sw", door / "way/sw", door / "way/more/sw"):
        with pytest.raises(EnvmgrError) as caught:
            prepare(monkeypatch, place)
        assert (
            caught.value.render()
            == (
                f"error[folder-untrusted]: {place} is not made: {door} belongs to nobody, neither to you nor to root\n"
                "  root would make it, and give it away: another user could put something else there\n\n"
                f"hint: name a folder that nobody but root can change the way to; `namei -l {place}` shows whose each part is"
            )
            or place.parent.exists()
        )
    assert seen(victim) == before


# Groups and modes


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "site.yaml").write_text(f"prefix: {tmp_path}/prefix\npolicies: {{group: nogroup, umask: '002'}}\n")
    (tmp_path / "prefix/store").mkdir(parents=True)
    return load_site(tmp_path / "site.yaml", {})


@as_root
def test_folder_is_given_to_the_group_by_an_administrator_s_link_alone(site: Site, victim: Path) -> None:
    folder = site.prefix / "cache"
    folder.symlink_to(victim)
    _give_to_group(folder, NOGROUP, site)  # root's own link
    assert (victim.stat().st_gid, stat.S_IMODE(victim.stat().st_mode)) == (NOGROUP, 0o2775)
    os.chown(victim, -1, 0)
    victim.chmod(0o755)
    before = seen(victim)
    strangers(folder)
    with pytest.raises(EnvmgrError) as caught:
        _give_to_group(folder, NOGROUP, site)
    assert caught.value.reference == "path-unusable"
    assert seen(victim) == before


@as_root
def test_folder_that_becomes_a_link_before_it_is_given_to_the_group(
    site: Site, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, before = site.prefix / "locks", seen(victim)
    folder.mkdir()
    played = after(monkeypatch, "stat", "locks", becomes_a_link(folder, victim))
    with pytest.raises(EnvmgrError):
        _give_to_group(folder, NOGROUP, site)
    assert played
    assert seen(victim) == before


@as_root
def test_files_that_every_user_reads_are_given_to_the_group_but_not_what_a_link_or_a_second_name_leads_to(
    site: Site, victim: Path
) -> None:
    folder, before = site.prefix / "modules", seen(victim)
    folder.mkdir()
    (folder / "a").hardlink_to(victim / "file")
    _give_public(folder, NOGROUP, site)
    (folder / "a").unlink()
    (folder / "b").symlink_to(victim / "file")
    strangers(folder / "b")
    _give_public(folder, NOGROUP, site)
    (folder / "b").unlink()
    assert seen(victim) == before
    (folder / "c").write_text("")
    _give_public(folder, NOGROUP, site)
    assert (folder / "c").stat().st_gid == NOGROUP
    assert stat.S_IMODE(folder.stat().st_mode) == 0o2775


@as_root
def test_tree_is_made_read_only_and_not_what_took_the_place_of_a_file(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub/file").write_text("x")
    (tree / "program").write_text("x")
    (tree / "program").chmod(0o700)
    (tree / "link").symlink_to(victim / "file")
    before = seen(victim)
    played = after_listing(monkeypatch, "sub", becomes_a_link(tree / "sub/file", victim / "file"))
    make_read_only(tree, group=NOGROUP)
    assert played
    assert seen(victim) == before
    found = {p.relative_to(tree): p.lstat() for p in (tree, *tree.rglob("*"))}
    assert {status.st_gid for path, status in found.items() if path.name != "file.before"} == {NOGROUP}
    modes = {str(path): stat.S_IMODE(status.st_mode) for path, status in found.items()}
    assert (modes["."], modes["sub"], modes["program"]) == (0o555, 0o555, 0o555)


def test_a_mode_is_given_to_what_is_wanted_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for wrong in ("pipe", "missing"):
        with pytest.raises(OSError):
            change(tmp_path / wrong, mode=0o755)
    change(tmp_path, add=0o005)
    assert tmp_path.stat().st_mode & 0o005 == 0o005


# What root gives to the account that asks builds


@as_root
def test_tree_is_given_away_and_not_what_took_the_place_of_a_folder_in_it(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account: Account = require_account("nobody")
    folder = tmp_path / "asks"
    (folder / "files").mkdir(parents=True)
    (folder / "files/file").write_text("x")
    (folder / "name").hardlink_to(victim / "file")
    before = seen(victim)
    played = after_listing(monkeypatch, "files", becomes_a_link(folder / "files", victim))
    _give(folder, account)
    assert played
    assert seen(victim) == before
    assert (folder / "files.before/file").stat().st_uid == NOBODY.pw_uid
    assert folder.stat().st_uid == NOBODY.pw_uid


# Removal


def test_folder_that_becomes_a_link_before_its_doors_are_opened(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    before = seen(victim)
    played = after_listing(monkeypatch, "tree", becomes_a_link(tree / "sub", victim))
    remove_tree(tree)
    assert played
    assert seen(victim) == before
    assert not tree.exists()


@as_root
def test_clean_up_follows_no_link_of_another_user(site: Site, victim: Path) -> None:
    prefix = Prefix(site.prefix)
    before = seen(victim)
    link = prefix.store / "evil"
    link.symlink_to(victim)
    strangers(link)
    assert clean_leftovers(prefix, SilentReporter()) == []
    assert seen(victim) == before


@as_root
def test_removal_of_an_install_follows_no_link_of_another_user(site: Site, victim: Path) -> None:
    prefix = Prefix(site.prefix)
    install = prefix.install_at("store/x/1.0-01234567")
    (victim / "1.0-01234567").mkdir()
    (victim / install.manifest.name).write_text("{}")
    (prefix.store / "x").symlink_to(victim)
    strangers(prefix.store / "x")
    before = seen(victim)
    with pytest.raises(OSError, match="a link of another user leads there"):
        remove_install(install)
    assert seen(victim) == before


def test_an_administrator_s_own_link_is_followed(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "prefix").mkdir()
    (tmp_path / "prefix/store").symlink_to(victim)
    remove_below(tmp_path / "prefix", tmp_path / "prefix/store/inner")
    remove_below(tmp_path / "prefix", tmp_path / "prefix/store/missing/too")
    assert not (victim / "inner").exists()
    assert (victim / "file").exists()


def test_link_in_the_place_of_a_generation_is_not_emptied(site: Site, victim: Path) -> None:
    prefix = Prefix(site.prefix)
    prefix.generations.mkdir()
    prefix.generation(7).symlink_to(victim)
    before = seen(victim)
    with publishing(prefix, Runner(), SilentReporter()):
        pass
    assert seen(victim) == before
    assert not prefix.generation(7).is_symlink()


# What is written


def test_file_is_written_through_no_link_that_lies_at_its_temporary_name(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic_ns", lambda: 7)
    (tmp_path / f".report.{os.getpid()}.7.tmp").symlink_to(victim / "file")
    with pytest.raises(EnvmgrError) as caught:
        atomic_write(tmp_path / "report", "written")
    assert caught.value.reference == "path-unusable"
    assert (victim / "file").read_text() == "kept"


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_log_is_a_regular_file_or_none(tmp_path: Path, victim: Path, kind: str) -> None:
    said: list[str] = []

    class Told(SilentReporter):
        def say(self, text: str) -> None:
            said.append(text)

    log = tmp_path / "run.log"
    if kind == "link":
        log.symlink_to(victim / "file")
    else:
        os.mkfifo(log)
    reporter = LoggedReporter(Told(), log)
    reporter.log("a line")
    reporter.close()
    assert len(said) == 1
    assert said[0].startswith(f"warning: the log {log} cannot be written: ")
    assert (victim / "file").read_text() == "kept"


# Who may change an owner or a mode, or remove a tree, by its name, and which that is. None of it lies where others can write.
BY_NAME = {
    "backends/conda/install_worker.py": "removes folders of its own, by Python's own descriptors",
    "backends/conda/wheels_worker.py": "removes a folder of its own, by Python's own descriptors",
    "backends/container/programs.py": "an install that is being made: programs written just now",
    "people/install.py": "an install of this user's own that is being made: programs written just now",
    "wheels/install_worker.py": "an install that is being made: a program written just now, and a folder of its own",
    "wheels/resolve.py": "files that were written just now, in a folder of temporary files that is this run's alone",
    "wheels/uv.py": "files that were written just now, in a folder of temporary files that is this run's alone",
    "system/files.py": "removes trees, by Python's own descriptors",
    "system/safe_paths.py": "the one way",
}
CHANGES = {"chown", "lchown", "chmod", "lchmod", "rmtree", "copymode", "copystat", "copytree", "move", "removedirs"}


def changes(path: Path) -> set[str]:
    """The functions by which a module changes what has a name."""
    text = path.read_text()
    if not any(name in text for name in CHANGES):
        return set()
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = {call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "") for call in calls}
    return names & CHANGES


def test_nothing_else_changes_by_name_what_others_may_write() -> None:
    package = ROOT / "envmgr"
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if changes(path)}
    assert found == set(BY_NAME)
