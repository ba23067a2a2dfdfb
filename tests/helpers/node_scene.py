"""A node for tests of node-setup: a copy of /etc over the real one in a mount namespace of its own, an empty /usr/local/share, and a
prefix without a store.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envmgr.catalog.site import Site, load_site
from envmgr.modules.nodesetup import Action, NodeFiles, install_script, node_files
from tests.helpers.waiting import DEADLINE

USER = [] if os.geteuid() == 0 else ["--map-root-user"]

# Each starts a shell as a node does: (as ssh runs a command), login, login with a prompt.
SHELLS = {
    "bash by ssh": ("env", "SSH_CLIENT=1 2 3", "SHLVL=0", "bash", "-c"),
    "bash login": ("bash", "-lc"),
    "dash login": ("dash", "-lc"),
    "zsh": ("zsh", "-c"),
    "zsh login": ("zsh", "-lc"),
    "tcsh": ("tcsh", "-c"),
    "csh": ("csh", "-c"),
    "fish": ("fish", "-c"),
    "fish login": ("fish", "-lc"),
}


@dataclass
class Scene:
    folder: Path
    settings: str = ""
    before: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        subprocess.run(
            ["cp", "-a", "/etc", self.folder / "etc"], check=False, capture_output=True
        )  # all that may be read
        (self.folder / "home").mkdir()
        (self.folder / "run").mkdir()
        (self.folder / "share").mkdir()
        (self.folder / "site.yaml").write_text(f"schema: 1\nprefix: {self.prefix}\n{self.settings}")

    @property
    def etc(self) -> Path:
        return self.folder / "etc"

    @property
    def prefix(self) -> Path:
        return self.folder / "sw"

    @property
    def site(self) -> Site:
        return load_site(self.folder / "site.yaml", {})

    @property
    def files(self) -> NodeFiles:
        return node_files(self.site)

    def generation(self, number: int) -> Path:
        """A generation with the module `hello`, which sets HELLO to its number; it becomes the current one."""
        folder = self.prefix / f"generations/{number:04d}"
        (folder / "modules/hello").mkdir(parents=True)
        (folder / "modules/hello/1.0.lua").write_text(f'setenv("HELLO", "{number}")\n')
        (folder / "lmodrc.lua").write_text("scDescriptT = {}\n")
        self.flip(number)
        return folder

    def flip(self, number: int) -> None:
        (self.prefix / "current").unlink(missing_ok=True)
        (self.prefix / "current").symlink_to(f"generations/{number:04d}")

    def remove(self, number: int) -> None:
        shutil.rmtree(self.prefix / f"generations/{number:04d}")

    @property
    def inside(self) -> list[str]:
        """The words before a program that runs on the node."""
        places = {self.etc: "/etc", self.folder / "run": "/run", self.folder / "share": "/usr/local/share"}
        mounts = [f"mount --bind {folder} {place}" for folder, place in places.items()]
        steps = "\n".join([*mounts, *self.before, 'exec "$@"'])
        return ["unshare", *USER, "--mount", "--propagation", "private", "sh", "-c", steps, "sh"]

    def run(self, *argv: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program on the node, in an environment that is empty but for `env`."""
        return subprocess.run(
            [*self.inside, *argv],
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder / "home"), "TERM": "dumb"}
            | (env or {}),
            cwd="/",
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            **({"capture_output": True, "timeout": DEADLINE} | options),
        )

    def do(self, action: Action) -> dict[str, str]:
        """Run the script that goes to nodes; path -> status, and `slurm` -> state."""
        done = self.run("sh", "-c", install_script(self.files, action))
        assert (done.returncode, done.stderr) == (0, "")
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        return {path: status for status, path, _ in lines if status != "slurm"}

    def said(self, *argv: str, env: dict[str, str] | None = None) -> list[str]:
        """The lines that a program prints; it must not print on stderr."""
        done = self.run(*argv, env=env)
        assert (done.returncode, done.stderr) == (0, ""), argv
        return done.stdout.splitlines()
