"""Mounts of modules and of what they name."""

from __future__ import annotations

from envmgr.audit.checks import folders
from tests.helpers.evidence import evidence, told

AT = {"folders.at": "/apps /apps/modulefiles\n/apps /apps/gcc"}
NFS = "/apps nfs4 fs1:/export/apps rw"
WELL = AT | {"folders.mounts": NFS}


def lines(**nodes: dict[str, str]) -> list[str]:
    return told(folders, evidence(nodes))


def test_mounts_that_are_alike_are_silent() -> None:
    assert lines(c1=WELL, c2=WELL, c3=WELL) == []
    assert lines(c1=AT, c2=AT, c3=AT) == []  # on local disks


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
