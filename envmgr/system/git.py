"""The commit of a folder, by git(1).

The settings of a checkout may name programs that git runs (filters, a file system monitor). The owner of the checkout
chose them, so root reads it as its owner; where another user asks, git itself refuses a checkout that is not theirs.
A branch can hold all files of a bare repository, with settings of its own: git takes none that it meets on its way up.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from envmgr.system.run import Runner, clean_env
from envmgr.system.users import account_of_uid

_SECONDS = 60.0
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.bareRepository=explicit")


@dataclass(frozen=True, slots=True)
class Commit:
    """The state of a folder in git: its commit in hex, and paths that differ from it. Without a commit `why` says why."""

    name: str = ""
    changed: tuple[str, ...] = ()
    why: str = ""


def read_commit(folder: Path, runner: Runner) -> Commit:
    """Return the commit that a folder is of, with what is changed, new or ignored in the folder.

    Raises:
        EnvmgrError: `command-missing` without git.
    """
    place = folder.resolve()
    inside = next((top / ".git" for top in (place, *place.parents) if os.path.lexists(top / ".git")), None)
    if inside is None:
        return Commit(why="it is in no git checkout")
    owner, account, env = inside.lstat().st_uid, None, clean_env()
    if os.geteuid() == 0 and owner != 0:
        account = account_of_uid(owner)
        if account is None:
            return Commit(why=f"{inside} belongs to user {owner}, who does not exist here")
        env |= {"HOME": account.home, "USER": account.name, "LOGNAME": account.name}

    def git(*argv: str) -> tuple[int, str, str]:
        words = ["git", *_SAFE, "-C", str(place), *argv]
        done = runner.run(words, check=False, timeout=_SECONDS, run_as=account, env=env)
        return done.returncode, done.stdout, done.stderr

    code, name, said = git("rev-parse", "--verify", "HEAD^{commit}")
    if code == 0:
        status = ("status", "--porcelain", "--untracked-files=all", "--ignored=traditional", "--ignore-submodules=none")
        code, changed, said = git(*status, "--", ".")
    if code == 0:
        # `status` says nothing of files that `git update-index` marked as unchanged, or as not to look at.
        code, kept, said = git("ls-files", "-v", "--", ".")
    if code != 0:
        return Commit(why=f"git says: {(said.strip().splitlines() or ['nothing'])[0]}")
    unseen = (f"{line[2:]}: git is set not to look at it" for line in kept.splitlines() if not line.startswith("H"))
    seen = (line[3:] for line in changed.splitlines() if not _is_by_the_way(line))
    return Commit(name.strip(), (*seen, *unseen))


def _is_by_the_way(line: str) -> bool:
    """Return whether git ignores the path, and no catalog reads it: hidden files of editors, caches of Python."""
    name = line[3:].strip('"').rstrip("/").rpartition("/")[2]
    return line.startswith("!!") and (name.startswith(".") or name.endswith("~") or name == "__pycache__")
