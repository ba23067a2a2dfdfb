"""A vendor's tree in a folder beside the prefix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from envmgr.system.files import remove_tree
from tests.helpers.backends import ENTRY, LICENSED
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.vendor_tree import make_tree

tier = "sandbox"


class ExistingScene:
    licence = "own-licence"
    program = "hello"

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.tree = make_tree(box.root / "vendor" / "hello-1.0")
        box.write_site()
        self._recipe(ENTRY)
        folder = self._recipe(LICENSED)
        (folder.parent / "software.yaml").write_text(json.dumps({"description": "x", "acknowledge": self.licence}))

    def _recipe(self, entry: str, **more: object) -> Path:
        return self.box.recipe(entry, [], backend="existing", input={"path": str(self.tree), **more})

    def change(self) -> None:
        self._recipe(ENTRY, ignore=[])

    def cut(self) -> None:
        """Nothing comes over a network."""


def open_scene(root: Path, channel: Channel) -> Iterator[ExistingScene]:
    box = Sandbox(root, str(channel.folder))
    yield ExistingScene(box)
    remove_tree(box.prefix)
