"""What the nodes of a cluster have: the files that each wrote over this machine's, homes, the prefix and mounts; and what a hint made of it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.cluster import Cluster

# What services and package tools write, envmgr's facts of the last audit, and what node-setup keeps of a file that somebody edited.
_SKIPPED = re.compile(
    r"/var/(log|lib|spool|tmp|cache/ldconfig)(/|$)|/__pycache__|/(passwd|group|shadow|gshadow|subuid|subgid)-$|\.pwd\.lock$|^prefix/var(/|$)|^/etc/envmgr/kept(/|$)"
)
_LARGE = 1 << 20


@dataclass(frozen=True)
class Thing:
    """A file, folder, link or mount. `lines` are a text's without comments and blank lines, which a hint may leave; or what else it is."""

    kind: str
    mode: str = ""
    lines: tuple[str, ...] = ()

    def has(self, other: Thing) -> bool:
        """It is as the other, but for lines that it has in addition."""
        return (self.kind, self.mode) == (other.kind, other.mode) and not Counter(other.lines) - Counter(self.lines)


State = Mapping[tuple[str, str], Thing | None]
"""(node, path) -> what is there; None where a node took away what this machine has."""


def state(cluster: Cluster) -> State:
    found: dict[tuple[str, str], Thing | None] = {}
    for node in ("login", *cluster.compute):
        root = Path(f"/proc/{cluster.pid(node)}/root")
        for folder, name in ((root / "mnt/own", ""), (root / "root", "/root")):
            found |= {(node, path): thing for path, thing in _below(folder, name)}
        found |= {(node, f"mount of {point}"): Thing("mount", "", what) for point, what in _mounts(cluster.pid(node))}
    found |= {("homes", path): thing for path, thing in _below(cluster.folder / "home", "/home")}
    return found | {("prefix", path): thing for path, thing in _below(cluster.host_prefix, "prefix", read=False)}


def _below(top: Path, name: str, *, read: bool = True) -> Iterator[tuple[str, Thing | None]]:
    for folder, folders, files in os.walk(top):
        at = f"{name}{folder.removeprefix(str(top))}"
        folders[:] = [
            each for each in folders if not _SKIPPED.search(f"{at}/{each}") and not os.path.ismount(f"{folder}/{each}")
        ]
        for each in (*folders, *files):
            if not _SKIPPED.search(f"{at}/{each}"):
                yield f"{at}/{each}", thing_at(Path(folder, each), read=read)


def thing_at(path: Path, *, read: bool = True) -> Thing | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    kind, mode = stat.filemode(status.st_mode), f"{status.st_uid}:{status.st_gid}"
    if kind[0] == "c" and status.st_rdev == 0:  # of an overlay: taken away
        return None
    if kind[0] == "l":
        return Thing("l", mode, (str(path.readlink()),))
    if path.name == "ld.so.cache":  # ldconfig makes it of what lies there
        return Thing(kind, mode)
    if kind[0] == "-" and read:
        text = path.read_bytes()
        if len(text) > _LARGE or b"\0" in text:
            return Thing(kind, mode, (hashlib.sha256(text).hexdigest(),))
        lines = (line.strip() for line in text.decode(errors="replace").splitlines())
        return Thing(kind, mode, tuple(line for line in lines if line and not line.startswith("#")))
    return Thing(kind, mode, (str(status.st_size),) if kind[0] == "-" else ())


def _mounts(pid: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    found: dict[str, list[str]] = {}
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        own, _, system = line.partition(" - ")
        root, point, options = own.split()[3:6]
        found.setdefault(point, []).append(" ".join((root, options, *system.split()[:2])))
    return ((point, tuple(what)) for point, what in found.items())


def differences(before: State, after: State) -> list[str]:
    """`PATH on NODE` of all that is not as before."""
    return _said(key for key in {*before, *after} if not _alike(_at(key, before), _at(key, after)))


def of_hint(before: State, drifted: State, after: State) -> tuple[list[str], list[str]]:
    """`PATH on NODE` of what a hint harmed, and of what it did not give back.

    Harmed is what the drift had left as it was, and lines that the drift had left. What the drift brought may stay, as the next
    audit says whether it does harm; a new file may only be one of the drift's, elsewhere, and a
    node that the drift left behind may become as several others.
    """
    harmed, lost = set(), set()
    new = {thing.lines for key, thing in drifted.items() if thing and key not in before}
    most = Counter(
        (key[1], thing.lines) for key, thing in drifted.items() if thing and not _alike(thing, _at(key, before))
    )
    for key in {*before, *drifted, *after}:
        was, had, has = (_at(key, of) for of in (before, drifted, after))
        if _alike(was, has):
            continue
        if _alike(was, had):
            as_most = has is not None and most[key[1], has.lines] > 1
            if not as_most and (was or (has and has.kind[0] != "d" and has.lines not in new)):
                harmed.add(key)
        elif was and not (has and has.has(was)):
            lost.add(key)
            if had and Counter(was.lines) & Counter(had.lines) - Counter(has.lines if has else ()):
                harmed.add(key)
    return _said(harmed), _said(lost)


def _said(keys: Iterator[tuple[str, str]] | set[tuple[str, str]]) -> list[str]:
    return sorted(f"{path} on {node}" for node, path in keys)


def _alike(one: Thing | None, other: Thing | None) -> bool:
    return one is other or bool(one and other and one.has(other) and other.has(one))


def _at(key: tuple[str, str], of: State) -> Thing | None:
    """What is there; what a node has not written is as this machine has it."""
    if key in of or key[1].startswith(("mount of ", "/root/", "/home/", "prefix")):
        return of.get(key)
    return thing_at(Path(key[1]))
