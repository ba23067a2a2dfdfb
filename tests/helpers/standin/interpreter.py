"""Repackage the running interpreter as the conda package `python`, so that it runs from any prefix."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from .package import PLACEHOLDER, Entry, Package, StandinError
from .wheels import PYTHON

# Left out: tests, graphical toolkits, caches, what others installed, the mark that forbids pip.
_SKIPPED_FOLDERS = {"test", "tests", "idlelib", "tkinter", "turtledemo"}
_SKIPPED_FOLDERS |= {"__pycache__", "site-packages", "dist-packages"}
_SKIPPED_FILES = {"EXTERNALLY-MANAGED", "turtle.py", "sitecustomize.py", "_distutils_system_mod.py"}
_SKIPPED_SUFFIXES = {".a", ".o", ".pyc"}
# _tkinter and nis would drag X11 and Kerberos along; the others exist for CPython's own test suite.
_SKIPPED_MODULES = re.compile(r"(_tkinter|nis|_test\w*|_ctypes_test|_xxtestfuzz|xxlimited\w*|xxsubtype)\.")

# Parts of glibc, and of gcc's runtime, must come from the host: a second copy of them does not fit the host's loader.
_HOST_LIBRARIES = re.compile(
    r"(linux-vdso|linux-gate|ld-linux[\w-]*|lib(c|m|dl|rt|pthread|util|resolv|anl|BrokenLocale|gcc_s|stdc\+\+))\.so(\.|$)"
)

# Prefixes that share their folder with other software: replacing the bare word would also hit /usr/bin/env.
_SHARED_PREFIXES = {"/usr", "/usr/local", "/install"}
_BUILD_DATA = ("_sysconfigdata", "_sysconfig_vars", "Makefile", "build-details.json")

# Debian freezes a `site` into the program that looks in dist-packages only. This runs right after it, and does what the
# unpatched one would have done; in a virtual environment the base's packages count only when it was told so.
DEBIAN_SITE = b"""\
import os
import site
import sys

if sys.base_prefix in site.PREFIXES:
    site.addsitedir(os.path.join(sys.base_prefix, "lib", "python%d.%d" % sys.version_info[:2], "site-packages"))
"""
_DEBIAN_SCHEMES = ("posix_local", "deb_system")
_DEBIAN_SYSCONFIG = f"""\

# Stand-in: the schemes that Debian adds would put packages where this prefix does not look.
for _scheme in {_DEBIAN_SCHEMES!r}:
    _INSTALL_SCHEMES.pop(_scheme, None)


def _get_preferred_schemes():
    return {{"prefix": "posix_prefix", "home": "posix_home", "user": "posix_user"}}


""".encode()


def python_package(patchelf: Path) -> Package:
    """The running interpreter (not the virtual environment around it) as a package.

    `patchelf` is the program that sets run paths.

    Raises:
        StandinError: the interpreter is of a kind that the stand-in does not handle.
    """
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise StandinError(f"the stand-in channel is for linux-64 only, this is {sys.platform} {platform.machine()}")
    if sys.platlibdir != "lib" or sys.abiflags:
        raise StandinError(f"unhandled interpreter: platlibdir {sys.platlibdir!r}, abi flags {sys.abiflags!r}")
    stdlib = Path(sysconfig.get_path("stdlib"))
    program = Path(sys.base_prefix, "bin", f"python{PYTHON}")
    if not (stdlib / "os.py").is_file() or not program.is_file():
        raise StandinError(f"no {program} with {stdlib}/os.py")
    files = {f"bin/python{PYTHON}": program} | {f"lib/python{PYTHON}/{name}": path for name, path in _walk(stdlib)}
    return Package(
        name="python",
        version=platform.python_version().rstrip("+"),
        build="0_cpython",
        entries=tuple(_entries(files, patchelf)),
        license="PSF-2.0",
        summary=f"the interpreter of {sys.base_prefix}",
    )


def _walk(stdlib: Path) -> Iterator[tuple[str, Path]]:
    """Every wanted file of the standard library: its path in there, and where it is."""
    for folder, folders, names in os.walk(stdlib):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        here = Path(folder)
        for name in sorted(set(names) - _SKIPPED_FILES):
            path = here / name
            if path.suffix in _SKIPPED_SUFFIXES or _SKIPPED_MODULES.match(name) or not path.is_file():
                continue
            if here.name.startswith("config-") and name != "Makefile":
                continue
            yield path.relative_to(stdlib).as_posix(), path


def _entries(files: dict[str, Path], patchelf: Path) -> Iterator[Entry]:
    """The package's entries; `files` maps a path in the package to a file of this machine."""
    binaries = {target: path for target, path in files.items() if path.read_bytes()[:4] == b"\x7fELF"}
    needs = _libraries(binaries.values())
    # A module with a library that is not there cannot be imported in the running interpreter either.
    broken = {target for target, path in binaries.items() if None in needs[path].values()}
    copies: dict[str, Path] = {}
    for target in binaries.keys() - broken:
        copies |= {f"lib/{name}": place for name, place in needs[binaries[target]].items() if place is not None}
    # ldd printed a program's whole closure, so nothing new comes up here: this tells which libraries need a run path.
    needs |= _libraries(copies.values())
    rewrite = _Rewriter()
    for target, path in sorted((files | copies).items()):
        if target in broken:
            continue
        data = path.read_bytes()
        if target in binaries or target in copies:
            data = _set_run_path(path, target, patchelf) if needs[path] else data
        else:
            data = rewrite(target, data)
        yield Entry(target, data, executable=os.access(path, os.X_OK))
    yield Entry("bin/python3", link=f"python{PYTHON}")
    yield Entry("bin/python", link=f"python{PYTHON}")
    yield Entry(f"lib/python{PYTHON}/site-packages/README.txt", b"Packages that are not part of Python go here.\n")
    if rewrite.debian:
        yield Entry(f"lib/python{PYTHON}/sitecustomize.py", DEBIAN_SITE)


