"""Environment Modules as Debian has them, beside the Lmod of this machine: the two packages cannot be installed together."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.helpers.cluster import Cluster
from tests.helpers.places import CACHE

PROFILE = """\
MODULES_CMD={command}; export MODULES_CMD
MODULEPATH={folders}; export MODULEPATH
module() {{ eval "$($MODULES_CMD bash "$@")"; }}
export -f module
"""
_AWAY = "/root/lmod-profile"


def modulecmd() -> Path:
    """The program, unpacked from Debian's package into the tests' cache."""
    folder = CACHE / "environment-modules"
    program = folder / "usr/lib/x86_64-linux-gnu/modulecmd.tcl"
    if not program.exists():
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run(
                ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", "environment-modules"],
                cwd=scratch,
                check=True,
                capture_output=True,
            )
            (package,) = Path(scratch).glob("*.deb")
            subprocess.run(["dpkg", "-x", package, folder], check=True)
        (found,) = folder.glob("usr/lib/*/modulecmd.tcl")
        assert found == program
    return program


def instead_of_lmod(cluster: Cluster, nodes: tuple[str, ...], folders: str) -> None:
    for node in nodes:
        cluster.sh(node, f"mkdir -p {_AWAY}; mv /etc/profile.d/*lmod* {_AWAY}/", check=True)
        cluster.write(node, "/etc/profile.d/modules.sh", PROFILE.format(command=modulecmd(), folders=folders))


def lmod_again(cluster: Cluster, nodes: tuple[str, ...]) -> None:
    for node in nodes:
        cluster.sh(node, f"rm /etc/profile.d/modules.sh; mv {_AWAY}/* /etc/profile.d/", check=True)
