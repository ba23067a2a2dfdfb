"""What the test cluster needs of this machine, and where it comes from on Debian (tools/ensure installs it for root)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# As tools/ensure calls them; a folder or file stands for a package without a program.
_PROGRAMS = (
    "slurmctld",
    "slurmd",
    "srun",
    "sinfo",
    "munged",
    "sshd",
    "ssh",
    "sshfs",
    "ganesha.nfsd",
    "rpcbind",
    "cc",
    "pkg-config",
    "ip",
    "sudo",
    "tc",
    "tcsh",
    "unshare",
    "nsenter",
    "setpriv",
)
_LIBRARIES = ("fuse3", "libnfs")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def reason_to_skip() -> str | None:
    """Why there can be no cluster here, None when there can."""
    if sys.platform != "linux":
        return "the test cluster needs Linux"
    if os.geteuid() != 0:
        return "the test cluster needs root (namespaces, mounts)"
    if not Path("/etc/debian_version").exists():
        return "the test cluster is written for Debian"
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    missing += [name for name in _LIBRARIES if _run("pkg-config", "--exists", name)]
    missing += [path for path in ("/usr/share/lmod/lmod", "/usr/lib/ganesha/libfsalvfs.so") if not _there(path)]
    if missing:
        return f"the test cluster needs {', '.join(missing)}; `make test` as root installs it"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "the test cluster needs /dev/fuse"
    if _run(
        "unshare", "--net", "--uts", "--ipc", "--pid", "--mount", "--fork", "ip", "link", "add", "br0", "type", "bridge"
    ):
        return "the test cluster needs namespaces and a bridge, and may not make them here"
    return None


def _there(path: str) -> bool:
    return any(Path("/").glob(pattern.lstrip("/")) for pattern in (path, path.replace("/usr/lib/", "/usr/lib/*/")))


def _run(*argv: str) -> int:
    return subprocess.run(argv, check=False, capture_output=True, env={"PATH": _PATH}).returncode
