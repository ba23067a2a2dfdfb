"""How a node has the prefix, by mountinfo: the mount that is seen, what lies under it, and what the check makes of what lies over."""

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
    text = script_text(prefix.__file__, "node.sh") + script_text(mount.__file__, "node.sh").partition("\nawk -v")[0]
    text = text.replace("/proc/self/mountinfo", str(folder / "mountinfo"))
    script = f"mark= prefix=/apps/sw\n{script_text(shell.__file__ or '', 'library.sh')}{text}"
    (folder / "text").write_text(script)
    done = subprocess.run(["/bin/sh", str(folder / "text")], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return read_lines(done.stdout.splitlines())


@pytest.mark.parametrize(
    ("lines", "seen", "under"),
    [
        ([ROOT], "/ ext4 /dev/vda", None),
        ([ROOT, NFS], "/apps/sw nfs4 fs1:/export/sw", None),
        (
            [ROOT, NFS, "31 30 0:20 /old /apps/sw rw - ext4 /dev/vda rw"],
            "/apps/sw ext4 /dev/vda",
            "/apps/sw nfs4 fs1:/export/sw\n/ ext4 /dev/vda",
        ),
        (
            [ROOT, NFS, "31 21 0:31 / /apps rw - tmpfs t rw"],
            "/apps tmpfs t",
            "/apps/sw nfs4 fs1:/export/sw\n/ ext4 /dev/vda",
        ),
        (
            ["22 21 0:22 / /apps rw - xfs /dev/vdb rw", ROOT, NFS.replace("30 21", "30 22")],  # in another order
            "/apps/sw nfs4 fs1:/export/sw",
            "/apps xfs /dev/vdb",
        ),
        (
            [ROOT, "29 21 0:29 / /apps/sw rw - autofs /etc/auto.sw rw", NFS.replace("30 21", "30 29")],
            "/apps/sw nfs4 fs1:/export/sw",
            "/apps/sw autofs /etc/auto.sw",
        ),
        (
            [ROOT, "40 21 0:40 / / rw - overlay o rw", NFS.replace("30 21", "30 40")],
            "/apps/sw nfs4 fs1:/export/sw",
            None,
        ),
    ],
)
def test_mount_that_is_seen_is_told_with_those_under_it(
    tmp_path: Path, lines: list[str], seen: str, under: str | None
) -> None:
    found = facts(tmp_path, *lines)
    assert " ".join(found[key] for key in SEEN) == seen
    assert found.get("mount.under") == under


def test_mounts_below_the_prefix_are_told_with_their_number(tmp_path: Path) -> None:
    below = "31 30 0:31 / /apps/sw/store rw - tmpfs t rw"
    bound = "33 30 0:20 /x /apps/sw/bin rw - ext4 /dev/vda rw"
    assert facts(tmp_path, ROOT, NFS, below, below.replace("31 30", "32 31"), bound)["mount.below"].splitlines() == [
        "/apps/sw/bin ext4 /dev/vda[/x]",
        "/apps/sw/store tmpfs t (2 times)",
    ]


# -- What is told of them ------------------------------------------------------------------------------------------------


def fact(point: str, kind: str, source: str, under: str = "", root: str = "/") -> dict[str, str]:
    seen = dict(zip((*SEEN, "mount.root"), (point, kind, source, root), strict=True))
    return seen | ({"mount.under": under} if under else {})


RIGHT = fact("/sw", "nfs4", "fs1:/export/sw")
TOLD = "error c2: /sw: "


def lines(sick: dict[str, str], well: dict[str, str] = RIGHT, **settings: object) -> list[str]:
    return told(mount, evidence({"c1": well, "c2": sick, "c3": well}, settings=settings))


def test_what_lies_over_the_prefix_is_told_with_each_umount() -> None:
    copy = fact("/sw", "ext4", "/dev/vda", "/sw nfs4 fs1:/export/sw\n/ ext4 /dev/vda", "/var/old")
    end = ", and take it out of fstab, if it is there"
    right = "fs1:/export/sw, which lies under it"
    assert lines(copy) == [
        f"{TOLD}ext4 /dev/vda[/var/old] is mounted over it, on /sw | {right} | on the node: `umount /sw`{end}"
    ]
    both = fact("/sw", "tmpfs", "b", "/apps tmpfs a\n/sw nfs4 fs1:/export/sw\n/ ext4 /dev/vda") | {"gate": "gone"}
    (line,) = lines(both)
    assert line.startswith(
        f"{TOLD}tmpfs b is mounted over it, on /sw; tmpfs a is mounted over it, on /apps | {right} | "
    )
    assert line.endswith(f"on the node: `umount /sw && umount /apps`{end}")
    assert lines(RIGHT | {"mount.under": "/sw autofs /etc/auto.sw\n/sw nfs4 fs1:/export/sw"}) == []


def test_copy_over_a_tree_on_the_nodes_own_disks_is_told_as_well() -> None:
    disk = fact("/", "ext4", "/dev/vda")
    (line,) = lines(fact("/sw", "ext4", "/dev/vda", "/ ext4 /dev/vda", "/var/old"), disk)
    assert line.startswith(
        f"{TOLD}ext4 /dev/vda[/var/old] is mounted over it, on /sw | /dev/vda, which lies under it | "
    )
    assert "`umount /sw`" in line
    assert lines(disk, disk) == []


def test_no_mount_over_another_is_advised() -> None:
    """What lies there is taken away first; where nothing does, the prefix is mounted."""
    (line,) = lines(fact("/sw", "nfs4", "old:/export/sw"))
    assert "| on the node: `umount /sw && mount /sw`; does fstab" in line
    (line,) = lines(fact("/", "ext4", "/dev/vda"))
    assert line.endswith("| on the node: `mount /sw`")
    (line,) = told(mount, evidence({"c1": RIGHT, "c2": RIGHT}, settings={"mount": {"source": "fs2:/sw"}}))
    assert line.endswith("| which is right, `mount: {source: …}` in site.yaml or fstab of the nodes?")


def test_commands_name_the_mount_point_which_may_be_above_the_prefix() -> None:
    well = fact("/apps", "nfs4", "fs1:/export") | {"mount.options": "rw", "mount.super": "rw"}

    def hint(sick: dict[str, str]) -> str:
        return lines(sick, well, prefix="/apps/sw")[-1].rpartition(" | ")[2]

    assert hint(fact("/", "ext4", "/dev/vda") | {"gate": "No such file or directory"}) == "on the node: `mount /apps`"
    assert "`umount /apps && mount /apps`" in hint(fact("/apps", "ext4", "/dev/vdb"))
    assert "`umount /apps/sw && mount /apps`" in hint(fact("/apps/sw", "nfs4", "old:/export/sw"))
    assert "`mount -o remount,exec /apps`" in hint(well | {"mount.options": "noexec,rw"})
    assert "`umount -l /apps && mount /apps`" in hint(well | {"gate": "hung"})
    assert "`umount -l /apps && mount /apps`" in hint(well | {"gate": "Stale file handle"})


def test_folder_on_the_way_is_opened_by_what_closes_it() -> None:
    (line,) = lines(RIGHT | {"mount.user_stopped": "/sw 700 rsw:rsw"})
    assert line.startswith(f"{TOLD}alice cannot enter /sw (mode 700, rsw:rsw) | ")
    assert line.endswith("| `chmod a+rX /sw`")
    (line,) = lines(RIGHT | {"mount.user_stopped": "/sw 755+ rsw:rsw"})
    assert line.startswith(f"{TOLD}an ACL denies alice /sw: its mode, 755+, does not | ")
    assert "| on the server: `setfacl -b /export/sw 2>" in line
