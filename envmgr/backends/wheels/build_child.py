"""The process that builds: one request on stdin, the answer in a file. It starts code of the package's authors.

The questions are `system` (what pyproject.toml needs for a build), `requires` (what its build asks for as well),
`metadata`, and `wheel` (built as often as `times` says, from a new copy of the source each time). All that it writes
lies in `work`.
Source: PEP 517, PEP 518; reproducible-builds.org, "SOURCE_DATE_EPOCH".
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envmgr.system.files import remove_tree, write_new
from envmgr.wheels.install_worker import NoPython, make_environment, make_interpreter
from envmgr.wheels.unpack import BadWheel, promised, unpack

_OLDEST = 315532800  # 1980-01-01: the first time that a zip file can hold
_OF_ZIP = 1577836800  # 2020-01-01, for archives in which times have no time zone
_BACKEND = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_.]*)?")
_Answer = dict[str, Any]


class Refused(Exception):  # noqa: N818 - the name of what happened
    """A build was refused. `kind` is the fault: `archive`, `patch`, `build` or `differs`; `lines` are details."""

    def __init__(self, kind: str, message: str, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.kind, self.lines = kind, lines


class Workshop:
    """The folder of a build: `source`, `env` (its Python, with the wheels that build), `home`, `tmp`, `log`."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.request = request
        self.work = Path(request["work"])
        self.log = Path(request["log"])
        self.minor = str(request["minor"])
        self.python = self.work / "env" / "bin" / f"python{self.minor}"
        for name in ("home", "tmp"):
            (self.work / name).mkdir(exist_ok=True)

    def make_python(self) -> None:
        """Make a prefix over the entry's Python, with nothing but the wheels in it."""
        env = self.work / "env"
        for wheel in self.request["wheels"]:
            promised([Path(wheel)], self.minor)  # raises for one that would leave its folder
            unpack(Path(wheel), Path("/"), env, self.minor)
        for path in sorted(env.glob("bin/*")):
            # A wheel may not mark its scripts as programs.
            path.chmod(0o755)
        if self.request["base"] is None:
            make_environment(env, self.minor, Path(self.request["programs"]))
        else:
            make_interpreter(env, Path(self.request["base"]), self.minor)

    def watch_extensions(self) -> Path:
        """Let the Python of the build note which extensions are declared to setuptools; return the file of notes."""
        packages, notes = self.work / "env" / "lib" / f"python{self.minor}" / "site-packages", self.work / "extensions"
        text = (Path(__file__).parent / "inside" / "declared_extensions.py").read_text(encoding="utf-8")
        write_new(packages / "_envmgr_extensions.py", f"NOTES = {str(notes)!r}\n{text}".encode(), mode=0o644)
        write_new(packages / "_envmgr_extensions.pth", b"import _envmgr_extensions\n", mode=0o644)
        return notes

    def unpack(self) -> tuple[Path, int]:
        """Return a new copy of the source, patched, and the time of its newest file before that."""
        archive, place = Path(self.request["sdist"]), self.work / "source"
        remove_tree(place)
        place.mkdir()
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(place)  # it leaves out `..` and the slash of absolute paths
        else:  # tar refuses `..`, and writes through no link that the archive made
            argv = ["tar", "--extract", "--file", str(archive), "--directory", str(place)]
            # As root, tar would otherwise restore the owners and modes of the archive.
            if self.run([*argv, "--no-same-owner", "--no-same-permissions"]):
                raise Refused("archive", f"{archive.name} cannot be unpacked")
        found = sorted(place.iterdir())
        if len(found) != 1 or found[0].is_symlink() or not found[0].is_dir():
            raise Refused("archive", f"{archive.name} is not one folder", [path.name for path in found[:10]])
        times = [s.st_mtime for s in (path.lstat() for path in place.rglob("*")) if stat.S_ISREG(s.st_mode)]
        epoch = _OF_ZIP if archive.suffix == ".zip" else max(_OLDEST, int(max(times, default=0)))
        for patch in self.request["patches"]:
            # No questions, no patch that is applied in reverse, and no place that fits only roughly.
            argv = ["patch", "--strip=1", "--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch"]
            if self.run([*argv, f"--directory={found[0]}", f"--input={patch}"]):
                raise Refused("patch", f"{Path(patch).name} does not fit {archive.name}")
        return found[0], epoch

    def environment(self, epoch: int) -> dict[str, str]:
        """Return variables with nothing of the host, the user or the day."""
        jobs = str(self.request["jobs"])
        env = {key: os.environ[key] for key in ("LANG", "LC_ALL", "TZ")}
        env |= {"PATH": f"{self.work / 'env' / 'bin'}:{os.environ['PATH']}"}
        env |= {"HOME": str(self.work / "home"), "TMPDIR": str(self.work / "tmp")}
        # Otherwise a build may write what is in a set in another order each time.
        env |= {"USER": "envmgr", "LOGNAME": "envmgr", "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
        env |= {"PYTHONNOUSERSITE": "1", "PYTHONPYCACHEPREFIX": f"{self.work}/bytecode", "PIP_NO_INDEX": "1"}
        return env | {"MAX_JOBS": jobs, "MAKEFLAGS": f"-j{jobs}", "CMAKE_BUILD_PARALLEL_LEVEL": jobs}

    def compilers(self) -> dict[str, str]:
        """Return the host's, for a Python that names compilers that are missing here: conda's, for one."""
        ask = "import sysconfig; print(sysconfig.get_config_var('CC') or '')"
        done = subprocess.run([self.python, "-I", "-S", "-c", ask], capture_output=True, text=True, check=False)
        words = shlex.split(done.stdout)
        return {} if words and shutil.which(words[0]) else {"CC": "cc", "CXX": "c++"}

    def run(self, argv: Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None) -> int:
        """Return its exit status; its output is in the log."""
        with self.log.open("ab") as log:
            log.write(f"$ {shlex.join(map(str, argv))}\n".encode())
            # The command writes to the same file, and its name must stand above its output.
            log.flush()
            try:
                # A program that asks a question must fail, and not wait for an answer.
                done = subprocess.run(
                    argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False
                )
            except FileNotFoundError as error:
                raise Refused("build", f"this host has no `{error.filename}`") from None
            return done.returncode


def _system(shop: Workshop) -> _Answer:
    return {"requires": sorted(_builder(shop, *shop.unpack()).build_system_requires)}


def _requires(shop: Workshop) -> _Answer:
    shop.make_python()
    return {"requires": sorted(_builder(shop, *shop.unpack()).get_requires_for_build("wheel"))}


def _metadata(shop: Workshop) -> _Answer:
    shop.make_python()
    folder = _builder(shop, *shop.unpack()).metadata_path(shop.work / "metadata")
    return {"metadata": (Path(folder) / "METADATA").read_text(encoding="utf-8", errors="replace")}


def _wheel(shop: Workshop) -> _Answer:
    """Return the first of the wheels, if all are the same."""
    shop.make_python()
    notes, more = shop.watch_extensions(), shop.compilers()
    built: list[Path] = []
    for number in range(int(shop.request["times"])):
        source, epoch = shop.unpack()
        builder = _builder(shop, source, epoch, more)
        built.append(Path(builder.build("wheel", shop.work / f"wheel{number}", _settings(source))))
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in built]
    if len({*digests}) > 1 or len({path.name for path in built}) > 1:
        raise Refused("differs", "two builds of it differ", _differing(built[0], built[-1]))
    return {"wheel": built[0].name, "extensions": _read_notes(notes)}


