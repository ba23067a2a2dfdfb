"""Small stand-ins for what vendors ship in gigabytes, CUDA, Anaconda and TensorRT: EasyBuild's easyblocks run fully against them.

`add_standins(robot, sources, "CUDA-11.8.0.eb", …)` writes the installers that the shipped easyconfigs ask for, and copies of
these easyconfigs that differ in the checksum alone. The same version gives the same bytes. What is installed passes the
shipped smoke tests: an `nvcc` that hands the host's part to g++, and a `conda` that answers `activate`, `deactivate`, `hook`,
`create`, `info` as the real one does, as far as the tests go.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.helpers.easybuild.source_archives import tar_of
from tests.helpers.places import ROOT

EASYCONFIGS = ROOT / "easyconfigs"


def add_standins(robot: Path, sources: Path, *file_names: str) -> list[Path]:
    """Writes easyconfigs into `robot` and installers into `sources`, as EasyBuild lays both out; returns the easyconfigs."""
    written = []
    for file_name in file_names:
        (shipped,) = EASYCONFIGS.glob(f"?/*/{file_name}")
        text = shipped.read_text()
        said = read_easyconfig(shipped)
        made = {"CUDA": cuda_installer, "Anaconda3": anaconda_installer, "TensorRT": tensorrt_archive}
        installer = made[said["name"]](said["version"])
        folder = shipped.parent.relative_to(EASYCONFIGS)
        for root in (robot, sources):
            (root / folder).mkdir(parents=True, exist_ok=True)
        name = said["sources"][0] % {"name": said["name"], "version": said["version"]}
        (sources / folder / name).write_bytes(installer)
        (upstream,) = said["checksums"]
        target = robot / folder / file_name
        target.write_text(text.replace(upstream, hashlib.sha256(installer).hexdigest()))
        written.append(target)
    return written


def read_easyconfig(path: Path) -> dict[str, Any]:
    """The parameters of one of our easyconfigs, with EasyBuild's constants that ours use; templates (`%(version)s`) stay."""
    constants = {
        "ARCH": platform.machine(),
        "SHLIB_EXT": "so",
        "SOURCELOWER_TAR_BZ2": "%(namelower)s-%(version)s.tar.bz2",
        "SOURCELOWER_TAR_GZ": "%(namelower)s-%(version)s.tar.gz",
        "SOURCE_TAR_GZ": "%(name)s-%(version)s.tar.gz",
        "SOURCE_TGZ": "%(name)s-%(version)s.tgz",
        "SYSTEM": {"name": "system", "version": "system"},
    }
    known: dict[str, Any] = dict(constants)
    exec(compile(path.read_text(), path, "exec"), known)
    return {k: v for k, v in known.items() if k not in constants and not k.startswith(("__", "local_"))}


def cuda_installer(version: str) -> bytes:
    """A self-extracting archive, as `cuda_11.8.0_520.61.05_linux.run`: unpacks `cuda-installer`, which installs.

    The files are those that EB_CUDA looks for, and what the smoke tests of `recipes/cuda` use.
    """
    major, minor = version.split(".")[:2]
    words = {
        "@RELEASE@": f"{major}.{minor}",
        "@VERSION@": version,
        "@NUMBER@": str(1000 * int(major) + 10 * int(minor)),
    }
    return _filled(_CUDA, words)


def anaconda_installer(version: str) -> bytes:
    """A shell script, as `Anaconda3-2023.09-0-Linux-x86_64.sh`: `-p PREFIX -b -f` installs without a question."""
    words = {"@VERSION@": version, "@CONDA@": _CONDA, "@PROFILE@": _PROFILE}
    return _filled(_ANACONDA, words)


