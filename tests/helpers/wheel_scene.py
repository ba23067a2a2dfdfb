"""A sandbox with an index of synthetic wheels, in files or served."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envmgr.wheels.lockfile import read_wheels
from tests.helpers.done import Done
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.server import Server, serve
from tests.helpers.wheelhouse import Wheelhouse

BASE = f"python/{PYTHON}"


@dataclass
class WheelBox:
    """`box` has the site; its index `house` is the one in files until it is `served`."""

    box: Sandbox
    house: Wheelhouse

    def index(self, **indexes: Any) -> None:
        """Let the site have these indexes; a URL, or the settings of one."""
        rows = {name: {"url": each} if isinstance(each, str) else each for name, each in indexes.items()}
        self.box.settings["backends"] = {"wheels": {"indexes": rows}}
        self.box.write_site()

    @contextmanager
    def served(self) -> Iterator[Server]:
        with serve(self.house.folder) as server:
            self.index(house=f"{server.url}/simple")
            yield server

    def entry(self, entry: str, *requirements: str, **given: Any) -> Path:
        wanted = {"python": "system", "requirements": requirements, "indexes": ["house"], **given}
        return self.box.recipe(entry, [], backend="wheels", input=wanted)

    def conda(self, entry: str, specs: Sequence[str], *pip: str, **given: Any) -> Path:
        """A conda recipe with wheels; without any, one of conda's packages alone."""
        wheels = {"pip": pip, "indexes": ["house"]} if pip else {}
        return self.box.recipe(entry, [], input={"channels": ["standin"], "specs": specs, **wheels, **given})

    def base(self, *more: str, **fields: Any) -> str:
        """A Python of the stand-in channel, as an entry; locked."""
        self.box.recipe(BASE, [f"python {PYTHON}.*", *more], **fields)
        self.box.ok("lock", BASE)
        return BASE

    def lock(self, entry: str) -> dict[str, str]:
        """Lock, and tell name -> version."""
        self.box.ok("lock", entry)
        text = (self.box.root / "recipes" / entry / "wheels.lock").read_text()
        return read_wheels(text, entry)[0].versions

    def files(self, lock: str) -> dict[str, str]:
        """Name -> file of the index, of a lock below the catalog."""
        names = {hashlib.sha256(path.read_bytes()).hexdigest(): path.name for path in self.house.files.iterdir()}
        rows = read_wheels((self.box.root / "recipes" / lock).read_text(), lock)[0].rows
        return {row.name: names[row.sha256] for row in rows}

    def refused(self, *argv: str, **extra: str) -> Done:
        done = self.box.run(*argv, **extra)
        assert done.code in (2, 3), done.stdout + done.stderr
        return done

    def install(self, entry: str) -> Path:
        name, version = entry.split("/")
        (found,) = (p for p in self.box.prefix.glob(f"store/{name}/{version}-*") if p.is_dir())
        return found


Make = Callable[[], WheelBox]


def make_wheel_box(box: Sandbox, *wheels: Path) -> WheelBox:
    made = WheelBox(box, Wheelhouse(box.root / "house"))
    made.index(house=made.house.simple.as_uri())
    made.house.add(*wheels)
    return made