def _libraries(paths: Iterable[Path]) -> dict[Path, dict[str, Path | None]]:
    """All shared libraries that each file loads, other than the host's: by name, None where there is none."""
    asked = list(dict.fromkeys(paths))
    found: dict[Path, dict[str, Path | None]] = {path: {} for path in asked}
    if not asked:
        return found
    # One call for all: ldd costs 10 ms and more for each. Its status only says that some file was static.
    command = ["ldd", *map(str, asked)]
    environment = os.environ | {"LC_ALL": "C"}
    output = subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout
    current = asked[0]  # ldd prints no heading for a single file
    for line in output.splitlines():
        if not line[:1].isspace():
            current = Path(line.removesuffix(":"))
            continue
        name, arrow, place = line.strip().partition(" => ")
        if arrow and not _HOST_LIBRARIES.match(name):
            found[current][name] = None if place.startswith("not found") else Path(place.rpartition(" (")[0])
    return found


def _set_run_path(path: Path, target: str, patchelf: Path) -> bytes:
    """The bytes of an ELF file that looks for its libraries in the package's `lib`."""
    run_path = "$ORIGIN/" + "../" * target.count("/") + "lib"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "file")
        shutil.copyfile(path, copy)
        # An RPATH, as conda-build writes, and not a RUNPATH: LD_LIBRARY_PATH of a loaded module must not win over it.
        command = [str(patchelf), "--force-rpath", "--set-rpath", run_path, str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StandinError(f"{' '.join(command)} (a copy of {path})\n  {done.stderr.strip()}")
        return copy.read_bytes()


class _Rewriter:
    """Puts the placeholder where a file of the standard library names the prefix it was built for."""

    def __init__(self) -> None:
        built_for = str(sysconfig.get_config_var("prefix") or "")
        prefixes = {sys.base_prefix, os.path.realpath(sys.base_prefix), built_for} - {"", "/"}
        # The longest first: one prefix may be the beginning of another.
        self._own = sorted(prefixes - _SHARED_PREFIXES, key=len, reverse=True)
        shared = "|".join(sorted(map(re.escape, prefixes & _SHARED_PREFIXES | {"/install"}), key=len, reverse=True))
        # Of a shared prefix only the folders where an installation goes, and neither -I/usr/include nor /usr/bin/install.
        folders = r"/lib(?:/[\w.+-]+)*|/include(?:/[\w.+-]+)*|/bin|/share/man"
        self._shared = re.compile(rf"(?<![\w/.-])(?:{shared})((?:{folders})?)(?![\w/.-])")
        self.debian = set(_DEBIAN_SCHEMES) <= set(sysconfig.get_scheme_names())

    def __call__(self, target: str, data: bytes) -> bytes:
        """The content of the package's file `target`."""
        name = target.removeprefix(f"lib/python{PYTHON}/")
        if self.debian and name in ("sysconfig.py", "sysconfig/__init__.py"):
            # Not at the end: default arguments further down already hold the preferred scheme.
            head, mark, tail = data.partition(b"\ndef get_preferred_scheme(")
            if not mark:
                raise StandinError(f"{target}: no place found to take back what Debian changed")
            data = head + _DEBIAN_SYSCONFIG + mark + tail
        if b"\0" in data:
            return data
        for prefix in self._own:
            data = data.replace(prefix.encode(), PLACEHOLDER.encode())
        if PurePosixPath(name).name.startswith(_BUILD_DATA):
            data = "".join(map(self._line, data.decode().splitlines(keepends=True))).encode()
        return data

    def _line(self, line: str) -> str:
        # The time zones are the host's.
        return line if "zoneinfo" in line else self._shared.sub(lambda match: PLACEHOLDER + match[1], line)
