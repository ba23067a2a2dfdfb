"""A machine of a test: real shells and programs, with an /etc, homes, /opt and /tmp of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from envmgr.probe.model import ShellAccount

AM_ROOT = os.geteuid() == 0
UID = os.geteuid() or 61234
ACCOUNTS: tuple[ShellAccount, ...] = ("user", "root") if AM_ROOT else ("user",)
USERS: dict[ShellAccount, str] = {"user": "alice", "root": "root"}
HOMES: dict[ShellAccount, str] = {"user": "home/alice", "root": "root"}
SYSTEM = ("alternatives", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")
# Over /etc, homes, /opt and /tmp; whatever is left behind ends with the namespace.
SCENE = """
for at in etc home root opt tmp; do mount --bind "$1/$at" "/$at" || exit; done
shift; exec "$@"
"""


class OwnNode:
    """A machine of the test below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.chmod(0o755)
        for name in ("etc", "home/alice", "root", "opt", "tmp"):
            (root / name).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        for name in SYSTEM:
            subprocess.run(["cp", "-a", f"/etc/{name}", root / "etc"], check=False, capture_output=True)
        self.write(
            {"etc/passwd": f"root:x:0:0::/root:/bin/bash\nalice:x:{UID}:{os.getegid() or UID}::/home/alice:/bin/bash\n"}
        )

    def write(self, files: Mapping[str, str], mode: int = 0o644) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(mode)

    def ask(self, script: str) -> str:
        home = self.root / HOMES["user"]
        for path in (home, *home.rglob("*")):
            os.chown(path, UID, os.getegid() or UID)
        own = [] if AM_ROOT else ["unshare", "--user", f"--map-user={UID}", f"--map-group={os.getegid()}"]
        map_root = [] if AM_ROOT else ["--map-root-user"]
        argv = ["unshare", *map_root, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", SCENE]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
        done = subprocess.run(
            [*argv, "sh", self.root, *own, "sh"], input=script, capture_output=True, text=True, check=True, env=env
        )
        return done.stdout

    def files(self) -> dict[str, str]:
        """What lies in the homes and in /tmp."""
        tops = (self.root / top for top in ("home", "root", "tmp"))
        return {str(path): path.read_text() for top in tops for path in top.rglob("*") if path.is_file()}
