"""What root's own check of signatures on this machine has written down (nodesetup/check-flip)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.modules.nodesetup import FLIP_STAMP
from envmgr.publish.flipfile import MOST
from envmgr.store.prefix import Prefix
from envmgr.system.reading import FLIP, read_bytes


def seen_here(prefix: Prefix) -> int:
    """The highest sequence number that was ever seen signed here; 0 where nothing looks."""
    with suppress(OSError, EnvmgrError, ValueError):
        lines = read_bytes(Path(FLIP_STAMP), FLIP).decode().splitlines()
        if lines[3:4] == [str(prefix.root)] and 0 <= int(lines[2]) <= MOST:
            return int(lines[2])
    return 0
