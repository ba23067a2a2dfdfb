"""Wheels, synthetic ones of an index in files, on the operating system's Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from envmgr.system.files import remove_tree
from tests.helpers.backends import ENTRY, LICENSED
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheelhouse import Wheelhouse

tier = "sandbox"


class WheelsScene:
    licence = "own-licence"
    program = "hello"
    tree = None

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.house = Wheelhouse(box.root / "house")
        self.house.wheel("hello", scripts={"hello": "hello:main"}, requires=["shared"])
        self.house.wheel("shared")
        self.house.wheel("other")
        box.settings["backends"] = {"wheels": {"indexes": {"house": {"url": self.house.simple.as_uri()}}}}
        box.write_site()
        self._recipe(ENTRY, "hello")
        folder = self._recipe(LICENSED, "hello")
        (folder.parent / "software.yaml").write_text(json.dumps({"description": "x", "acknowledge": self.licence}))

    def _recipe(self, entry: str, *requirements: str) -> Path:
        given = {"python": "system", "requirements": requirements, "indexes": ["house"]}
        return self.box.recipe(entry, [], backend="wheels", input=given)

    def change(self) -> None:
        self._recipe(ENTRY, "hello", "other")

    def cut(self) -> None:
        self.house.folder.rename(self.box.root / "away")


def open_scene(root: Path, channel: Channel) -> Iterator[WheelsScene]:
    box = Sandbox(root, str(channel.folder))
    yield WheelsScene(box)
    remove_tree(box.prefix)
