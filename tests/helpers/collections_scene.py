"""A machine on which users save collections: generations that were really rendered, real Lmod, both set-ups, every shell."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from envmgr.modules.lmod import Lmod
from envmgr.report import SilentReporter
from envmgr.steps import Context
from envmgr.system.run import Runner
from envmgr.verbs.shell_init import shell_init
from tests.helpers.lmod_shell import LMOD, make_tree, spec
from tests.helpers.node_scene import Scene

# node-setup: a login shell reads its files. shell-init: its lines are the shell's only start-up file.
NODE = {"bash": ("bash", "-lc"), "zsh": ("zsh", "-lc"), "sh": ("dash", "-lc"), "csh": ("tcsh", "-c")}
BARE = {"bash": ("bash", "--noprofile", "--norc"), "zsh": ("zsh", "-f"), "sh": ("dash",), "csh": ("tcsh", "-f")}
SETUPS = [(setup, shell) for setup in ("node-setup", "shell-init") for shell in NODE]


@dataclass(frozen=True)
class Said:
    """What a shell printed; `out` by its last `show`: the loaded modules, their generation, MODULEPATH."""

    out: list[str]
    err: list[str]


class Collections(Scene):
    """`lmod` is the Lmod of all shells."""

    lmod: Lmod = LMOD
    is_set_up = False

    def publish(self, number: int, entries: dict[str, list[str]], *defaults: str) -> Path:
        """A generation of these entries, each with what it depends on; it becomes the current one."""
        folder = self.prefix / f"generations/{number:04d}"
        folder.mkdir(parents=True)
        specs = [
            spec(entry, depends=tuple(depends), default=entry in defaults, root=f"{self.prefix}/store/{entry}")
            for entry, depends in entries.items()
        ]
        tree = make_tree(folder, *specs, generation=number)
        (folder / "modules").mkdir(exist_ok=True)
        tree.cache()
        self.flip(number)
        return folder

    def gc(self, number: int) -> None:
        shutil.rmtree(self.prefix / f"generations/{number:04d}")

    def shell(self, setup: str, shell: str, script: str, **env: str) -> Said:
        """Run `script` in a new shell of this kind. `status` and `show` print the exit code and what is loaded."""
        env = {"LMOD_TERM_WIDTH": "400", **env}
        if "MODULEPATH" in env:  # Debian's start-up file then adds nothing to it
            env["MODULEPATH_ROOT"] = "/"
        if (setup == "node-setup") != self.is_set_up:
            self.is_set_up = setup == "node-setup"
            self.do("apply" if self.is_set_up else "undo")
        if shell == "csh":
            script = script.replace("; status", "; echo $status").replace("; show", f"; {_SHOW_CSH}")
        else:
            script = script.replace("; status", "; echo $?").replace("; show", f"; {_SHOW}")
        if setup == "node-setup":
            done = self.run(*NODE[shell], script, env=env)
        else:
            file = self.folder / f"script-{os.getpid()}"
            file.write_text(f"{self._lines(shell)}\n" + script.replace("; ", "\n") + "\n")
            done = self.run(*BARE[shell], str(file), env=env)
        return Said(_words(done.stdout), _words(done.stderr))

    def _lines(self, shell: str) -> str:
        context = Context(self.site, Runner(), SilentReporter(), {"LMOD_PKG": str(self.lmod.package)})
        return shell_init(context, shell).text


_SHOW = 'echo "${LOADEDMODULES:--}"; echo "${ENVMGR_GENERATION:--}"; echo "${MODULEPATH:--}"'
_SHOW_CSH = "; ".join(f"printenv {v} | grep . || echo -" for v in ("LOADEDMODULES", "ENVMGR_GENERATION", "MODULEPATH"))


def _words(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]
