"""A stand-in for `conda`: it speaks the protocol between conda and a shell, in Python without packages.

`shell.posix` and `shell.csh` with `activate`, `deactivate` and `reactivate` print what the shell has to evaluate; `create -n`
and `install` write files, `list` says what it was given. Source of the protocol: conda's docs, "conda activate", and what
conda 4.6 and newer print.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[0]).parent.parent

# For csh conda brings a file of its own, which its alias sources.
CSH = """\
setenv CONDA_EXE "{root}/bin/conda"
setenv _CONDA_ROOT "{root}"
setenv _CONDA_EXE "{root}/bin/conda"
setenv CONDA_PYTHON_EXE "{root}/bin/python"
if ("$1" == activate || "$1" == deactivate) then
  set told = "`(setenv prompt '$prompt'; {root}/bin/conda shell.csh $argv)`" || exit $status
  eval "$told"
  unset told
  rehash
else
  {root}/bin/conda $argv
endif
"""


class Says:
    """The lines for one kind of shell."""

    def __init__(self, csh: bool) -> None:
        self.csh = csh
        self.lines: list[str] = []

    def export(self, name: str, value: str) -> None:
        self.lines.append(f'setenv {name} "{value}"' if self.csh else f"export {name}='{value}'")

    def unset(self, name: str) -> None:
        self.lines.append(f"unsetenv {name}" if self.csh else f"export {name}=''")  # as newer ones do

    def prompt(self, modifier: str) -> None:
        name = "prompt" if self.csh else "PS1"
        bare = os.environ.get(name, "").replace(os.environ.get("CONDA_PROMPT_MODIFIER", ""), "", 1)
        self.lines.append(f'set prompt="{modifier}{bare}"' if self.csh else f"PS1='{modifier}{bare}'")

    def own(self) -> None:
        self.export("CONDA_EXE", str(ROOT / "bin/conda"))
        self.export("_CONDA_EXE", str(ROOT / "bin/conda"))
        self.export("_CONDA_ROOT", str(ROOT))
        self.export("_CE_M", "")
        self.export("_CE_CONDA", "")
        self.export("CONDA_PYTHON_EXE", str(ROOT / "bin/python"))


def find(name: str) -> Path:
    folders = [Path(f) for f in os.environ.get("CONDA_ENVS_PATH", "").split(":") if f] + [ROOT / "envs"]
    for path in [ROOT] if name == "base" else [Path(name)] if "/" in name else [f / name for f in folders]:
        if path.is_dir():
            return path
    sys.exit(f"\nEnvironmentNameNotFound: Could not find conda environment: {name}")


def without(path: list[str], prefix: str) -> list[str]:
    entry = f"{prefix}/bin"
    at = path.index(entry) if entry in path else None
    return path if at is None else path[:at] + path[at + 1 :]


def change(says: Says, verb: str, name: str) -> None:
    environ = os.environ
    level = int(environ.get("CONDA_SHLVL") or 0)
    path = environ["PATH"].split(":")
    if verb == "activate":
        prefix = find(name)
        old = environ.get("CONDA_PREFIX", "")
        if level:
            says.export(f"CONDA_PREFIX_{level}", old)
            path = without(path, old)
        elif not any(p.endswith("condabin") for p in path):
            path.insert(0, str(ROOT / "condabin"))
        here(says, prefix, level + 1, [f"{prefix}/bin", *path])
    elif level:
        path = without(path, environ["CONDA_PREFIX"])
        if level > 1:
            back = environ[f"CONDA_PREFIX_{level - 1}"]
            says.unset(f"CONDA_PREFIX_{level - 1}")
            here(says, Path(back), level - 1, [f"{back}/bin", *path])
        else:
            for gone in ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_PROMPT_MODIFIER"):
                says.unset(gone)
            says.prompt("")
            says.export("PATH", ":".join(path))
            says.export("CONDA_SHLVL", "0")
            says.own()


def here(says: Says, prefix: Path, level: int, path: list[str]) -> None:
    name = "base" if prefix == ROOT else prefix.name
    says.prompt(f"({name}) ")
    says.export("PATH", ":".join(path))
    says.export("CONDA_PREFIX", str(prefix))
    says.export("CONDA_SHLVL", str(level))
    says.export("CONDA_DEFAULT_ENV", name)
    says.export("CONDA_PROMPT_MODIFIER", f"({name}) ")
    says.own()


def main() -> None:
    verb, *rest = sys.argv[1:] or ["help"]
    with Path(os.environ["HOME"], "conda.log").open("a") as log:
        print(verb, *rest, file=log)
    if verb.startswith("shell."):
        says = Says(verb == "shell.csh")
        rest = [word for word in rest if word]  # csh gives an empty one
        if rest[0] != "reactivate":
            change(says, rest[0], rest[1] if len(rest) > 1 else "base")
        print((";\n" if says.csh else "\n").join(says.lines))
    elif verb == "create":
        prefix = Path(os.environ["CONDA_ENVS_PATH"].split(":")[0]) / rest[-1]
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin/tool").write_text(f"#!/bin/sh\necho tool of {rest[-1]}\n")
        (prefix / "bin/tool").chmod(0o755)
    elif verb == "install":
        folder = Path(os.environ["CONDA_PKGS_DIRS"])
        folder.mkdir(parents=True, exist_ok=True)
        for word in rest:
            (folder / re.sub(r"\W", "_", word)).write_text("")
    elif verb == "fail":
        sys.exit(3)
    else:
        print("conda", verb, *rest)


if __name__ == "__main__":
    main()
