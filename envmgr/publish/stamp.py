"""What root's own check of signatures on this machine has written down (nodesetup/check-flip)."""

from __future__ import annotations

from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.modules.nodesetup import FLIP_STAMP
from envmgr.publish.flipfile import MOST
from envmgr.store.prefix import Prefix
from envmgr.system.reading import FLIP, read_bytes, why_unreadable


def seen_here(prefix: Prefix) -> int:
    """The highest sequence number that was ever seen signed here; 0 where nothing looks, or nobody can read what it found."""
    return _read(prefix)[0]


def why_not_seen(prefix: Prefix) -> str:
    """Why what was seen here cannot be read; empty where it can be, and where nothing looks."""
    return _read(prefix)[1]


def _read(prefix: Prefix) -> tuple[int, str]:
    try:
        lines = read_bytes(Path(FLIP_STAMP), FLIP).decode().split("\n")
        if lines[3] != str(prefix.root):
            return 0, ""
        highest = int(lines[2])
    except FileNotFoundError:
        return 0, ""
    except IndexError:
        return 0, "it is cut"
    except (OSError, EnvmgrError, ValueError) as error:
        return 0, why_unreadable(error)
    return (highest, "") if 0 <= highest <= MOST else (0, f"no flip has the number {highest}")
