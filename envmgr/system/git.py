"""The commit of a folder, by git(1). Nothing that the checkout's own settings name is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envmgr.system.run import Runner

_SECONDS = 60.0
# A file system monitor and hooks are programs that a checkout's settings may name; other users' checkouts are read too.
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*")


@dataclass(frozen=True, slots=True)
class Commit:
    """The state of a folder in git: `sha256` or sha1 of the commit in hex, and paths that differ from it."""

    name: str
    changed: tuple[str, ...]


def read_commit(folder: Path, runner: Runner) -> Commit | None:
    """Return the commit that a folder is of, with what is changed, new or ignored in the folder; None if it is in no git
    checkout, or has no commit.

    Raises:
        EnvmgrError: `command-missing` without git.
    """
    git = ("git", *_SAFE, "-C", folder)
    head = runner.run([*git, "rev-parse", "--verify", "HEAD^{commit}"], check=False, timeout=_SECONDS)
    if head.returncode != 0:
        return None
    status = ("status", "--porcelain", "--untracked-files=all", "--ignored=traditional", "--ignore-submodules=none")
    changed = runner.run([*git, *status, "--", "."], timeout=_SECONDS).stdout
    return Commit(head.stdout.strip(), tuple(line[3:] for line in changed.splitlines() if not _is_by_the_way(line)))


def _is_by_the_way(line: str) -> bool:
    """Return whether git ignores the path, and no catalog reads it: hidden files of editors, caches of Python."""
    name = line[3:].strip('"').rstrip("/").rpartition("/")[2]
    return line.startswith("!!") and (name.startswith(".") or name.endswith("~") or name == "__pycache__")
