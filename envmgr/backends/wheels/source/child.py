"""The process that builds: one request on stdin, the answer in a file. It starts code of the package's authors.

What is asked: `system` (what pyproject.toml needs for a build), `requires` (what its build asks for besides), `metadata`,
`wheel` (built as often as `times` says, from a new copy of the source each time). All it writes lies in `work`.
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

from envmgr.backends.wheels.interpreter import NoPython, make_environment, make_interpreter
from envmgr.system.files import remove_tree, write_new
from envmgr.wheels.records import BadWheel, promised
from envmgr.wheels.unpack import unpack

_OLDEST = 315532800  # 1980-01-01: the first time that a zip file can hold
_OF_ZIP = 1577836800  # 2020-01-01, for archives in which times have no time zone
_BACKEND = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_.]*)?")
Answer = dict[str, Any]


class Refused(Exception):  # noqa: N818 - what is the matter
    """`kind` is what went wrong: `archive`, `patch`, `build` or `differs`; `lines` are details."""

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
        """A prefix of its own over the entry's Python; nothing but the wheels is in it."""
        env = self.work / "env"
        for wheel in self.request["wheels"]:
            promised([Path(wheel)], self.minor)  # that it stays in its folder
            unpack(Path(wheel), Path("/"), env, self.minor)
        for path in sorted(env.glob("bin/*")):
            path.chmod(0o755)
        if self.request["base"] is None:
            make_environment(env, self.minor, Path(self.request["programs"]))
        else:
            make_interpreter(env, Path(self.request["base"]), self.minor)

    def unpack(self) -> tuple[Path, int]:
        """A new copy of the source, patched, and the time of its newest file before that."""
        archive, place = Path(self.request["sdist"]), self.work / "source"
        remove_tree(place)
        place.mkdir()
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(place)  # it leaves out `..` and the slash of absolute paths
        else:  # tar refuses `..`, and writes through no link that the archive made
            argv = ["tar", "--extract", "--file", str(archive), "--directory", str(place)]
            if self.run([*argv, "--no-same-owner", "--no-same-permissions"]):
                raise Refused("archive", f"{archive.name} cannot be unpacked")
        found = sorted(place.iterdir())
        if len(found) != 1 or found[0].is_symlink() or not found[0].is_dir():
            raise Refused("archive", f"{archive.name} is not one folder", [path.name for path in found[:10]])
        times = [s.st_mtime for s in (path.lstat() for path in place.rglob("*")) if stat.S_ISREG(s.st_mode)]
        epoch = _OF_ZIP if archive.suffix == ".zip" else max(_OLDEST, int(max(times, default=0)))
        for patch in self.request["patches"]:
            argv = ["patch", "--strip=1", "--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch"]
            if self.run([*argv, f"--directory={found[0]}", f"--input={patch}"]):
                raise Refused("patch", f"{Path(patch).name} does not fit {archive.name}")
        return found[0], epoch

    def environment(self, epoch: int) -> dict[str, str]:
        """Nothing of the host, the user or the day."""
        jobs = str(self.request["jobs"])
        env = {key: os.environ[key] for key in ("LANG", "LC_ALL", "TZ")}
        env |= {"PATH": f"{self.work / 'env' / 'bin'}:{os.environ['PATH']}"}
        env |= {"HOME": str(self.work / "home"), "TMPDIR": str(self.work / "tmp")}
        env |= {"USER": "envmgr", "LOGNAME": "envmgr", "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
        env |= {"PYTHONNOUSERSITE": "1", "PYTHONPYCACHEPREFIX": f"{self.work}/bytecode", "PIP_NO_INDEX": "1"}
        return env | {"MAX_JOBS": jobs, "MAKEFLAGS": f"-j{jobs}", "CMAKE_BUILD_PARALLEL_LEVEL": jobs}

    def compilers(self) -> dict[str, str]:
        """The host's, for a Python that names compilers that are not here: conda's, for one."""
        ask = "import sysconfig; print(sysconfig.get_config_var('CC') or '')"
        done = subprocess.run([self.python, "-I", "-S", "-c", ask], capture_output=True, text=True, check=False)
        words = shlex.split(done.stdout)
        return {} if words and shutil.which(words[0]) else {"CC": "cc", "CXX": "c++"}

    def run(self, argv: Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None) -> int:
        """Its exit status; what it says is in the log."""
        with self.log.open("ab") as log:
            log.write(f"$ {shlex.join(map(str, argv))}\n".encode())
            log.flush()
            try:
                done = subprocess.run(
                    argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False
                )
            except FileNotFoundError as error:
                raise Refused("build", f"this host has no `{error.filename}`") from None
            return done.returncode


def system(shop: Workshop) -> Answer:
    return {"requires": sorted(_builder(shop, *shop.unpack()).build_system_requires)}


def requires(shop: Workshop) -> Answer:
    shop.make_python()
    return {"requires": sorted(_builder(shop, *shop.unpack()).get_requires_for_build("wheel"))}


def metadata(shop: Workshop) -> Answer:
    shop.make_python()
    folder = _builder(shop, *shop.unpack()).metadata_path(shop.work / "metadata")
    return {"metadata": (Path(folder) / "METADATA").read_text(encoding="utf-8", errors="replace")}


def wheel(shop: Workshop) -> Answer:
    """The first of the wheels, if all are the same."""
    shop.make_python()
    more = shop.compilers()
    made: list[Path] = []
    for number in range(int(shop.request["times"])):
        source, epoch = shop.unpack()
        made.append(
            Path(_builder(shop, source, epoch, more).build("wheel", shop.work / f"wheel{number}", _settings(source)))
        )
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in made]
    if len({*digests}) > 1 or len({path.name for path in made}) > 1:
        raise Refused("differs", "two builds of it differ", _differing(made[0], made[-1]))
    return {"wheel": made[0].name}