def tensorrt_archive(version: str) -> bytes:
    """A .tar.gz, as `TensorRT-10.7.0.23.Linux.x86_64-gnu.cuda-12.6.tar.gz`, with a library that says its version."""
    major, minor, patch = version.split(".")
    number = 10000 * int(major) + 100 * int(minor) + int(patch)
    with tempfile.TemporaryDirectory() as folder:
        code = f"int getInferLibVersion(void) {{ return {number}; }}\n"
        library = Path(folder, "lib.so")
        soname = f"libnvinfer.so.{major}"
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-x", "c", "-", "-o", library]
        subprocess.run(command, input=code, text=True, check=True)
        files = {
            "bin/trtexec": b"#!/bin/sh\necho stand-in\n",
            "include/NvInfer.h": b"#pragma once\n",
            "lib/libnvinfer.so": library.read_bytes(),
            f"lib/{soname}": library.read_bytes(),
        }
        return tar_of(f"TensorRT-{version}", files)


def _filled(text: str, words: dict[str, str]) -> bytes:
    for word, value in words.items():
        text = text.replace(word, value)
    return text.encode()


_CUDA = r"""#!/bin/sh
# A stand-in for NVIDIA's runfile: --noexec --nox11 --target FOLDER
set -eu
while [ $# -gt 0 ]; do
    case $1 in
    --target) shift; target=$1 ;;
    --noexec | --nox11) ;;
    *) echo "Unrecognized flag : $1" >&2; exit 1 ;;
    esac
    shift
done
mkdir -p "$target"
cat >"$target/cuda-installer" <<'INSTALLER'
#!/bin/sh
set -eu
silent=
root=
for option in "$@"; do
    case $option in
    --silent) silent=yes ;;
    --toolkitpath=*) root=${option#*=} ;;
    --toolkit | --samples | --samplespath=* | --defaultroot=* | --override) ;;
    *) echo "unknown option $option" >&2; exit 1 ;;
    esac
done
[ -n "$silent" ] && [ -n "$root" ] || { echo "Do you accept the above EULA? (accept/decline/quit): "; exit 1; }
mkdir -p "$root/bin" "$root/include" "$root/lib64/stubs" "$root/nvvm/bin" "$root/nvvm/lib64" "$root/pkgconfig" \
    "$root/extras/CUPTI/lib64" "$root/extras/CUPTI/include"
for tool in cuobjdump fatbinary nvlink ptxas; do
    printf '#!/bin/sh\necho "%s: Cuda compilation tools, release @RELEASE@, V@VERSION@"\n' $tool >"$root/bin/$tool"
done
cat >"$root/bin/nvcc" <<'NVCC'
#!/bin/sh
# The host's part of a .cu file, by the node's C++ compiler.
root=$(dirname "$(dirname "$(readlink -f "$0")")")
for argument in "$@"; do
    shift
    case $argument in
    --version | -V)
        printf 'nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release @RELEASE@, V@VERSION@\n'
        exit ;;
    -allow-unsupported-compiler | -arch=* | --gpu-architecture=*) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec g++ -I"$root/include" -x c++ "$@"
NVCC
chmod 755 "$root"/bin/*
cat >"$root/include/cuda_runtime.h" <<'HEADER'
#pragma once
#define CUDART_VERSION @NUMBER@
enum cudaError_t { cudaSuccess = 0 };
inline cudaError_t cudaRuntimeGetVersion(int *version) { *version = CUDART_VERSION; return cudaSuccess; }
HEADER
for library in cublas cudart cufft curand cusparse; do
    echo "stand-in for lib$library @VERSION@" >"$root/lib64/lib$library.so"
done
echo "stand-in" >"$root/lib64/stubs/libcublas.so"
echo "stand-in" >"$root/lib64/stubs/libcuda.so"
echo "stand-in" >"$root/extras/CUPTI/lib64/libcupti.so"
echo "#pragma once" >"$root/extras/CUPTI/include/cupti.h"
for package in cublas cuda cudart; do
    printf 'Name: %s\nDescription: stand-in\nVersion: @VERSION@\n' $package >"$root/pkgconfig/$package-@RELEASE@.pc"
done
echo '{"cuda": {"name": "CUDA SDK", "version": "@VERSION@"}}' >"$root/version.json"
INSTALLER
chmod 755 "$target/cuda-installer"
"""

