"""A kernel for Jupyter: the environment's own Python, with what its module sets. Nothing is sourced.

It names the environment by its link, and is written again with each change, so that it stays right.
Source: jupyter-client's documentation, "Making kernels for Jupyter", "Kernel specs".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envmgr.modules.spec import applied
from envmgr.people.base import Base
from envmgr.people.lock import UserLock
from envmgr.system.files import atomic_write, explain_os_error, pretty_json, sha256_bytes
from envmgr.system.usernames import own_home


def kernel_file(environ: Mapping[str, str], name: str) -> Path:
    """Return the file of an environment's kernel, in the user's own data folder of Jupyter."""
    data = environ.get("JUPYTER_DATA_DIR") or f"{own_home(environ.get('HOME'))}/.local/share/jupyter"
    plain = re.sub("[^a-z0-9._-]", "-", name.lower())  # what Jupyter takes
    other = "" if plain == name else f"-{sha256_bytes(name.encode())[:8]}"
    return Path(data) / "kernels" / f"user-{plain}{other}" / "kernel.json"


def kernel_spec(name: str, link: Path, lock: UserLock, base: Base) -> dict[str, Any]:
    """Return the content of kernel.json for the environment `name` at `link`.

    PATH ends with the value that Jupyter's server has: `…:${PATH}`. Other variables it may lack.
    """
    changed = applied(base.environment, {"PATH": "${PATH}"})
    env = changed | {"PATH": f"{link / 'bin'}:{changed['PATH']}", "PYTHONNOUSERSITE": "1"}
    return {
        "argv": [str(link / "bin/python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"{name} ({lock.on}, generation {base.number})",
        "language": "python",
        "env": env,
        "metadata": {"envmgr": {"environment": name, "on": lock.on}},
    }


def write_kernel(file: Path, spec: Mapping[str, Any]) -> None:
    """Write a kernel, with its folder. Raise EnvmgrError as `explain_os_error`."""
    with explain_os_error(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, pretty_json(spec))


def remove_kernel(file: Path) -> None:
    """Remove a kernel, and its folder if nothing else is in it. Raise EnvmgrError as `explain_os_error`."""
    with explain_os_error(file):
        file.unlink(missing_ok=True)
        if file.parent.is_dir() and not any(file.parent.iterdir()):
            file.parent.rmdir()
