"""Trees of modules that other tools and hands make, for audits of clusters that have nothing of ours.

The one of EasyBuild is made by EasyBuild itself; those of Spack and EESSI are only shaped like theirs: nothing here can build them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.cluster import Cluster

PROGRAM = "#!/bin/sh\necho {}\n"


@dataclass(frozen=True)
class Tree:
    """Modules in `folder`, and all texts of it by path; those that begin with `#!` can be started."""

    folder: str
    files: dict[str, str] = field(default_factory=dict)


def hand_written(top: str) -> Tree:
    """As on a small cluster: Lua modulefiles, one folder for each package, a default, a hidden module, a dependency."""
    modules, packages = f"{top}/modulefiles", f"{top}/pkgs"
    files = {}
    for name, version in (("gcc", "12.2"), ("gcc", "13.1"), ("fftw", "3.3.10"), ("hdf5", "1.14"), ("old", "1.0")):
        root = f"{packages}/{name}/{version}"
        needs = 'depends_on("gcc/12.2")\n' if name in ("fftw", "hdf5") else ""
        files[f"{modules}/{name}/{version}.lua"] = (
            f'help("{name} {version}")\n{needs}local root = "{root}"\nprepend_path("PATH", pathJoin(root, "bin"))\n'
            f'prepend_path("LD_LIBRARY_PATH", pathJoin(root, "lib"))\nsetenv("{name.upper()}_HOME", root)\n'
        )
        files[f"{root}/bin/{name}-run"] = PROGRAM.format(f"{name} {version}")
        files[f"{root}/lib/lib{name}.txt"] = f"{name} {version}\n"
    files[f"{modules}/.modulerc.lua"] = 'hide_version("old/1.0")\nmodule_version("gcc/12.2", "default")\n'
    return Tree(modules, files)


def tcl_written(top: str) -> Tree:
    """Tcl modulefiles, which Lmod and Environment Modules read alike; a default by .version."""
    modules, packages = f"{top}/modulefiles", f"{top}/pkgs"
    files = {f"{modules}/intel/.version": '#%Module\nset ModulesVersion "2023.1"\n'}
    for name, version in (("intel", "2023.1"), ("intel", "2024.0"), ("blast", "2.14")):
        root = f"{packages}/{name}/{version}"
        files[f"{modules}/{name}/{version}"] = (
            f'#%Module\nset root {root}\nprepend-path PATH $root/bin\nsetenv {name.upper()}_HOME $root\nmodule-whatis "{name}"\n'
        )
        files[f"{root}/bin/{name}-run"] = PROGRAM.format(f"{name} {version}")
    return Tree(modules, files)


def spack_shaped(top: str) -> Tree:
    """A core folder of Lua modulefiles with Spack's header, a compiler that opens a folder of its own, and prefixes with Spack's metadata."""
    modules = f"{top}/share/spack/lmod/linux-debian12-x86_64"
    prefixes = f"{top}/opt/spack/linux-debian12-x86_64/gcc-12.2.0"
    core, opened = "Core", "gcc/13.2.0"
    files = {}
    for folder, name, version, letters in (
        (core, "zlib", "1.3", "k3x5"),
        (core, "cmake", "3.27.7", "q2ab"),
        (core, "gcc", "13.2.0", "w7rt"),
        (opened, "hdf5", "1.14.3", "b4md"),
        (opened, "fftw", "3.3.10", "e6zn"),
    ):
        root = f"{prefixes}/{name}-{version}-{letters}"
        opens = f'family("compiler")\nprepend_path("MODULEPATH", "{modules}/{opened}")\n' if name == "gcc" else ""
        files[f"{modules}/{folder}/{name}/{version}.lua"] = (
            f"-- -*- lua -*-\n-- Module file created by spack (https://github.com/spack/spack) on 2026-11-01\n--\n-- {name}@{version}\n--\n"
            f'whatis("Name : {name}")\n{opens}prepend_path("PATH", "{root}/bin", ":")\nprepend_path("CMAKE_PREFIX_PATH", "{root}/.", ":")\n'
        )
        files[f"{root}/.spack/spec.json"] = "{}\n"
        files[f"{root}/bin/{name}-run"] = PROGRAM.format(name)
    return Tree(f"{modules}/{core}", files)


def eessi_shaped(top: str) -> Tree:
    """Below a folder as /cvmfs/software.eessi.io has it: modules/all, software with EasyBuild's folder, and the module that opens them."""
    base = f"{top}/versions/2023.06/software/linux/x86_64/generic"
    files = {
        f"{top}/init/modules/EESSI/2023.06.lua": f'help([[EESSI]])\nsetenv("EESSI_VERSION", "2023.06")\nprepend_path("MODULEPATH", "{base}/modules/all")\n'
    }
    for name, version, needs in (
        ("GCCcore", "12.3.0", ""),
        ("OpenMPI", "4.1.5-GCC-12.3.0", "GCCcore/12.3.0"),
        ("HDF5", "1.14.0-gompi-2023a", "OpenMPI/4.1.5-GCC-12.3.0"),
    ):
        root = f"{base}/software/{name}/{version}"
        depends = f'depends_on("{needs}")\n' if needs else ""
        files[f"{base}/modules/all/{name}/{version}.lua"] = (
            f'help([[{name}]])\nlocal root = "{root}"\nconflict("{name}")\n{depends}prepend_path("PATH", pathJoin(root, "bin"))\n'
            f'setenv("EBROOT{name.upper()}", root)\nsetenv("EBVERSION{name.upper()}", "{version}")\n'
        )
        files[f"{root}/easybuild/{name}-{version}.eb"] = f"name = '{name}'\n"
        files[f"{root}/bin/{name.lower()}-run"] = PROGRAM.format(name)
    return Tree(f"{base}/modules/all", files)


def plant(tree: Tree, cluster: Cluster, node: str) -> None:
    """Write it on one node: into a folder that the nodes share, or one of its own."""
    for path, text in tree.files.items():
        cluster.write(node, Path(path), text, 0o755 if text.startswith("#!") else 0o644)
    cluster.sh(
        node, f"chmod -R a+rX {' '.join(sorted({'/'.join(path.split('/')[:3]) for path in tree.files}))}", check=True
    )


def use(folder: str, cluster: Cluster, nodes: tuple[str, ...]) -> None:
    """In the MODULEPATH of every shell that reads Lmod's start-up files."""
    for node in nodes:
        cluster.sh(node, f"echo {folder} >>/etc/lmod/modulespath", check=True)
