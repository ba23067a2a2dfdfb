"""EasyBuild, on a toy that builds in a second."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envmgr.system.files import remove_tree
from tests.helpers.backends import ENTRY, LICENSED
from tests.helpers.easybuild.workshop import Workshop, make_workshop
from tests.helpers.standin.channel import Channel

tier = "easybuild"


class EasyBuildScene:
    licence = "toy-eula"
    program = "toy"
    tree = None

    def __init__(self, box: Workshop) -> None:
        self.box = box
        box.toy()
        box.entry(ENTRY, "toy-1.0.eb")
        box.entry(LICENSED, "toy-1.0.eb", input={"accept_eula": ["toy"]})

    def change(self) -> None:
        self.box.entry(ENTRY, "toy-1.0.eb", input={"rpath": True})

    def cut(self) -> None:
        (self.box.root / "mirror").rename(self.box.root / "away")


def open_scene(root: Path, channel: Channel) -> Iterator[EasyBuildScene]:
    box = make_workshop()
    yield EasyBuildScene(box)
    remove_tree(box.root)