_ANACONDA = r"""#!/bin/sh
# A stand-in for Anaconda's installer: -b (no questions) -f (the folder may be there) -p PREFIX
set -eu
while [ $# -gt 0 ]; do
    case $1 in
    -p) shift; root=$1 ;;
    -b) batch=yes ;;
    -f) ;;
    *) echo "ERROR: did not recognize option $1" >&2; exit 1 ;;
    esac
    shift
done
[ "${batch:-}" = yes ] || { echo "Do you accept the license terms? [yes|no]" >&2; exit 1; }
mkdir -p "$root/bin" "$root/condabin" "$root/conda-meta" "$root/envs" "$root/etc/profile.d" "$root/lib/standin/numpy" \
    "$root/lib/python3.11" "$root/pkgs/python-3.11.5-0/lib/python3.11" "$root/shell"
for module in os site; do
    echo "# stand-in" >"$root/lib/python3.11/$module.py"
    cp "$root/lib/python3.11/$module.py" "$root/pkgs/python-3.11.5-0/lib/python3.11/"
done
printf '{"name": "python", "version": "3.11.5", "files": ["bin/python", "lib/python3.11/os.py", "lib/python3.11/site.py"]}\n' \
    >"$root/conda-meta/python-3.11.5-0.json"
printf '==> @VERSION@ <==\n' >"$root/conda-meta/history"
: >"$root/pkgs/urls"
cat >"$root/lib/standin/numpy/__init__.py" <<'END'
__version__ = "1.24.3"


def dot(left, right):
    return sum(a * b for a, b in zip(left, right))
END
cat >"$root/lib/standin/conda.py" <<'END'
@CONDA@END
# In place of a Python of its own: the node's, which also finds what is "installed" here.
cat >"$root/bin/python" <<END
#!/bin/sh
export PYTHONPATH="$root/lib/standin\${PYTHONPATH:+:\$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 "\$@"
END
cp "$root/bin/python" "$root/bin/python3"
cat >"$root/bin/conda" <<END
#!/bin/sh
exec "$root/bin/python" "$root/lib/standin/conda.py" "$root" "\$@"
END
for tool in pydoc sqlite3; do printf '#!/bin/sh\necho stand-in\n' >"$root/bin/$tool"; done
cp "$root/bin/conda" "$root/condabin/conda"
printf '#!/bin/sh\n_CONDA_ROOT="%s"\n. "$_CONDA_ROOT/etc/profile.d/conda.sh" || return $?\nconda activate "$@"\n' \
    "$root" >"$root/bin/activate"
chmod 755 "$root"/bin/* "$root/condabin/conda"
{
    printf "export CONDA_EXE='%s/bin/conda'\nexport CONDA_PYTHON_EXE='%s/bin/python'\n" "$root" "$root"
    cat <<'END'
@PROFILE@END
} >"$root/etc/profile.d/conda.sh"
echo "installation finished."
"""

# As conda's own: a function, for a program cannot change its caller's variables.
_PROFILE = r"""__conda_activate() {
    \local ask_conda
    ask_conda="$(PS1="${PS1:-}" "$CONDA_EXE" shell.posix "$@")" || \return
    \eval "$ask_conda"
    \hash -r
}
conda() {
    \local cmd="${1-__missing__}"
    case "$cmd" in
    activate | deactivate) __conda_activate "$@" ;;
    *) "$CONDA_EXE" "$@" ;;
    esac
}
if [ -z "${CONDA_SHLVL+x}" ]; then
    \export CONDA_SHLVL=0
    PATH="$(dirname "$(dirname "$CONDA_EXE")")/condabin${PATH:+":${PATH}"}"
    \export PATH
fi
"""

