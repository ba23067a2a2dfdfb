"""Layers of a container image, merged to one tree, and that as one tar stream in the order of its paths.

What a layer brings is put where the layers below have it: through the links of their folders, never out of the tree. Whiteouts remove
what lower layers brought. Owners become root, modes are for all users; devices, pipes and setuid bits do not come along, and are reported.
Source: OCI image-spec, layer.md.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import BinaryIO

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_LINKS = 40  # of one path. Source: path_resolution(7)
_FIRST = 0o1777  # permission bits that stay


FILES = {
    "/etc/hosts": "",
    "/etc/hostname": "",
    "/etc/resolv.conf": "",
    "/etc/passwd": "",
    "/etc/group": "",
    "/run/.containerenv": "",
    "/etc/mtab": "../proc/self/mounts",
}
"""What runtimes mount over the image's own files, or make where it is not: a file, or a link and its target."""


@dataclass(slots=True)
class Node:
    """One path: its header, the layer that has its content, and what lies below it if it is a folder."""

    info: tarfile.TarInfo
    layer: int
    source: tarfile.TarInfo
    below: dict[str, Node] | None = None


@dataclass(slots=True)
class Tree:
    """The merged tree. `dropped` are paths that were left out, with the reason."""

    root: dict[str, Node] = field(default_factory=dict)
    dropped: list[tuple[str, str]] = field(default_factory=list)
    files: int = 0

    def add_layer(self, number: int, members: Sequence[tarfile.TarInfo]) -> None:
        """Put the members of a layer over what is there: first what it removes, then what it brings."""
        named = [(_parts(member.name), member) for member in members]
        for parts, member in named:
            if parts is None:
                self.dropped.append((member.name, "its path leads out of the image"))
            elif parts and parts[-1].startswith(_WHITEOUT):
                self._remove(parts)
        for parts, member in named:
            if parts and not parts[-1].startswith(_WHITEOUT):
                self._put(number, parts, member)

    def _remove(self, parts: tuple[str, ...]) -> None:
        folder = self._folder(parts[:-1])
        if folder is None:
            return
        if parts[-1] == _OPAQUE:
            folder.clear()
        else:
            folder.pop(parts[-1].removeprefix(_WHITEOUT), None)

    def _put(self, number: int, parts: tuple[str, ...], member: tarfile.TarInfo) -> None:
        path = "/".join(parts)
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            self.dropped.append((path, "no file, folder or link"))
            return
        if member.mode & ~_FIRST & 0o7777 and not member.issym():
            self.dropped.append((path, "its setuid or setgid bit"))
        folder = self._folder(parts[:-1], make=number)
        if folder is None:
            self.dropped.append((path, "its folder is no folder"))
            return
        info, layer, source = copy(member), number, member
        if member.islnk():
            target = self._at(_parts(member.linkname) or ())
            if target is None or target.below is not None:
                self.dropped.append((path, f"a hard link to {member.linkname}, which is not there"))
                return
            info, layer, source = copy(target.info), target.layer, target.source
        old = folder.get(parts[-1])
        below = None
        if member.isdir():
            below = old.below if old is not None and old.below is not None else {}
        folder[parts[-1]] = Node(info, layer, source, below)

    def _at(self, parts: Sequence[str]) -> Node | None:
        folder = self._folder(parts[:-1]) if parts else None
        return None if folder is None else folder.get(parts[-1])

    def _folder(self, parts: Sequence[str], *, make: int | None = None) -> dict[str, Node] | None:
        """Return what lies in a folder, through links, None where it is not one. With `make` it is made, by that layer."""
        left, at, walked, links = [*parts], self.root, list[tuple[str, dict[str, Node]]](), 0
        while left:
            name = left.pop(0)
            if name in ("", "."):
                continue
            if name == "..":
                at = walked.pop()[1] if walked else self.root
                continue
            node = at.get(name)
            if node is None and make is not None:
                node = at[name] = _made(name, make)
            if node is None:
                return None
            if node.info.issym():
                links += 1
                if links > _LINKS:
                    return None
                left = [*node.info.linkname.split("/"), *left]
                if node.info.linkname.startswith("/"):
                    at, walked = self.root, []
                continue
            if node.below is None:
                return None
            walked.append((name, at))
            at = node.below
        return at

    def make_point(self, path: str, layer: int) -> bool:
        """Make a path on which something is mounted later: a folder, also where a link leads to none, or what `FILES` says.

        Runtimes follow links from the node's root: an absolute one on the way becomes a relative one. Return False where a
        file is in the way.
        """
        parts = _parts(path) or ()
        for depth in range(len(parts)):
            node = self._at(parts[: depth + 1])
            if node is not None and node.info.issym():
                if path in FILES and depth == len(parts) - 1:
                    break
                if node.info.linkname.startswith("/"):
                    node.info.linkname = "../" * depth + node.info.linkname.lstrip("/")
                break  # what lies behind it has another depth
        if path not in FILES:
            return self._folder(parts, make=layer) is not None
        folder = self._folder(parts[:-1], make=layer)
        if folder is not None and (parts[-1] not in folder or folder[parts[-1]].info.issym()):
            made = folder[parts[-1]] = _made(parts[-1], layer)
            made.below, made.info.linkname = None, FILES[path]
            made.info.type = tarfile.SYMTYPE if FILES[path] else tarfile.REGTYPE
        return folder is not None and folder[parts[-1]].below is None

    def program(self, path: str) -> list[str]:
        """Return the paths that lead from link to link to a file that may be run, which is the last; none where it is not."""
        found: list[str] = []
        while len(found) < _LINKS:
            found.append(path)
            node = self._at(_parts(path) or ())
            if node is None or node.below is not None:
                return []
            if not node.info.issym():
                return found if node.info.mode & 0o111 else []
            target = node.info.linkname
            path = target if target.startswith("/") else f"{posixpath.dirname(path)}/{target}"
        return []

    def has_package(self, python: str, name: str) -> bool:
        """Return whether the Python at this path in the image finds a package, by where CPython and Debian look for it."""
        steps = self.program(python)
        version = posixpath.basename(steps[-1]) if steps else ""
        prefixes = {posixpath.dirname(posixpath.dirname(step)) for step in steps}
        places = [f"lib/{version}/site-packages", f"local/lib/{version}/dist-packages", "lib/python3/dist-packages"]
        folders = (self._folder(_parts(f"{prefix}/{place}") or ()) for prefix in prefixes for place in places)
        return any(folder is not None and name in folder for folder in folders)

    def each(self) -> Iterator[tuple[str, Node]]:
        """Yield every path with its node, sorted, a folder before what is in it."""
        stack = [("", self.root)]
        while stack:
            prefix, folder = stack.pop()
            for name in sorted(folder):
                yield f"{prefix}{name}", folder[name]
            stack += [(f"{prefix}{n}/", b) for n in sorted(folder, reverse=True) if (b := folder[n].below) is not None]


