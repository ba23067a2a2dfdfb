"""conda, on the stand-in channel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envmgr.system.files import remove_tree
from tests.helpers.backends import ENTRY, LICENSED
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel

tier = "sandbox"


class CondaScene:
    licence = "anaconda-terms"
    program = "hello-prefix"
    tree = None

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self._channels(box.mirror)
        box.recipe(ENTRY, ["hello-prefix"])
        box.recipe(LICENSED, [], input={"channels": ["defaults"], "specs": ["hello-prefix"]})

    def _channels(self, mirror: str) -> None:
        place = {"url": "http://channel.invalid/standin", "mirrors": [mirror]}
        self.box.settings["channels"] = {"standin": place, "defaults": place}
        self.box.write_site()

    def change(self) -> None:
        self.box.recipe(ENTRY, ["hello-prefix", "shared"])

    def cut(self) -> None:
        self._channels(str(self.box.root / "nothing"))


def open_scene(root: Path, channel: Channel) -> Iterator[CondaScene]:
    box = Sandbox(root, str(channel.folder))
    yield CondaScene(box)
    remove_tree(box.prefix)