def _read_notes(notes: Path) -> list[dict[str, Any]] | None:
    """Return the extensions that were declared, each once; None if no setuptools ran, or nobody can read the notes."""
    try:
        with notes.open(encoding="utf-8") as file:
            rows = [row for line in file for row in json.loads(line)]
        return [{"name": name, "compiled": compiled} for name, compiled in dict(rows).items()]
    except (OSError, ValueError, TypeError):
        return None


_QUESTIONS: Mapping[str, Callable[[Workshop], _Answer]] = {
    "system": _system,
    "requires": _requires,
    "metadata": _metadata,
    "wheel": _wheel,
}


def _builder(shop: Workshop, source: Path, epoch: int, more: Mapping[str, str] | None = None) -> Any:
    from build import ProjectBuilder

    _read_project(source)
    env = shop.environment(epoch) | dict(more or {})

    def run(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
        if status := shop.run(cmd, cwd, env | dict(extra_environ or {})):
            raise subprocess.CalledProcessError(status, cmd)

    return ProjectBuilder(source, python_executable=str(shop.python), runner=run)


def _settings(source: Path) -> dict[str, str]:
    """Return the settings of a build: meson-python's folder has a random name, which gets into what it builds.

    Source: its documentation, "Build settings".
    """
    return {"build-dir": "build"} if _read_project(source).get("build-backend") == "mesonpy" else {}


def _read_project(source: Path) -> dict[str, Any]:
    """Return the table `build-system` of its pyproject.toml. Its backend is a name, and its paths stay in the source.

    Source: PEP 517, "Source trees".
    """
    project, name = source / "pyproject.toml", f"the pyproject.toml of {source.name}"
    try:
        table = tomllib.loads(project.read_text(encoding="utf-8")) if project.is_file() else {}
    except (ValueError, RecursionError) as error:
        raise Refused("archive", f"{name} cannot be read", [str(error)]) from None
    system = table.get("build-system", {})
    if not isinstance(system, dict):
        raise Refused("archive", f"`build-system` in {name} is no table")
    backend, paths = system.get("build-backend", "setuptools.build_meta"), system.get("backend-path", [])
    if not isinstance(backend, str) or not _BACKEND.fullmatch(backend):
        raise Refused("archive", f"`build-backend` in {name} is no name", [ascii(backend)])
    if not isinstance(paths, list) or not all(isinstance(path, str) and _stays(path) for path in paths):
        raise Refused("archive", f"`backend-path` in {name} leads out of it", [ascii(paths)])
    return system


def _stays(path: str) -> bool:
    return path.isprintable() and not path.startswith("/") and ".." not in path.split("/")


def _differing(one: Path, other: Path) -> list[str]:
    """Return the names of the files in which two wheels differ."""
    if one.name != other.name:
        return [f"{one.name}, then {other.name}"]
    with zipfile.ZipFile(one) as left, zipfile.ZipFile(other) as right:
        mine, theirs = ({info.filename: info for info in each.infolist()} for each in (left, right))
        found = [f"{name}: only in one" for name in sorted(mine.keys() ^ theirs.keys())]
        for name in sorted(mine.keys() & theirs.keys()):
            if mine[name].CRC != theirs[name].CRC:
                found.append(f"{name}: another content")
            elif mine[name].date_time != theirs[name].date_time:
                found.append(f"{name}: another time")
    records = [line for line in found if ".dist-info/RECORD:" in line]
    return [line for line in found if line not in records] or records or ["the order of the files, or their modes"]


def _answer(request: Mapping[str, Any]) -> _Answer:
    from build import BuildBackendException, BuildException

    try:
        return _QUESTIONS[request["ask"]](Workshop(request))
    except Refused as error:
        return {"kind": error.kind, "message": str(error), "lines": list(error.lines)}
    except (BadWheel, NoPython, BuildBackendException, BuildException, subprocess.SubprocessError) as error:
        return {"kind": "build", "message": str(error)}
    except OSError as error:
        return {"kind": "os", "message": str(error), "errno": error.errno, "path": str(error.filename or "")}


if __name__ == "__main__":
    # The modes of files get into the wheel, and must not depend on the caller's umask.
    os.umask(0o022)
    asked = json.loads(sys.stdin.read())
    write_new(Path(asked["answer"]), json.dumps(_answer(asked)).encode(), mode=0o644)
