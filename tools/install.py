"""`python -m tools.install WHAT…`: install into this Python's environment by uv, which pip puts there first; else by pip.

uv asks where pip would ask: pip's files and `PIP_…` are handed on in its words. Needs nothing but the standard library.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from envmgr.system.pip_settings import uv_settings

_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def main() -> int:
    what = sys.argv[1:]
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        subprocess.run([*_PIP, "install", "--quiet", "--quiet", "uv"], check=False)
    if uv.exists():
        environ = {"UV_NATIVE_TLS": "1", "UV_NO_PROGRESS": "1", **uv_settings(os.environ, _configured()), **os.environ}
        argv = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--no-compile-bytecode", *what]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return 0
        sys.stderr.write(f"uv could not, pip tries:\n{done.stderr.rstrip()}\n")
    return subprocess.run([*_PIP, "install", "--quiet", "--quiet", *what], check=False).returncode


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
