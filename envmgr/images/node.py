"""The script that a node runs for images, and its answer as rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from envmgr.store.image import ImageRecord
from envmgr.store.prefix import Install
from envmgr.system.files import shipped
from envmgr.system.shelltext import assign, script_text

Act = Literal["look", "mount", "copy", "away"]
Mounted = Literal["local", "share", "other", "none"]

BUSY = "another run is staging there"
SLICE = 64 << 20
"""Bytes of an image that are sent to nodes at once."""


@dataclass(frozen=True, slots=True)
class WantedImage:
    """An image that a node should mount over `path`; `image` is the file on the share, `size` its bytes."""

    path: str
    image: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        """The name of a copy: of the install, and of these very bytes."""
        return f"{'+'.join(self.path.rsplit('/', 2)[1:])}.{self.sha256[:8]}"

    def row(self) -> str:
        return f"{self.path} {self.name} {self.image} {self.sha256} {self.size}"


def wanted_image(install: Install, record: ImageRecord) -> WantedImage:
    return WantedImage(str(install.path), str(install.image), record.sha256, record.size)


@dataclass(frozen=True, slots=True)
class NodeImage:
    """An image on a node. `source` is the file or device that is mounted over the path; `copied` of `size` bytes are on
    the node's disk, `age` is seconds since the copy was staged. `why` says why more was not done.
    """

    node: str
    path: str
    sha256: str
    mounted: Mounted
    source: str
    copied: int
    size: int
    age: int
    why: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.node, self.path, self.sha256

    @property
    def wanted(self) -> WantedImage:
        """Return the row that a node needs to let go of it: it has noted itself which image that is."""
        return WantedImage(self.path, "-", self.sha256, self.size)

    @property
    def waits(self) -> bool:
        return self.why.startswith("waiting: ")

    @property
    def done(self) -> bool:
        """Return whether no more can be done now."""
        return (self.mounted == "local" and self.copied == self.size) or (
            bool(self.why) and (not self.waits or self.copied == self.size)
        )


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The answer of a node: its own name, its images, and why there is nothing to say (empty if there is)."""

    host: str
    images: tuple[NodeImage, ...]
    fault: str = ""


def node_script(
    act: Act,
    wanted: Iterable[WantedImage],
    *,
    folder: str,
    quota: int,
    seconds: int,
    rate: int = 0,
    sources: Mapping[str, str] | None = None,
    others: Literal["share", "slices"] = "share",
) -> str:
    """Return the script. `sources` maps the nodes' own names to the node from which each copies; all others copy from the
    share, or take the `slices` that were sent to them. `rate` is bytes per second of each node, 0 for no limit; `seconds`
    is how long a copy may go on before it answers.
    """
    lines = [f"  {host}) stage_from={source} ;;\n" for host, source in (sources or {}).items() if _is_name(host)]
    chosen = f"stage_from={others}\n" + (f"case $(uname -n) in\n{''.join(lines)}esac\n" if lines else "")
    table = "\n".join(each.row() for each in wanted)
    given = assign(
        stage_act=act,
        stage_table=table,
        stage_dir=folder,
        stage_quota=quota,
        stage_rate=rate,
        stage_seconds=seconds,
        stage_step=SLICE,
    )
    whole = given + chosen + (shipped("nodesetup") / "images.sh").read_text("utf-8")
    return assign(stage_script=whole) + script_text(__file__, "outside.sh")


def _is_name(host: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.-]+", host) is not None


# The path becomes a word of a row again: it is one of a store, without a blank.
_ROW = re.compile(
    r"image\t((?:/(?!\.\.?/)[^\s/]+)+/store/[^\s/]+/[^\s/]+-[0-9a-f]{8})\t([0-9a-f]{64})\t(local|share|other|none)\t([^\t]*)"
    r"\t(\d{1,18})\t(\d{1,18})\t(-?\d{1,18})\t(.*)"
)


def read_answer(node: str, text: str, wanted: Sequence[WantedImage] = ()) -> NodeAnswer:
    """Read the answer; half of one is a fault: a row for each of `wanted` must be there."""
    lines = text.splitlines()
    if lines and lines[0].startswith("not-root\t"):
        return NodeAnswer("", (), f"the script ran there as {lines[0].partition(chr(9))[2]}, and only root can mount")
    host = lines[0].partition("\t")[2] if lines and lines[0].startswith("host\t") else ""
    if lines[1:2] == ["busy"]:
        return NodeAnswer(host, (), BUSY)
    if lines[1:2] and lines[1].startswith("closed\t"):
        return NodeAnswer(host, (), lines[1].partition("\t")[2])
    found = []
    for match in filter(None, map(_ROW.fullmatch, lines[1:])):
        path, sha256, mounted, source, copied, size, age, why = match.groups()
        row = NodeImage(node, path, sha256, mounted, source, int(copied), int(size), int(age), why)  # type: ignore[arg-type]
        found.append(row)
    if not host or len(found) + 1 != len(lines) or not {w.path for w in wanted} <= {row.path for row in found}:
        return NodeAnswer(host, tuple(found), f"an answer that makes no sense: {text[-200:]!r}")
    return NodeAnswer(host, tuple(found))