def write_tree(tree: Tree, layers: Sequence[tarfile.TarFile], out: BinaryIO) -> None:
    """Write the tree as one tar. Raise OSError, TarError."""
    first: dict[tuple[int, int], str] = {}  # of the hard links to one file
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path, node in tree.each():
            info = tarfile.TarInfo(path)
            info.type, info.linkname = node.info.type, node.info.linkname
            info.mtime = time_of(node)
            info.mode = node.info.mode & _FIRST | (0o555 if node.below is not None or node.info.mode & 0o111 else 0o444)
            is_file = node.below is None and not node.info.issym()
            same = first.setdefault((node.layer, node.source.offset), path) if is_file and node.source.size else path
            if same != path:
                info.type, info.linkname = tarfile.LNKTYPE, same
                archive.addfile(info)
            elif is_file:
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", node.source.size
                content = layers[node.layer].extractfile(node.source) if info.size else None
                archive.addfile(info, content)
            else:
                archive.addfile(info)


def time_of(node: Node) -> int:
    """Return the time of a path, in seconds since the epoch, as squashfs has them."""
    return max(0, min(int(node.info.mtime), 0xFFFFFFFF))


def _made(name: str, layer: int) -> Node:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    return Node(info, layer, info, {})


def _parts(name: str) -> tuple[str, ...] | None:
    """Return the words of a member's path; None where it leads out of the tree."""
    parts = posixpath.normpath(name.lstrip("/")).split("/")
    if parts[0] == "..":
        return None
    return () if parts == ["."] else tuple(parts)