_CONDA = r'''"""The few commands of conda that the tests use, in its words."""
import json
import os
import shlex
import sys
from pathlib import Path

VERSION = "23.7.4"
ROOT, ARGUMENTS = Path(sys.argv[1]), sys.argv[2:]
HOME = Path(os.path.expanduser("~"))


def folders(variables, here, mine):
    """The folders that a variable names, before the install's own (if it can be written to) and the user's."""
    named = next((os.environ[v] for v in variables if os.environ.get(v)), "")
    usual = [here, mine] if os.access(ROOT / "conda-meta/history", os.W_OK) else [mine, here]
    return [Path(p).expanduser() for p in named.split(os.pathsep) if p] + usual


def envs_dirs():
    return folders(("CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"), ROOT / "envs", HOME / ".conda/envs")


def pkgs_dirs():
    return folders(("CONDA_PKGS_DIRS",), ROOT / "pkgs", HOME / ".conda/pkgs")


def fail(kind, text):
    sys.exit(f"\n{kind}: {text}\n")


def first_writable(candidates, what):
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    fail(f"No{what}DirsError", "no writeable folder: " + ", ".join(map(str, candidates)))


def find(name):
    """The prefix of an environment, by name or path."""
    if "/" in name:
        prefix = Path(name).expanduser().absolute()
    elif name in ("base", "root"):
        return ROOT
    else:
        prefix = next((d / name for d in envs_dirs() if (d / name / "conda-meta").is_dir()), None)
    if prefix is None or not (prefix / "conda-meta").is_dir():
        kind = "EnvironmentLocationNotFound" if prefix else "EnvironmentNameNotFound"
        fail(kind, f"Could not find conda environment: {name}")
    return prefix


def shown(prefix):
    """How the prompt and CONDA_DEFAULT_ENV call an environment."""
    if prefix == ROOT:
        return "base"
    return prefix.name if prefix.parent in envs_dirs() else str(prefix)


def without(path, prefix):
    parts = path.split(os.pathsep)
    if prefix and f"{prefix}/bin" in parts:
        parts.remove(f"{prefix}/bin")
    return parts


def assign(name, value):
    print(f"export {name}={shlex.quote(value)}" if value is not None else f"unset {name}")


def scripts(prefix, kind):
    for script in sorted(Path(prefix, "etc/conda", kind).glob("*.sh")):
        print(f". {shlex.quote(str(script))}")


def activate(name):
    old, new = os.environ.get("CONDA_PREFIX"), find(name)
    level = int(os.environ.get("CONDA_SHLVL") or 0)
    if old and Path(old) == new:
        return
    if old:
        scripts(old, "deactivate.d")
    parts = [f"{new}/bin", *without(os.environ["PATH"], old)]
    assign("PATH", os.pathsep.join(parts))
    assign("CONDA_PREFIX", str(new))
    assign("CONDA_SHLVL", str(level + 1))
    assign("CONDA_DEFAULT_ENV", shown(new))
    assign("CONDA_PROMPT_MODIFIER", f"({shown(new)}) ")
    if old:
        assign(f"CONDA_PREFIX_{level}", old)
    assign("CONDA_EXE", f"{ROOT}/bin/conda")
    assign("CONDA_PYTHON_EXE", f"{ROOT}/bin/python")
    print(f"PS1={shlex.quote('(' + shown(new) + ') ' + prompt())}")
    scripts(new, "activate.d")


def deactivate():
    old, level = os.environ.get("CONDA_PREFIX"), int(os.environ.get("CONDA_SHLVL") or 0)
    if not old or level < 1:
        return
    scripts(old, "deactivate.d")
    before = os.environ.get(f"CONDA_PREFIX_{level - 1}") if level > 1 else None
    assign("PATH", os.pathsep.join([*([f"{before}/bin"] if before else []), *without(os.environ["PATH"], old)]))
    assign("CONDA_PREFIX", before)
    assign("CONDA_SHLVL", str(level - 1))
    assign("CONDA_DEFAULT_ENV", shown(Path(before)) if before else None)
    assign("CONDA_PROMPT_MODIFIER", f"({shown(Path(before))}) " if before else None)
    if level > 1:
        assign(f"CONDA_PREFIX_{level - 1}", None)
    print(f"PS1={shlex.quote((f'({shown(Path(before))}) ' if before else '') + prompt())}")
    if before:
        scripts(before, "activate.d")


def prompt():
    return os.environ.get("PS1", "").removeprefix(os.environ.get("CONDA_PROMPT_MODIFIER") or "\n")


def create(arguments):
    wanted, packages = None, []
    words = iter(arguments)
    for word in words:
        if word in ("-n", "--name"):
            wanted = first_writable(envs_dirs(), "Envs") / next(words)
        elif word in ("-p", "--prefix"):
            wanted = Path(next(words)).expanduser().absolute()
        elif word not in ("-y", "--yes", "-q", "--quiet", "--offline"):
            packages.append(word)
    if wanted is None:
        fail("ArgumentError", "one of the arguments -n/--name -p/--prefix is required")
    cache = first_writable(pkgs_dirs(), "Pkgs")
    try:
        for folder in ("bin", "conda-meta", "etc/conda/activate.d", "etc/conda/deactivate.d"):
            (wanted / folder).mkdir(parents=True, exist_ok=True)
    except OSError:
        fail("EnvironmentNotWritableError", f"The current user does not have write permissions to: {wanted}")
    (wanted / "conda-meta/history").write_text(f"# cmd: conda create {' '.join(arguments)}\n")
    for package in packages:
        (cache / package).mkdir(exist_ok=True)
        if package.startswith("python") and not (wanted / "bin/python").exists():
            (wanted / "bin/python").symlink_to(ROOT / "bin/python")
    known = HOME / ".conda/environments.txt"
    try:
        known.parent.mkdir(parents=True, exist_ok=True)
        with known.open("a") as file:
            file.write(f"{wanted}\n")
    except OSError:
        pass  # a home that cannot be written to; conda only warns
    print(f"# To activate this environment, use\n#     $ conda activate {shown(wanted)}")


def environments():
    found = [ROOT] + [d for folder in envs_dirs() if folder.is_dir() for d in sorted(folder.iterdir())]
    return [p for p in dict.fromkeys(found) if (p / "conda-meta").is_dir()]


def info(arguments):
    active = os.environ.get("CONDA_PREFIX")
    writable = os.access(ROOT / "conda-meta/history", os.W_OK)
    if "--base" in arguments:
        print(ROOT)
    elif "--json" in arguments:
        said = {
            "active_prefix": active, "conda_version": VERSION, "envs": [str(p) for p in environments()],
            "envs_dirs": [str(p) for p in envs_dirs()], "pkgs_dirs": [str(p) for p in pkgs_dirs()],
            "root_prefix": str(ROOT), "root_writable": writable,
        }
        print(json.dumps(said, indent=2))
    else:
        print(f"\n     active environment : {shown(Path(active)) if active else None}")
        print(f"          conda version : {VERSION}")
        print(f"       base environment : {ROOT}  ({'writable' if writable else 'read only'})")
        print(f"          package cache : {pkgs_dirs()[0]}")
        print(f"       envs directories : {envs_dirs()[0]}\n")


def main():
    match ARGUMENTS:
        case ["--version" | "-V"]:
            print(f"conda {VERSION}")
        case ["shell.posix" | "shell.bash", "activate", *names]:
            activate(names[0] if names else "base")
        case ["shell.posix" | "shell.bash", "deactivate"]:
            deactivate()
        case ["shell.posix" | "shell.bash", "hook"]:
            print((ROOT / "etc/profile.d/conda.sh").read_text())
        case ["info", *rest]:
            info(rest)
        case ["env", "list"]:
            for prefix in environments():
                print(f"{shown(prefix):24} {prefix}")
        case ["create", *rest]:
            create(rest)
        case ["activate" | "deactivate", *_]:
            fail("CondaError", "Run 'conda init' before 'conda activate'")
        case _:
            fail("CommandNotFoundError", f"the stand-in has no command {shlex.join(ARGUMENTS)!r}")


main()
'''


if __name__ == "__main__":
    import sys

    here = Path(sys.argv[1])
    print(*add_standins(here / "easyconfigs", here / "sources", *sys.argv[2:]), sep="\n")