_WORK: Mapping[str, Callable[[Workshop], Answer]] = {
    "system": system,
    "requires": requires,
    "metadata": metadata,
    "wheel": wheel,
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
    """meson-python builds in a folder with a random name, which gets into what it builds.

    Source: its documentation, "Build settings".
    """
    return {"build-dir": "build"} if _read_project(source).get("build-backend") == "mesonpy" else {}


def _read_project(source: Path) -> dict[str, Any]:
    """The table `build-system` of its pyproject.toml, with a backend that is a name, and paths that stay in the source.

    Source: PEP 517, "Source trees".
    """
    project = source / "pyproject.toml"
    try:
        table = tomllib.loads(project.read_text(encoding="utf-8")) if project.is_file() else {}
    except (ValueError, RecursionError) as error:
        raise Refused("archive", f"the pyproject.toml of {source.name} cannot be read", [str(error)]) from None
    system = table.get("build-system", {})
    if not isinstance(system, dict):
        raise Refused("archive", f"`build-system` in the pyproject.toml of {source.name} is no table")
    backend, paths = system.get("build-backend", "setuptools.build_meta"), system.get("backend-path", [])
    if not isinstance(backend, str) or not _BACKEND.fullmatch(backend):
        raise Refused("archive", f"`build-backend` in the pyproject.toml of {source.name} is no name", [ascii(backend)])
    if not isinstance(paths, list) or not all(isinstance(path, str) and _stays(path) for path in paths):
        raise Refused(
            "archive", f"`backend-path` in the pyproject.toml of {source.name} leads out of it", [ascii(paths)]
        )
    return system


def _stays(path: str) -> bool:
    return path.isprintable() and not path.startswith("/") and ".." not in path.split("/")


def _differing(one: Path, other: Path) -> list[str]:
    """The names of the files in which two wheels differ."""
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


def main() -> None:
    from build import BuildBackendException, BuildException

    os.umask(0o022)
    request = json.loads(sys.stdin.read())
    try:
        answer = _WORK[request["ask"]](Workshop(request))
    except Refused as error:
        answer = {"kind": error.kind, "message": str(error), "lines": list(error.lines)}
    except (BadWheel, NoPython, BuildBackendException, BuildException, subprocess.SubprocessError) as error:
        answer = {"kind": "build", "message": str(error), "lines": []}
    except OSError as error:
        answer = {
            "kind": "os",
            "message": str(error),
            "errno": error.errno,
            "path": str(error.filename or ""),
            "lines": [],
        }
    write_new(Path(request["answer"]), json.dumps(answer).encode(), mode=0o644)


if __name__ == "__main__":
    main()
