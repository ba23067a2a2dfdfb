"""How a node has the prefix, by mountinfo: the mount that is seen, and what the check makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.audit.checks import mount
from envmgr.probe import prefix, shell
from envmgr.probe.model import Facts
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, told

ROOT = "21 1 0:20 / / rw - ext4 /dev/vda rw"
NFS = "30 21 0:30 / /apps/sw rw,relatime - nfs4 fs1:/export/sw rw,addr=1"
SEEN = "mount.point", "mount.type", "mount.source"


def facts(folder: Path, *lines: str) -> Facts:
    (folder / "mountinfo").write_text("".join(f"{line}\n" for line in lines))
    text = script_text(prefix.__file__, "node.sh")
    text = text.replace("/proc/self/mountinfo", str(folder / "mountinfo"))
    script = f"mark= prefix=/apps/sw\n{script_text(shell.__file__ or '', 'library.sh')}{text}"
    (folder / "text").write_text(script)
    done = subprocess.run(["/bin/sh", str(folder / "text")], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return read_lines(done.stdout.splitlines())


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        ([ROOT], "/ ext4 /dev/vda"),
        ([ROOT, NFS], "/apps/sw nfs4 fs1:/export/sw"),
        ([ROOT, NFS, "31 30 0:20 /old /apps/sw rw - ext4 /dev/vda rw"], "/apps/sw ext4 /dev/vda"),
        ([ROOT, NFS, "31 21 0:31 / /apps rw - tmpfs t rw"], "/apps tmpfs t"),
        (
            ["22 21 0:22 / /apps rw - xfs /dev/vdb rw", ROOT, NFS.replace("30 21", "30 22")],
            "/apps/sw nfs4 fs1:/export/sw",
        ),
        ([ROOT, "40 21 0:40 / / rw - overlay o rw", NFS.replace("30 21", "30 40")], "/apps/sw nfs4 fs1:/export/sw"),
    ],
)
def test_mount_that_is_seen_is_told(tmp_path: Path, lines: list[str], seen: str) -> None:
    found = facts(tmp_path, *lines)
    assert " ".join(found[key] for key in SEEN) == seen


# -- What is told of them ------------------------------------------------------------------------------------------------


def fact(point: str, kind: str, source: str, root: str = "/") -> dict[str, str]:
    return dict(zip((*SEEN, "mount.root"), (point, kind, source, root), strict=True))


RIGHT = fact("/sw", "nfs4", "fs1:/export/sw")
TOLD = "error c2: /sw: "


def lines(sick: dict[str, str], well: dict[str, str] = RIGHT, **settings: object) -> list[str]:
    return told(mount, evidence({"c1": well, "c2": sick, "c3": well}, settings=settings))


def test_no_mount_over_another_is_advised() -> None:
    """What lies there is taken away first; where nothing does, the prefix is mounted."""
    (line,) = lines(fact("/sw", "nfs4", "old:/export/sw"))
    assert "| on the node: `umount /sw`, then `mount /sw`, unless that lay under it: " in line
    (line,) = lines(fact("/", "ext4", "/dev/vda"))
    assert line.endswith("| on the node: `mount /sw`")


def test_commands_name_the_mount_point_which_may_be_above_the_prefix() -> None:
    well = fact("/apps", "nfs4", "fs1:/export") | {"mount.options": "rw", "mount.super": "rw"}

    def hint(sick: dict[str, str]) -> str:
        return lines(sick, well, prefix="/apps/sw")[-1].rpartition(" | ")[2]

    assert hint(fact("/", "ext4", "/dev/vda") | {"gate": "No such file or directory"}) == "on the node: `mount /apps`"
    assert "`umount /apps`, then `mount /apps`" in hint(fact("/apps", "ext4", "/dev/vdb"))
    assert "`umount /apps/sw`, then `mount /apps`" in hint(fact("/apps/sw", "nfs4", "old:/export/sw"))
    assert "`mount -o remount,exec /apps`" in hint(well | {"mount.options": "noexec,rw"})
    assert "`umount -l /apps && mount /apps`" in hint(well | {"gate": "hung"})
    assert "`umount -l /apps && mount /apps`" in hint(well | {"gate": "Stale file handle"})


def test_folder_on_the_way_is_opened_by_what_closes_it() -> None:
    (line,) = lines(RIGHT | {"mount.user_stopped": "700 rsw:rsw /sw"})
    assert line.startswith(f"{TOLD}alice cannot enter /sw (mode 700, rsw:rsw) | ")
    assert line.endswith("| `chmod a+rX /sw`")
    (line,) = lines(RIGHT | {"mount.user_stopped": "755 rsw:rsw /sw"})
    assert line.startswith(f"{TOLD}alice cannot enter /sw (mode 755, rsw:rsw) | ")
    assert line.endswith("| `getfacl /sw`: an ACL, or another rule of its server?")
