"""The worker that makes the squashfs of an image: layers are unpacked to plain tars, merged, and written by mksquashfs.

How it is spoken to: system/worker.py. Events: `total`, `linked` (a layer), `merged`, `done`, `error`.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from envmgr.backends.container.layers import Tree, time_of, write_tree
from envmgr.catalog.gpus import Code
from envmgr.store.gpu_code import code_of, common_code, may_be_binary
from envmgr.system.worker import emit, serve

_PIECE = 1 << 20
_LOOK_AT_ROOM = 64 << 20
_MOST = 5_000_000  # paths of an image
_DROPPED = 50  # paths that are reported


class BadLayer(Exception):  # noqa: N818 - the name of what is wrong
    """A layer that is damaged, or is no tar. `details` has its number."""


class NoCommand(Exception):  # noqa: N818 - the name of what is wrong
    """The image lacks programs. `details` has their names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.details = {"names": list(names)}


class Full(Exception):  # noqa: N818 - the name of what happened
    """The disk has no room for the layers, unpacked."""


def merge(request: Mapping[str, Any]) -> None:
    """Write the squashfs `target` of the files `layers`, whose unpacked sha256 are `diff_ids`, below the folder `work`."""
    layers, work = [Path(path) for path in request["layers"]], Path(request["work"])
    emit("total", packages=len(layers))
    tree = Tree()
    with ExitStack() as stack:
        opened: list[tarfile.TarFile] = []
        for number, (layer, diff_id) in enumerate(zip(layers, request["diff_ids"], strict=True)):
            plain = work / f"{number}.tar"
            label = f"layer {number + 1} of {len(layers)}"
            _unpack(layer, label, plain, diff_id, int(request["min_free"]))
            try:
                archive = stack.enter_context(tarfile.open(plain, "r:"))
                members = list(islice(archive, _MOST + 1))  # no more of a layer that is meant to be large
            except tarfile.TarError as error:
                raise BadLayer(f"{label} is no tar: {error}") from None
            if len(members) > _MOST:
                raise BadLayer(f"{label} has more than {_MOST} paths")
            opened.append(archive)
            tree.add_layer(number, members)
            emit("linked", name=f"layer {number + 1}")
        if blocked := [path for path in request["points"] if not tree.make_point(path, len(layers) - 1)]:
            raise BadLayer(f"runtimes mount something on {', '.join(blocked)}, which is no place for that in the image")
        commands = {name: _find(tree, path or name, request["path"]) for name, path in request["commands"].items()}
        if lacking := [name for name, path in commands.items() if not path]:
            raise NoCommand(lacking)
        pythons = [n for n, path in commands.items() if n.startswith("python") and tree.has_package(path, "ipykernel")]
        codes = common_code(_binaries(tree, opened)) if request["gpu"] else None
        _squash(tree, opened, request["argv"])
    emit(
        "merged",
        dropped=[f"{path}: {why}" for path, why in tree.dropped[:_DROPPED]],
        count=len(tree.dropped),
        kernel=next(iter(pythons), ""),
        gpu_codes=codes,
    )


def _unpack(layer: Path, label: str, plain: Path, diff_id: str, min_free: int) -> None:
    """Unpack a layer, and require its unpacked sha256. Raise BadLayer, Full."""
    digest, unseen = hashlib.sha256(), _LOOK_AT_ROOM
    try:
        with _opened(layer) as source, plain.open("wb") as target:
            while piece := source.read(_PIECE):
                unseen += len(piece)
                if unseen >= _LOOK_AT_ROOM:
                    unseen = 0
                    if shutil.disk_usage(plain.parent).free < min_free:
                        raise Full(f"{label} unpacks to more than there is room for")
                digest.update(piece)
                target.write(piece)
    except (EOFError, gzip.BadGzipFile, ValueError) as error:
        raise BadLayer(f"{label} cannot be unpacked: {error}") from None
    if diff_id.removeprefix("sha256:") != digest.hexdigest():
        raise BadLayer(f"{label} unpacks to sha256 {digest.hexdigest()}, its image says {diff_id}")


def _opened(layer: Path) -> Any:
    with layer.open("rb") as file:
        magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        from isal import igzip

        return igzip.open(layer, "rb")  # type: ignore[no-untyped-call]
    if magic == b"\x28\xb5\x2f\xfd":
        import zstandard

        return zstandard.open(layer, "rb")
    return layer.open("rb")


def _find(tree: Tree, command: str, path: str) -> str:
    places = [command] if command.startswith("/") else [f"{folder}/{command}" for folder in path.split(":")]
    return next((place for place in places if tree.program(place)), "")


def _binaries(tree: Tree, layers: Sequence[tarfile.TarFile]) -> Iterator[tuple[str, Counter[Code]]]:
    """Yield name and GPU code of each binary that users see, from where its bytes lie in the plain tars."""
    seen = set[tuple[int, int]]()  # of the hard links to one file
    for path, node in tree.each():
        at = (node.layer, node.source.offset)
        if not node.source.size or node.source.issparse() or at in seen or not may_be_binary(path, node.info.mode):
            continue
        seen.add(at)
        archive = layers[node.layer]
        file = None if node.info.issym() else archive.extractfile(node.source)
        if file is not None:
            with file:
                yield Path(path).name, code_of(file, archive.fileobj.fileno(), node.source.offset_data)  # type: ignore[attr-defined]


def _squash(tree: Tree, layers: Sequence[tarfile.TarFile], argv: Sequence[str]) -> None:
    newest = max((time_of(node) for _, node in tree.each()), default=0)  # the time of the root, else it is now
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(newest)},
    )
    assert process.stdin is not None
    assert process.stderr is not None
    broken = False
    try:
        write_tree(tree, layers, cast("BinaryIO", process.stdin))
        process.stdin.close()
    except BrokenPipeError:
        broken = True
    said = process.stderr.read().decode(errors="replace").strip()
    if process.wait() or broken:
        raise OSError(said[-1000:] or f"mksquashfs ended with {process.returncode}")


if __name__ == "__main__":
    os.umask(0o022)
    serve(merge)
