"""`python -m tools.check_scripts`: every shell file of the project through shellcheck, every Lua file through Lmod's Lua."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import find_lmod
from tests.helpers.places import ROOT

FOLDERS = (".ci", "benchmarks", "contrib", "demo", "envmgr", "modulefiles", "nodesetup", "tests", "tools")
_SHELLS = (b"sh", b"bash", b"dash")


def main() -> int:
    """0, or 1 with each fault on stdout (shellcheck's) or stderr."""
    scripts, modules = shell_files(), [path for path in _files() if path.suffix == ".lua"]
    try:
        find_lmod(None, os.environ).check_syntax(modules)
    except EnvmgrError as error:
        sys.stderr.write(f"{error.render()}\n")
        return 1
    if shellcheck(scripts):
        return 1
    sys.stdout.write(f"{len(scripts)} shell files and {len(modules)} Lua files are fine\n")
    return 0


def shellcheck(scripts: list[Path]) -> int:
    """Its exit status. A file that names no shell is read by login shells: it is checked as sh."""
    names = [str(path.relative_to(ROOT)) for path in scripts]
    plain = [name for name in names if not (ROOT / name).read_bytes().startswith((b"#!", b"# shellcheck shell="))]
    others = [name for name in names if name not in plain]
    return max(
        subprocess.run([program(), *options, *some], cwd=ROOT, check=False).returncode
        for options, some in (([], others), (["--shell=sh"], plain))
        if some
    )


def program() -> str:
    return shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"


def shell_files() -> list[Path]:
    """Those named `.sh` or `.nhc` (checks for NHC, which is bash), and programs that begin with a line for sh or bash."""
    return [path for path in _files() if path.suffix in {".sh", ".nhc"} or _is_program(path)]


def _is_program(path: Path) -> bool:
    if path.suffix:
        return False
    with path.open("rb") as file:
        first = file.readline(100)
    return first.startswith(b"#!") and first.split()[-1].rpartition(b"/")[2] in _SHELLS


def _files() -> Iterator[Path]:
    for name in FOLDERS:
        for folder, below, files in os.walk(ROOT / name):
            below[:] = sorted(set(below) - {".cache", "__pycache__"})
            yield from (Path(folder, file) for file in sorted(files))


if __name__ == "__main__":
    sys.exit(main())
