"""Mounts of modules and of what they name."""

from __future__ import annotations

import subprocess
from pathlib import Path

from envmgr.audit.checks import folders
from envmgr.probe import shell as probe
from envmgr.probe.model import Facts
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, told

AT = {"folders.at": "/apps /apps/modulefiles\n/apps /apps/gcc"}
NFS = "/apps nfs4 fs1:/export/apps rw"
WELL = AT | {"folders.mounts": NFS}


def lines(**nodes: dict[str, str]) -> list[str]:
    return told(folders, evidence(nodes))


def test_mounts_that_are_alike_are_silent() -> None:
    assert lines(c1=WELL, c2=WELL, c3=WELL) == []
    assert lines(c1=AT, c2=AT, c3=AT) == []  # on local disks


def test_shell_text_leaves_out_the_root_and_tells_the_mount_on_top(tmp_path: Path) -> None:
    root = "21 1 0:20 / / rw - nfs4 fs1:/roots/c1 rw"
    apps = "22 21 0:21 / /apps rw,nosuid - nfs4 fs1:/export/apps rw"
    over = "23 22 0:22 / /apps ro - ext4 /dev/vda1 rw"
    opt = "24 21 0:23 / /opt rw,noexec - ext4 /dev/vdb rw"
    assert mounts(tmp_path, root, opt) == {}
    assert mounts(tmp_path, root, apps) == {"folders.mounts": "/apps nfs4 fs1:/export/apps rw,nosuid"}
    assert mounts(tmp_path, apps, over) == {"folders.mounts": "/apps over ext4 /dev/vda1 ro"}
    assert mounts(tmp_path, root, opt, at="/opt /opt/apps") == {"folders.noexec": "/opt /opt/apps"}


def mounts(folder: Path, *lines: str, at: str = "") -> Facts:
    """What the text that reads mountinfo makes of such lines."""
    (folder / "mountinfo").write_text("".join(f"{line}\n" for line in lines))
    (folder / "folders.at").write_text(f"{at}\n" if at else "")
    text = script_text(folders.__file__, "login.sh").partition('lines folders.at <"$room/folders.at"\n')[2]
    text = text.replace("/proc/self/mountinfo", str(folder / "mountinfo"))
    library = script_text(probe.__file__ or "", "library.sh")
    script = f"mark= who= job= prefix=/nowhere room={folder}\n{library}{text}"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    return read_lines(done.stdout.splitlines())


def test_what_lies_over_a_local_folder_is_told_where_like_nodes_have_nothing(tmp_path: Path) -> None:
    root = "21 1 0:20 / / rw - ext4 /dev/vda rw"
    disk = "22 21 0:21 / /opt rw - xfs /dev/vdb rw"
    bound = "23 22 0:21 /old/modules /opt/modules rw - xfs /dev/vdb rw"
    memory = "24 21 0:24 / /apps rw - tmpfs t rw"
    volume = "25 21 0:25 /@srv /srv rw - btrfs /dev/vdc rw"
    at = "/ /x\n/opt /opt/gcc\n/opt/modules /opt/modules\n/apps /apps/modules\n/srv /srv/modules"
    over = {"folders.over": "/apps tmpfs t\n/opt/modules xfs /dev/vdb[/old/modules]"}
    assert mounts(tmp_path, root, disk, bound, memory, volume, at=at) == over
    well = {"folders.at": "/opt /opt/modules"}
    (line,) = lines(c1=well, c2=well | {"folders.over": "/opt/modules xfs /dev/vdb[/old/modules]"}, c3=well)
    assert line == (
        "warning c2: /opt/modules: xfs /dev/vdb[/old/modules] is mounted over it | nothing over it, as on c[1,3] | "
        "on the node: `umount /opt/modules`, and take it out of fstab, if it is there"
    )
    assert lines(c1=well | over, c2=well | over, c3=well | over) == []
    assert lines(c1=well | over, c2=well | over, c3=well) == []


def test_missing_mount_is_an_error() -> None:
    (line,) = lines(c1=WELL, c2={"folders.at": "/ /apps/modulefiles"}, c3=WELL)
    assert line.startswith("error c2: /apps: not mounted | nfs4 fs1:/export/apps rw, as on c[1,3] | ")
    assert "`mount /apps`" in line


def test_what_is_mounted_over_it_is_told_with_how_to_take_it_away() -> None:
    over = AT | {"folders.mounts": "/apps over ext4 /dev/vda1 rw"}
    (line,) = lines(c1=over, c2=WELL, c3=WELL)
    assert line.startswith(
        "warning c1: /apps: ext4 /dev/vda1 rw, mounted over a network mount | nfs4 fs1:/export/apps rw, as on "
    )
    assert "`umount /apps`" in line


def test_noexec_is_told_of_local_disks_too() -> None:
    barred = AT | {"folders.noexec": "/opt /opt/apps/gcc\n/opt /opt/apps/modulefiles"}
    (line,) = lines(c1=AT, c2=barred, c3=AT)
    assert line.startswith("warning c2: mount options: mounted noexec: /opt/apps/gcc, /opt/apps/modulefiles | ")
    assert "`mount -o remount,exec /opt`" in line
    assert lines(c1=barred, c2=barred, c3=barred) == []
