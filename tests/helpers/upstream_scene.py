"""Two prefixes, as two users: the site's, with a Python, and a user's own, whose upstream that is."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from envmgr.system.files import remove_tree
from tests.helpers.done import Done
from tests.helpers.open_folders import for_everybody
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import BASE, WheelBox, make_wheel_box

APP = "app/1.0"
OTHER = "other/1.0"


@dataclass
class UserBox(Sandbox):
    """A sandbox whose commands a user runs; `wrap` comes before each."""

    wrap: list[str] = field(default_factory=list)

    def command(self, *argv: str) -> list[str]:
        return [*self.wrap, *super().command(*argv)]

    def environ(self, **extra: str) -> dict[str, str]:
        return {**super().environ(**extra), "HOME": str(self.root)}


@dataclass
class Two:
    """`central` has published `python/…` and `other/1.0`, another Python. `own` has `app/1.0`, wheels over the former."""

    central: UserBox
    own: UserBox
    wheels: WheelBox
    root: UserBox

    def gc(self, *argv: str, downstream: list[str]) -> Done:
        """`gc --now` of the central prefix by root, for all that is not in the current generation."""
        build_user = {"build_user": self.central.root.name} if self.central.wrap else {}
        self.root.policies |= {"keep_generations": 1}
        self.root.settings |= {"prefix": str(self.central.prefix), "downstream": downstream, **build_user}
        self.root.write_site()
        return self.root.run("gc", "--now", "--format", "json", *argv)

    def give(self) -> None:
        """Let each user own what the test wrote into the user's folder."""
        for box in (self.central, self.own):
            if box.wrap:
                user = box.root.name
                shutil.chown(box.root, user, user)
                for path in box.root.rglob("*"):
                    if path.owner() == "root" and not path.is_symlink():
                        shutil.chown(path, user, user)

    @property
    def python(self) -> Path:
        """The central install of the Python."""
        return install_in(self.central, BASE)

    def shell(
        self, script: str, *, central: bool = True, shell: str = "bash", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A shell of the user that has read the lines of the central site, and then those of the own one."""
        lines = self.central.ok("shell-init", shell).stdout if central else ""
        lines += self.own.ok("shell-init", shell).stdout
        return subprocess.run(
            [*self.own.wrap, shell, *(["--noprofile", "--norc"] if shell == "bash" else [])],
            input=lines + script,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.own.root), **(env or {})},
            cwd=self.own.root,
            capture_output=True,
            text=True,
            check=False,
        )


def install_in(box: Sandbox, entry: str) -> Path:
    name, version = entry.split("/")
    (found,) = (path for path in box.prefix.glob(f"store/{name}/{version}-*") if path.is_dir())
    return found


@contextmanager
def two_prefixes(mirror: str) -> Iterator[Two]:
    """Both are set up; `app/1.0` is locked, and not built."""
    root = Path(tempfile.mkdtemp(prefix="envmgr-two-"))
    root.chmod(0o755)
    with ExitStack() as undo:
        undo.callback(remove_tree, root)
        boxes = [_box(root, kind, mirror, undo) for kind in ("c", "u")]
        central, own = boxes
        wheels = make_wheel_box(own)
        (root / "root").mkdir()
        two = Two(central, own, wheels, UserBox(root / "root", mirror, wrap=for_everybody(root)))
        for box in boxes:
            undo.callback(box.clear)
        central.write_site()
        central.recipe(BASE, [f"python {PYTHON}.*"])
        central.recipe(OTHER, [f"python {PYTHON}.*"])
        own.settings |= {"upstream": str(central.prefix), "catalogs": ["recipes", str(central.root / "recipes")]}
        own.write_site()
        two.give()
        central.ok("lock", BASE, OTHER)
        central.ok("build", BASE, OTHER)
        wheels.house.wheel("one", files={"one_more.py": "word = 1\n"})
        wheels.entry(APP, "one", python=BASE)
        two.give()
        own.ok("lock", APP)
        yield two


def _box(root: Path, kind: str, mirror: str, undo: ExitStack) -> UserBox:
    if os.geteuid() != 0:
        (root / kind).mkdir()
        return UserBox(root / kind, mirror)
    name = f"envmgr-{kind}{os.getpid()}"
    subprocess.run(["useradd", "--system", "--no-create-home", "--shell", "/bin/sh", name], check=True)
    undo.callback(subprocess.run, ["userdel", name], check=True, capture_output=True)
    (root / name).mkdir()
    words = ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups", "--"]
    return UserBox(root / name, mirror, wrap=[*for_everybody(root), *words])
