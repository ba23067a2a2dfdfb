"""`python -m tools.uv [--one-index] WORDS…`: uv, which pip puts into this Python's environment first, as dev-lock.txt has it.

uv asks where pip would ask: pip's files and `PIP_…` are handed on in its words. With `--one-index`, further indexes and folders of
files are left out: they may have a part of a release alone, and a lock made from them would lack the sha256 of the other files.
Needs nothing but the standard library.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from envmgr.system.pip_settings import uv_settings

LOCK = Path(__file__).parents[1] / "dev-lock.txt"
_FURTHER = ("UV_INDEX", "UV_FIND_LINKS", "UV_INDEX_STRATEGY")
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def main() -> int:
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        _install_uv()
    words, said = sys.argv[1:], uv_settings(os.environ, _configured())
    if words[:1] == ["--one-index"]:
        words, said = words[1:], {key: value for key, value in said.items() if key not in _FURTHER}
    environ = {"UV_NATIVE_TLS": "1", "UV_NO_PROGRESS": "1", "UV_PYTHON": sys.executable, **said, **os.environ}
    return subprocess.run([uv, *words], env=environ, check=False).returncode


def _install_uv() -> None:
    """Raises CalledProcessError; pip has said why."""
    row = re.search(r"^uv==(.*\\\n)*.*\n", LOCK.read_text(), re.MULTILINE)
    assert row is not None, f"{LOCK} does not have uv"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(row[0])
        file.flush()
        words = [
            "install",
            "--quiet",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "-r",
            file.name,
        ]
        subprocess.run([*_PIP, *words], check=True)


def _configured() -> dict[str, str]:
    """pip's options by name, of all its files; those of `pip install` alone last, as they count most."""
    said = subprocess.run([*_PIP, "config", "list"], capture_output=True, text=True, check=False).stdout
    rows = [line.partition("=")[::2] for line in said.splitlines() if "=" in line]
    found = {}
    for section in ("global", "install"):
        for name, value in rows:
            if name.startswith(f"{section}."):
                found[name.partition(".")[2]] = str(ast.literal_eval(value))
    return found


if __name__ == "__main__":
    sys.exit(main())
