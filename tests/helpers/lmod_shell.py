"""Real Lmod in a clean shell, on a tree that was really rendered: what the tests of modules share."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from envmgr.modules.lmod import find_lmod
from envmgr.modules.render import render_tree
from envmgr.modules.spec import EnvOp, ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.system.files import shipped
from envmgr.system.run import Completed, Runner, clean_env
from tests.helpers.waiting import DEADLINE

LMOD = find_lmod(None, os.environ)
TEMPLATES = shipped("modulefiles")
DIGEST = "0123456789abcdef" * 4


def spec(entry: str, *operations: EnvOp, **fields: Any) -> ModuleSpec:
    name, version = entry.split("/")
    defaults = {"root": f"/store/{name}/{version}-01234567", "digest": DIGEST, "description": f"what {name} is"}
    return ModuleSpec(name=name, version=version, environment=operations, **{**defaults, **fields})


def with_packages(modulefile: Path, count: int = 90) -> None:
    """Let a modulefile name many packages, numpy among them, as that of a conda environment does."""
    names = ["numpy/1.26.4", *(f"package{number:02}/1.{number}" for number in range(1, count))]
    with modulefile.open("a", encoding="utf-8") as file:
        file.write(f'extensions("{", ".join(names)}")\n')


def on_stdout(shell: str, words: str) -> str:
    """What asks Lmod in that shell; in csh and fish its own `module` always tells on stderr."""
    return f"sh -c '$LMOD_CMD bash {words} 2>&1'" if "csh" in shell or "fish" in shell else f"module --redirect {words}"


def avail_lines(lines: Sequence[str]) -> list[str]:
    """What `module avail` printed, a heading or an entry each: without rules, marks and Lmod's advice at the end."""
    listing = takewhile(lambda line: not line.startswith(("Use ", "  Where:", "If ")), lines)
    return [re.sub(r"^-+ | -+$", "", line).strip() for line in listing if line.strip()]


def op(kind: str, name: str, value: str = "", separator: str = ":") -> EnvOp:
    return EnvOp(kind=kind, name=name, value=value, separator=separator)


@dataclass(frozen=True, slots=True)
class Tree:
    """A rendered generation in `folder`: modules/, and after `cache` spider/ and lmodrc.lua."""

    folder: Path

    @property
    def modules(self) -> Path:
        return self.folder / "modules"

    @property
    def lmodrc(self) -> Path:
        return self.folder / "lmodrc.lua"

    def cache(self) -> None:
        LMOD.build_spider_cache(self.modules, self.folder / "spider")
        self.lmodrc.write_text(LMOD.lmodrc_text(self.folder / "spider"))

    def shell(self, script: str, *, before: str = "", **env: str) -> Completed:
        """Run bash `script` with `module` defined. `before` is run by sh first, in a mount namespace of its own.

        `snapshot FILE` writes the environment, for `read_snapshot`.
        """
        text = f'. {LMOD.init_script("bash")}\nsnapshot() {{ env -0 > "{self.folder}/$1"; }}\n{script}'
        argv = ["bash", "--noprofile", "--norc", "-c", text]
        if before:
            inner = f"set -e; {before}\nexec {' '.join(shlex.quote(a) for a in argv)}"
            user = [] if os.geteuid() == 0 else ["--map-root-user"]
            argv = ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", inner]
        # Wide, so that Lmod does not wrap what the tests compare.
        own = {"MODULEPATH": str(self.modules), "LMOD_TERM_WIDTH": "400", "HOME": str(self.folder)}
        own |= {"LMOD_RC": str(self.lmodrc)} if self.lmodrc.exists() else {}
        return Runner().run(argv, env=clean_env(**{**own, **env}), check=False, timeout=DEADLINE)

    def read_snapshot(self, name: str) -> dict[str, str]:
        """The environment at `snapshot name`, without what Lmod and bash keep for themselves."""
        items = (self.folder / name).read_bytes().decode("utf-8", "surrogateescape").split("\0")
        pairs = dict(item.partition("=")[::2] for item in items if item)
        own = ("_ModuleTable", "__LMOD_", "LMOD_", "_LMFILES_", "LOADEDMODULES", "_")
        return {key: value for key, value in pairs.items() if not key.startswith(own)}


def make_tree(folder: Path, *specs: ModuleSpec, generation: int = 42, **policies: Any) -> Tree:
    tree = Tree(folder)
    rendered = render_tree(specs, generation=generation, policies=ModulePolicies(**policies), templates=TEMPLATES)
    for path, text in rendered.items():
        (tree.modules / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.modules / path).write_text(text, encoding="utf-8", newline="")
    return tree
