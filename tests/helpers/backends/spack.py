"""bzip2 of a real Spack: only `make test-spack` has one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.backends import ENTRY, LICENSED
from tests.helpers.easybuild.debian_sources import sourcepath
from tests.helpers.real_spack import spack_site
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel

tier = "spack"


class SpackScene:
    licence = "own-licence"
    program = "bzip2"
    tree = None

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        spack_site(box)
        self.source = sourcepath("bzip2") / "b/bzip2/bzip2-1.0.8.tar.gz"
        self.there = box.root / "mirror" / self.source.name
        self.there.write_bytes(self.source.read_bytes())
        self._recipe(ENTRY, "bzip2@1.0.8")
        folder = self._recipe(LICENSED, "bzip2@1.0.8")
        (folder.parent / "software.yaml").write_text(json.dumps({"description": "x", "acknowledge": self.licence}))

    def _recipe(self, entry: str, spec: str) -> Path:
        return self.box.recipe(entry, [], backend="spack", input={"specs": [spec]})

    def change(self) -> None:
        self._recipe(ENTRY, "bzip2@1.0.8 ~shared")

    def cut(self) -> None:
        self.there.unlink(missing_ok=True)


def open_scene(root: Path, channel: Channel) -> Iterator[SpackScene]:
    box = Sandbox(root, "")
    yield SpackScene(box)
    box.clear()
