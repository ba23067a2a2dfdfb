"""The commit of a folder: what is changed there, and that no program of a stranger's checkout runs with our rights."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.git import read_commit
from envmgr.system.run import Runner

GIT = ("git", "-c", "user.name=anna", "-c", "user.email=anna@example.org", "-c", "safe.directory=*")


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A checkout that every user can enter, with one commit of `recipes/file`."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    (top / "recipes").mkdir()
    (top / "recipes/file").write_text("one\n")
    for argv in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*GIT, "-C", top, *argv], check=True, capture_output=True)
    yield top
    shutil.rmtree(top)


def test_changes_in_the_folder_count_and_others_do_not(checkout: Path) -> None:
    head = subprocess.run([*GIT, "-C", checkout, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    (checkout / "elsewhere").write_text("x")
    found = read_commit(checkout / "recipes", Runner())
    assert (found.name, found.changed, found.why) == (head.stdout.strip(), (), "")
    (checkout / "recipes/new").write_text("x")
    (checkout / "recipes/file").write_text("two\n")
    assert read_commit(checkout / "recipes", Runner()).changed == ("recipes/file", "recipes/new")


@pytest.mark.parametrize("told", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_does_not_look_at_counts_as_changed(checkout: Path, told: str) -> None:
    subprocess.run([*GIT, "-C", checkout, "update-index", told, "recipes/file"], check=True)
    (checkout / "recipes/file").write_text("two\n")
    assert read_commit(checkout / "recipes", Runner()).changed == ("file: git is set not to look at it",)


def test_no_checkout_and_no_commit_are_said(checkout: Path, tmp_path: Path) -> None:
    assert read_commit(tmp_path, Runner()).why == "it is in no git checkout"
    shutil.rmtree(checkout / ".git")
    subprocess.run([*GIT, "-C", checkout, "init", "-q"], check=True)
    assert read_commit(checkout, Runner()).why.startswith("git says: fatal: ")


def test_files_of_a_branch_that_are_a_bare_repository_are_none_of_ours(checkout: Path, tmp_path: Path) -> None:
    """Its filter would run with our rights: what a branch has beside the recipes is ours once it is checked out."""
    recipes, ran = checkout / "recipes", tmp_path / "ran"
    (recipes / ".gitattributes").write_text("* filter=own\n")
    for argv in (
        ["init", "-q", "--bare", recipes],
        ["-C", recipes, "config", "core.bare", "false"],
        ["-C", recipes, "config", "core.worktree", recipes],
        ["-C", recipes, "config", "filter.own.clean", f"sh -c 'touch {ran}; cat'"],
        ["--git-dir", recipes, "--work-tree", recipes, "add", "file", ".gitattributes"],
        ["--git-dir", recipes, "--work-tree", recipes, "commit", "-q", "-m", "theirs"],
    ):
        subprocess.run([*GIT, *argv], check=True, capture_output=True)
    ran.unlink()
    os.utime(recipes / "file", (1, 1))
    found = read_commit(recipes, Runner())
    assert not ran.exists()
    assert (found.name, found.why.startswith("git says: fatal: ")) == ("", True), found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be asked to run another user's program")
def test_root_runs_what_a_checkout_names_as_its_owner(checkout: Path) -> None:
    """A filter, which `git status` runs for a file whose time has changed."""
    (checkout / ".gitattributes").write_text("* filter=own\n")
    subprocess.run([*GIT, "-C", checkout, "add", "-A"], check=True)
    subprocess.run([*GIT, "-C", checkout, "commit", "-q", "-m", "two"], check=True)
    owned = checkout / ".git/owned"
    subprocess.run([*GIT, "-C", checkout, "config", "filter.own.clean", f"sh -c 'id -u >>{owned}; cat'"], check=True)
    nobody = pwd.getpwnam("nobody")
    subprocess.run(["chown", "-R", "nobody", checkout], check=True)
    os.utime(checkout / "recipes/file", (1, 1))
    found = read_commit(checkout / "recipes", Runner())
    assert (found.why, found.changed) == ("", ())
    assert set(owned.read_text().split()) == {str(nobody.pw_uid)}
    os.chown(checkout / ".git", 54321, -1)
    assert read_commit(checkout, Runner()).why == f"{checkout}/.git belongs to user 54321, who does not exist here"
