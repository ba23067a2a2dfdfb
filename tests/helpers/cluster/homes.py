"""The homes of a cluster's nodes as they are, to the byte and the nanosecond, and start-up files that would leave a trace there."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.cluster import Cluster

# A size of a history cuts its file already at the start, `set -o history` keeps one in scripts, too, and a prompt command writes it. What
# start-up files do by themselves in every shell stays: a HISTFILESIZE where HISTFILE names a file of their own.
START_UP = {
    ".bashrc": """\
HISTSIZE=20
HISTFILESIZE=20
HISTCONTROL=ignoreboth:erasedups
shopt -s histappend
PROMPT_COMMAND='history -a; history -n; history -w; history -c; history -r'
history -s from the start-up file
set -o history
trap 'history -w' EXIT
""",
    ".bash_profile": """\
HISTFILE=~/.bash_of_mine
set -o history
history -s from the start-up file
trap 'history -w' EXIT
""",
    ".bash_logout": "date >>~/left\n",
    ".zshenv": "HISTFILE=~/.zsh_history HISTSIZE=10 SAVEHIST=10\nsetopt INC_APPEND_HISTORY SHARE_HISTORY\nprint -s start-up\n",
    ".zlogout": "date >>~/left\n",
    ".tcshrc": "set history=10\nset savehist=(10 merge)\nset savedirs\n",
}
READONLY = {
    ".bashrc": "readonly HISTFILE=~/.bash_of_mine\nset -o history\nhistory -s start-up\nPROMPT_COMMAND='history -a'\n"
}
HISTORIES = (".bash_history", ".bash_of_mine", ".zsh_history", ".history")


@contextmanager
def furnished(cluster: Cluster, files: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """The homes of root on each node, and of alice, with `files` behind what start-up files say, and histories of 400 lines; then without."""
    nodes = ("login", *cluster.compute)
    homes = [
        *(Path(f"/proc/{cluster.pid(node)}/root/root") for node in nodes),
        cluster.folder / "home/alice",
    ]  # users' homes are shared
    histories = {name: "".join(f"typed {n}\n" for n in range(400)) for name in HISTORIES}
    before = {home / name: _text(home / name) for home in homes for name in (*files, *histories)}
    try:
        for home in homes:
            for name, text in {**files, **histories}.items():
                more = (
                    text.replace("HISTFILESIZE=20\n", "") if home.name == "root" else text
                )  # the shell of sshd reads root's
                _write(home / name, (before[home / name] or "") + more, 0o600 if name in histories else 0o644)
        yield nodes
    finally:
        for path, text in before.items():
            if text is None:
                path.unlink(missing_ok=True)
            else:
                _write(path, text, 0o644)


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _write(path: Path, text: str, mode: int) -> None:
    owner = path.parent.stat()
    path.write_text(text)
    os.chown(path, owner.st_uid, owner.st_gid)
    path.chmod(mode)


def state(cluster: Cluster, *nodes: str) -> dict[str, tuple[object, ...]]:
    """Each path of the homes on `nodes`, without what is mounted below: mode, owner, size, mtime and ctime, content."""
    found: dict[str, tuple[object, ...]] = {}
    for node in nodes:
        root = Path(f"/proc/{cluster.pid(node)}/root")
        for top in (root / "root", *(root / "home").iterdir()):
            device = top.stat().st_dev
            for folder, folders, files in os.walk(top):
                folders[:] = [name for name in folders if (Path(folder) / name).lstat().st_dev == device]
                for path in (Path(folder), *(Path(folder) / name for name in files)):
                    found[f"{node}:/{path.relative_to(root)}"] = _as_it_is(path)
    return found


def _as_it_is(path: Path) -> tuple[object, ...]:
    at = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(at.st_mode) else ""
    return at.st_mode, at.st_uid, at.st_gid, at.st_size if content else 0, at.st_mtime_ns, at.st_ctime_ns, content


def changed(before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]) -> list[str]:
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
