"""An image of one static program, in a real registry on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from envmgr.system.files import remove_tree
from tests.helpers.backends import ENTRY, LICENSED
from tests.helpers.registry import Registry, busybox, files, registry
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel

tier = "sandbox"
HELLO = b"#!/bin/sh\necho hello $GREETING\n"


class ContainerScene:
    licence = "own-licence"
    program = "hello"
    tree = None

    def __init__(self, box: Sandbox, registry: Registry) -> None:
        self.box, self.registry = box, registry
        hello = files({"usr/bin/hello": HELLO}, mode=0o755)
        registry.push("lab/hello:1.0", [busybox(), hello], Env=["PATH=/usr/bin:/bin", "GREETING=world"])
        registry.push("lab/hello:2.0", [busybox(), hello], Env=["PATH=/usr/bin:/bin", "GREETING=moon"])
        box.settings["backends"] = {"container": {"registries_conf": str(registry.conf), "runtime": "charliecloud"}}
        box.write_site()
        self._recipe(ENTRY, "1.0")
        folder = self._recipe(LICENSED, "1.0")
        (folder.parent / "software.yaml").write_text(json.dumps({"description": "x", "acknowledge": self.licence}))

    def _recipe(self, entry: str, tag: str) -> Path:
        given = {"image": f"{self.registry.host}/lab/hello:{tag}", "commands": ["hello"]}
        return self.box.recipe(entry, [], backend="container", input=given)

    def change(self) -> None:
        self._recipe(ENTRY, "2.0")

    def cut(self) -> None:
        self.registry.stop()


def open_scene(root: Path, channel: Channel) -> Iterator[ContainerScene]:
    box = Sandbox(root, str(channel.folder))
    with registry(root / "registry") as found:
        yield ContainerScene(box, found)
    remove_tree(box.prefix)
