"""A kernel for Jupyter: the environment's own Python, with what its module sets.

It names the environment by its link, and is written again with each change, so that it stays right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.kernels import kernel_env, kernel_spec
from envmgr.modules.statements import ModulePolicies
from envmgr.people.base import BaseEntry
from envmgr.people.lock import UserLock
from envmgr.people.module import user_spec
from envmgr.store.prefix import Install
from envmgr.system.files import atomic_write, explain_os_error, pretty_json, sha256_bytes
from envmgr.system.untrusted_files import ROW, read_json
from envmgr.system.usernames import own_home


def kernel_file(environ: Mapping[str, str], name: str) -> Path:
    """Return the file of an environment's kernel, in the user's own data folder of Jupyter."""
    data = (
        str(Path(given).absolute())
        if (given := environ.get("JUPYTER_DATA_DIR"))
        else f"{own_home(environ.get('HOME'))}/.local/share/jupyter"
    )
    plain = re.sub("[^a-z0-9._-]", "-", name.lower())  # what Jupyter takes
    other = "" if plain == name else f"-{sha256_bytes(name.encode())[:8]}"
    return Path(data) / "kernels" / f"user-{plain}{other}" / "kernel.json"


def user_kernel(name: str, link: Path, install: Install, lock: UserLock, base: BaseEntry, site: Site) -> dict[str, Any]:
    """Return the content of kernel.json for the environment `name` at `link`."""
    policies = ModulePolicies.from_site(site)
    env = kernel_env([user_spec(install, lock, base, policies, programs=link / "bin")], policies, base.number)
    shown = f"{name} ({lock.on}, generation {base.number})"
    return kernel_spec(str(link / "bin/python"), shown, env, {"environment": name, "on": lock.on})


def is_own(file: Path) -> bool:
    """Return whether envmgr wrote this kernel; one that the user made by hand stays as it is."""
    with suppress(OSError, ValueError, EnvmgrError, LookupError, TypeError):
        return "envmgr" in read_json(file, ROW)["metadata"]
    return False


def has_ipykernel(lock: UserLock, base: BaseEntry) -> bool:
    """Return whether Jupyter can talk to a kernel of the environment."""
    return "ipykernel" in base.packages or "ipykernel" in lock.versions


def write_kernel(file: Path, spec: Mapping[str, Any]) -> None:
    """Write a kernel, with its folder. Raise EnvmgrError as `explain_os_error`."""
    with explain_os_error(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, pretty_json(spec))


def remove_kernel(file: Path) -> bool:
    """Remove a kernel that envmgr wrote, and its folder if nothing else is in it; return whether there was one. Raise
    EnvmgrError as `explain_os_error`.
    """
    if not is_own(file):
        return False
    with explain_os_error(file):
        file.unlink(missing_ok=True)
        if file.parent.is_dir() and not any(file.parent.iterdir()):
            file.parent.rmdir()
    return True
