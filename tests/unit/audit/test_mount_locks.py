"""Locks that stay on each client: what a mount says of them, and on which hosts the audit tells it."""

from __future__ import annotations

from typing import Any

import pytest

from envmgr.audit.checks import mount
from envmgr.system.locks import LOCKS_HINT, local_locks, mount_of
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


def findings(nodes: dict[str, dict[str, str]], **more: Any) -> list[str]:
    return [line for line in told(mount, evidence(nodes, **more)) if "locks-not-shared" in line]


def test_hosts_that_write_are_told_and_nodes_that_only_read_are_not() -> None:
    nodes = {"c1": NODE, "c2": NODE}
    here = {"mount.type": "fuse.nfs3", "mount.source": "fs1:/sw"}
    assert findings(nodes) == []
    rest = f"locks that all hosts share which write there | {LOCKS_HINT}"
    assert findings(nodes, asked_here={"mount": mount.Writable(frozenset({"c2"}))}) == [
        f"warning c2: /sw: {SURE[1]} | {rest}"
    ]
    assert findings(nodes, controller=here) == [f"note : /sw: {MAY[1]} | {rest}"]
    knows = {"mount": {"locks": "local"}}
    assert findings(nodes, controller=here, settings=knows) == []


def test_modes_are_judged_by_the_nodes_that_may_write() -> None:
    nodes = {"c1": NODE | {"mount.options": "ro", "mount.super": "nolock,ro", "mount.point": "/sw"}, "c2": NODE}

    def judged(writable: str) -> list[str]:
        settings = {"mount": {"source": "fs1:/sw", "locks": "local", "writable": writable}}
        asked = {"mount": mount.Writable(frozenset({writable}))}
        return [line.partition(" | ")[0] for line in told(mount, evidence(nodes, settings=settings, asked_here=asked))]

    assert judged("c2") == []
    assert judged("c1") == ["error c1: /sw: mounted ro"]
