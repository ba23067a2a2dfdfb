"""A machine of its own for hints: /home and /srv are folders of a test, alice and rsw are accounts there, and root types what a hint says.

All is done in a mount namespace: nothing of this machine is at /home, /srv or /etc/passwd in it.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from envmgr.audit.model import Check
from envmgr.probe import shell as probe
from envmgr.probe.model import Facts
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import quote, script_text
from tests.helpers.evidence import as_check, audit_plan, site

ALICE, RSW = 4242, 4243
_CHANGES = re.compile(
    r"(sudo|runuser|chmod|chown|chgrp|setfacl|install|mv|cp|rm|rmdir|ln|sed|tee|echo|printf|find|truncate|mknod) "
)
_NAMESPACE = 'mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/home" /home && mount --bind "$1/srv" /srv && shift && exec "$@"'


def typed(hint: str) -> list[str]:
    """What somebody may type of it: all that stands between backticks, and a hint that is a command as a whole."""
    return [text for text in (*re.findall(r"`([^`]*)`", hint), hint) if _CHANGES.match(text)]


@dataclass(frozen=True)
class Machine:
    root: Path

    def run(self, *command: str, user: int = 0) -> subprocess.CompletedProcess[str]:
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        inside = ["unshare", "--mount", "/bin/sh", "-c", _NAMESPACE, "sh", str(self.root), *become, *command]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/home/alice" if user else "/root"}
        return subprocess.run(inside, capture_output=True, text=True, check=False, env=env, cwd="/")

    def own(self, path: str, uid: int = ALICE) -> Path:
        """What lies at `path` is made the user's; the links of a test are planted so."""
        os.lchown(self.root / path, uid, uid)
        return self.root / path

    def type(self, hint: str) -> list[str]:
        """Do all that it says as root, and return it."""
        commands = typed(hint)
        for command in commands:
            self.run("/bin/sh", "-c", command)
        return commands

    def seen(self) -> dict[str, tuple[int, int, int, str]]:
        """path -> mode, owner, group and content of all that is not in a home."""
        found = {}
        for path in (self.root / "srv", *sorted((self.root / "srv").rglob("*"))):
            status = path.lstat()
            text = str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else ""
            found[str(path)] = (status.st_mode, status.st_uid, status.st_gid, text)
        return found

    def facts(self, check: Check, context: str = "bash-login") -> Facts:
        """What the check's text tells in alice's own login shell."""
        text = as_check(check).probe(audit_plan(site()))["context"]
        library, found = (script_text(probe.__file__ or "", part) for part in ("library.sh", "found.sh"))
        text_of_all = f"mark=\nwho=/etc/passwd\nroom=/tmp\njob=\nuser=alice\nhost_name=c1\nprobe_uid=0\n{library}{found}whole_path path_brought\n{text}\n"
        said = "/home/alice/said"  # the probe reads what start-up files say
        done = self.run("/bin/sh", "-c", f"exec bash -lc {quote(text_of_all)} 2>{said}", user=ALICE)
        (self.root / "home/alice/said").unlink()
        lines = (line for line in done.stdout.splitlines() if not line.startswith("@~"))
        return {f"ctx.{context}.user.{key}": value for key, value in read_lines(lines).items()}


def make_machine(root: Path) -> Machine:
    """The home of alice, the prefix's user rsw, and /srv/etc, whose files are root's."""
    for name in (
        "home/alice/.ssh",
        "home/rsw",
        "srv/etc/lmod",
        "srv/etc/.cache",
        "srv/etc/lib/python3.11/site-packages/numpy-1.26.4.dist-info",
    ):
        (root / name).mkdir(parents=True)
    for name in ("passwd", "profile", "random.py", "lmod/default", ".cache/spiderT.lua", "authorized_keys"):
        (root / "srv/etc" / name).write_text("PRIVATE KEY\n")
        (root / "srv/etc" / name).chmod(0o644)
    (root / "srv/etc/shadow").write_text("root:x\n")
    (root / "srv/etc/shadow").chmod(0o600)
    accounts = Path("/etc/passwd").read_text()
    (root / "passwd").write_text(
        f"{accounts}alice:x:{ALICE}:{ALICE}::/home/alice:/bin/bash\nrsw:x:{RSW}:{RSW}::/home/rsw:/bin/bash\n"
    )
    machine = Machine(root)
    for path in ("home/alice", "home/alice/.ssh"):
        machine.own(path)
    machine.own("home/rsw", RSW)
    return machine
