"""The prefix's file system has room: bytes (`policies.min_free`) and inodes (`audit.min_inodes`), by `df` on each node.

Usually all nodes see one server's numbers, and the finding names all of them. File systems without a fixed number of
inodes (btrfs, some network file systems) report none, and their inodes are not checked. Without room a build ends
half-way, and logs and this audit's own facts cannot be written. Published files are not touched.
"""

from __future__ import annotations

from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.wording import size_text


def judge(evidence: Evidence) -> Rows:
    own, nodes = evidence.fleet.own, evidence.fleet.sound.nodes
    free = {n: int(text) * 1024 for n in nodes if (text := own.get(n, {}).get("space.free_kb", "")).isdecimal()}
    least = evidence.site.policies.min_free
    if short := {n: count for n, count in free.items() if count < least}:
        yield evidence.say("bytes", short, free=size_text(min(short.values())), least=size_text(least))
    inodes = {n: count for n in nodes if (count := _inodes(own.get(n, {}).get("space.inodes", ""))) is not None}
    least = evidence.site.audit.min_inodes
    if short := {n: count for n, count in inodes.items() if count < least}:
        yield evidence.say("inodes", short, free=f"{min(short.values()):,}", least=f"{least:,}")


def _inodes(text: str) -> int | None:
    """Return the number of free inodes, or None if the file system has no count of them."""
    total, _, free = text.partition(" ")
    return int(free) if free.isdecimal() and total.isdecimal() and int(total) > 0 else None


CHECK = Check(judge=judge, probe=scripts(__file__, "prefix"), wants=frozenset({"published"}))
