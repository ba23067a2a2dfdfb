"""What a mount says: locks that stay on each client, and whether it may be written."""

from __future__ import annotations

import pytest

from envmgr.audit.checks import mount
from envmgr.system.locks import local_locks, mount_of
from envmgr.system.untrusted_files import ANYWHERE
from tests.helpers.evidence import evidence, told

SURE = "warning", "locks-not-shared: nfs mounted with nolock keeps locks to each client"
MAY = "note", "locks-not-shared: fuse.nfs3 may keep locks to each client"


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("nfs", "rw,vers=3,nolock,local_lock=none", SURE),
        (
            "nfs4",
            "rw,local_lock=flock",
            ("warning", "locks-not-shared: nfs4 mounted with local_lock=flock keeps locks to each client"),
        ),
        (
            "nfs",
            "rw,local_lock=all",
            ("warning", "locks-not-shared: nfs mounted with local_lock=all keeps locks to each client"),
        ),
        (
            "lustre",
            "rw,localflock",
            ("warning", "locks-not-shared: lustre mounted with localflock keeps locks to each client"),
        ),
        ("lustre", "rw,flock,lazystatfs", None),
        ("nfs4", "rw,vers=4.2,hard,local_lock=none", None),
        ("nfs", "rw,local_lock=posix", None),
        (
            "gfs2",
            "rw,localflocks",
            ("warning", "locks-not-shared: gfs2 mounted with localflocks keeps locks to each client"),
        ),
        ("cifs", "rw,nobrl", ("warning", "locks-not-shared: cifs mounted with nobrl keeps locks to each client")),
        ("fuse.nfs3", "rw,allow_other", MAY),
        ("fuse.glusterfs", "rw", None),
        ("beegfs", "rw", ("note", "locks-not-shared: beegfs may keep locks to each client")),
        ("ext4", "rw,nolock", None),
        ("unknown", "", None),
    ],
)
def test_what_a_mount_says_of_locks(kind: str, options: str, said: tuple[str, str] | None) -> None:
    assert local_locks(kind, options.split(",")) == said


def test_mount_of_a_path_is_the_longest_above_it() -> None:
    kind, _, options = mount_of(ANYWHERE / "proc/self")
    assert (kind, "rw" in options) == ("proc", True)


NODE = {"mount.type": "nfs", "mount.source": "fs1:/sw", "mount.options": "rw", "mount.super": "nolock,rw"}


def test_modes_are_judged_by_the_nodes_that_may_write() -> None:
    nodes = {"c1": NODE | {"mount.options": "ro", "mount.super": "nolock,ro", "mount.point": "/sw"}, "c2": NODE}

    def judged(writable: str) -> list[str]:
        settings = {"mount": {"source": "fs1:/sw", "locks": "local", "writable": writable}}
        asked = {"mount": frozenset({writable})}
        return [line.partition(" | ")[0] for line in told(mount, evidence(nodes, settings=settings, asked_here=asked))]

    assert judged("c2") == []
    assert sorted(judged("c1")) == ["error c1: /sw: mounted ro", "error c2: /sw: mounted rw"]


def test_nobody_is_told_to_mount_the_root_otherwise() -> None:
    """Where the prefix is not mounted, a folder on the node's own disk is in its place."""
    nodes = {"c1": NODE | {"mount.source": "/dev/vda", "mount.type": "ext4", "mount.point": "/"}}
    assert told(mount, evidence(nodes, asked_here={"mount": frozenset({"c2"})})) == []
