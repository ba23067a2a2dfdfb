"""The file systems that keep locks to each client, by what a mount says of itself. Sources: nfs(5), mount.lustre(8),
gfs2(5), mount.cifs(8).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from envmgr.report import Severity

_SAYS = {
    "nfs": ("nolock", "local_lock=all", "local_lock=flock"),
    "nfs4": ("nolock", "local_lock=all", "local_lock=flock"),
    "lustre": ("localflock",),
    "gfs2": ("localflocks",),
    "ocfs2": ("localflocks",),
    "cifs": ("nobrl",),
    "smb3": ("nobrl",),
}
_MAY = ("9p", "beegfs", "virtiofs")  # by settings that the mount does not show
_SHARE = ("fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.juicefs", "fuse.mfs", "fuse.moosefs")

LOCKS_HINT = (
    "mount it with locks that all clients share (NFS: without nolock and local_lock; Lustre: flock), or say "
    "`mount: {locks: local}` in "
    "site.yaml: envmgr's own marks keep hosts apart, and a host takes over from a dead one after a minute"
)


def local_locks(kind: str, options: Collection[str]) -> tuple[Severity, str] | None:
    """Return how sure it is that flock on such a mount is seen by no other client, and what says so; None if the server
    has the lock.
    """
    if said := [option for option in _SAYS.get(kind, ()) if option in options]:
        return "warning", f"locks-not-shared: {kind} mounted with {said[0]} keeps locks to each client"
    if kind in _MAY or (kind.startswith("fuse") and kind not in _SHARE):
        return "note", f"locks-not-shared: {kind} may keep locks to each client"
    return None


def mount_of(path: Path) -> tuple[str, str, frozenset[str]]:
    """Return type, source and options of the mount that a path lies on. Source: proc(5), mountinfo; the longest mount
    point above it wins.
    """
    best = ("", "unknown", "", frozenset[str]())
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        point, options = left.split()[4:6]
        kind, source, *more = right.split()
        if (str(path) + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[0]):
            best = (point, kind, source, frozenset({*options.split(","), *",".join(more).split(",")}))
    return best[1:]
