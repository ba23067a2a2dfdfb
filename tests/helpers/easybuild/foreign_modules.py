"""A tree of modules that EasyBuild made by itself, as on a site that knows nothing of envmgr: toys, and zlib and bzip2 from real sources.

It is built in a node of the cluster, where it will be: what EasyBuild makes has the folder's path in it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from envmgr.system.files import sha256_file
from tests.helpers.cluster import Cluster
from tests.helpers.easybuild.debian_sources import SOURCES, sourcepath
from tests.helpers.easybuild.source_archives import write_tar
from tests.helpers.easybuild.workshop import ordinary_python

TOP = "/opt/eb"
MODULES = f"{TOP}/modules/all"
_BUILDER = "alice"  # EasyBuild refuses root
_SECONDS = 900

_SOLVER = {
    "Makefile": """\
all: solver
libsolver.so: answer.c
\tcc -O2 -shared -fPIC -o libsolver.so answer.c
solver: solver.c libsolver.so
\tcc -O2 -o solver solver.c -L. -lsolver
install: solver
\tmkdir -p $(PREFIX)/bin $(PREFIX)/lib
\tcp solver $(PREFIX)/bin/
\tcp libsolver.so $(PREFIX)/lib/
""",
    "answer.c": "int answer(void) { return 42; }\n",
    "solver.c": '#include <stdio.h>\nint answer(void);\nint main(void) { printf("%d\\n", answer()); return 0; }\n',
}
_MESH = {
    "Makefile": "all:\n\ninstall:\n\tmkdir -p $(PREFIX)/bin\n\tcp mesh.sh $(PREFIX)/bin/mesh\n",
    "mesh.sh": "#!/bin/sh\n# Cells of a mesh, by the solver.\nexec solver\n",
}


def plant_easybuild(cluster: Cluster, nodes: Sequence[str]) -> None:
    """Build it in the first of `nodes`, and copy it to the disks of the others."""
    with tempfile.TemporaryDirectory(prefix="eb-tree-") as folder:
        here = Path(folder)
        _write(here)
        first = Path(f"/proc/{cluster.pid(nodes[0])}/root")
        shutil.copytree(here, first / "home" / _BUILDER / "eb-tree")
        cluster.sh(
            nodes[0], f"chown -R {_BUILDER}: /home/{_BUILDER}/eb-tree; install -d -o {_BUILDER} {TOP}", check=True
        )
        _build(cluster, nodes[0])
        cluster.sh(nodes[0], f"chown -R 0:0 {TOP}; rm -rf /home/{_BUILDER}/eb-tree", check=True)
        for node in nodes[1:]:
            there = Path(f"/proc/{cluster.pid(node)}/root") / TOP.lstrip("/")
            there.mkdir()
            subprocess.run(["cp", "-a", f"{first / TOP.lstrip('/')}/.", there], check=True)


def _write(folder: Path) -> None:
    """The easyconfigs, and their sources."""
    for name, version, files, more in (
        ("Solver", "1.0", _SOLVER, ""),
        ("Solver", "2.0", _SOLVER, ""),
        ("Mesh", "3.1", _MESH, "dependencies = [('Solver', '2.0')]"),
    ):
        archive = write_tar(
            folder / "sources" / name[0].lower() / name / f"{name}-{version}.tar.gz", f"{name}-{version}", files
        )
        program = name.lower()
        lines = [
            "skipsteps = ['configure']",
            f"sources = ['{archive.name}']",
            f"checksums = ['{sha256_file(archive)}']",
            "installopts = 'PREFIX=%(installdir)s'",
            f"sanity_check_paths = {{'files': ['bin/{program}'], 'dirs': []}}",
            more,
        ]
        _easyconfig(folder, name, version, lines)
    _easyconfig(
        folder,
        "zlib",
        "1.2.13",
        [
            f"sources = ['{SOURCES['zlib'].file}']",
            f"checksums = ['{SOURCES['zlib'].sha256}']",
            "sanity_check_paths = {'files': ['lib/libz.so'], 'dirs': []}",
        ],
    )


def _easyconfig(folder: Path, name: str, version: str, lines: Sequence[str]) -> None:
    head = [
        "easyblock = 'ConfigureMake'",
        f"name = '{name}'",
        f"version = '{version}'",
        "homepage = 'https://example.org'",
        f"description = '{name}, for tests'",
        "toolchain = SYSTEM",
        "moduleclass = 'tools'",
    ]
    (folder / f"{name}-{version}.eb").write_text("\n".join([*head, *lines]) + "\n")


def _build(cluster: Cluster, node: str) -> None:
    work = f"/home/{_BUILDER}/eb-tree"
    names = ["Mesh-3.1.eb", "Solver-1.0.eb", "bzip2-1.0.8.eb", "zlib-1.2.13.eb"]
    argv = [
        ordinary_python(),
        "-m",
        "easybuild.main",
        *names,
        f"--robot={work}:{ordinary_python().parent.parent}/easybuild/easyconfigs",
        f"--installpath={TOP}",
        f"--sourcepath={work}/sources:{sourcepath('zlib', 'bzip2')}",
        f"--buildpath={work}/build",
        f"--tmpdir={work}",
        "--modules-tool=Lmod",
        "--parallel=2",
        "--filter-deps=binutils",
    ]
    env = {"LMOD_CMD": "/usr/share/lmod/lmod/libexec/lmod", "PATH": f"{ordinary_python().parent}:/usr/bin:/bin"}
    cluster.exec(node, argv, user=_BUILDER, env=env, timeout=_SECONDS, check=True)
