"""One scene a backend: what the promises of tests/helpers/backend_promises.py need to be tried with it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel

ENTRY = "promise/1.0"
LICENSED = "licensed/1.0"


class Scene(Protocol):
    """A site with two entries: `ENTRY`, and `LICENSED`, whose lock needs the word `licence` of the site."""

    box: Sandbox
    licence: str
    program: str
    """A program of `ENTRY` that ends well without arguments."""
    tree: Path | None
    """The folder of the software, where it is not the install itself: what a build reads, instead of a cache."""

    def change(self) -> None:
        """The recipe of `ENTRY` asks for something else; its lock stays."""

    def cut(self) -> None:
        """From now on nothing can be had that is not in the cache."""


class SceneModule(Protocol):
    tier: Literal["sandbox", "easybuild", "spack"]
    """The folder of tests in which its promises are tried: by how long its builds take."""

    def open_scene(self, root: Path, channel: Channel) -> Iterator[Scene]:
        """The scene, cleared away afterwards."""


def scene_module(name: str) -> Any:
    """Every backend has one: ModuleNotFoundError is a test that fails."""
    return importlib.import_module(f"{__name__}.{name}")
