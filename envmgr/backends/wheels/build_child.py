"""The process that builds: one request on stdin, the answer in a file. It starts code of the package's authors.

The questions are `system` (what pyproject.toml needs for a build), `requires` (what its build asks for as well),
`metadata`, and `wheel` (built twice, from a new copy of the source each time). uv makes the Python of the build, and
builds; only the hooks for which uv has no command are called here. All that this writes lies in the working folder, and
its output, which is the log.
Source: PEP 517, PEP 518; reproducible-builds.org, "SOURCE_DATE_EPOCH".
"""

from __future__ import annotations

import filecmp
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envmgr.system.files import remove_tree, write_new

_OLDEST = 315532800  # 1980-01-01: the first time that a zip file can hold
_OF_ZIP = 1577836800  # 2020-01-01, for archives in which times have no time zone
_Answer = dict[str, Any]


class Refused(Exception):  # noqa: N818 - the name of what happened
    """A build was refused. `kind` is the reference of the error; `lines` are details."""

    def __init__(self, kind: str, message: str, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.kind, self.lines = kind, lines


class Workshop:
    """The folder of a build: `source`, `env` (its Python, with the wheels that build), `home`, `tmp`, `wheel0`, `wheel1`."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.request = request
        self.work = Path.cwd()
        self.python = self.work / "env" / "bin" / "python"
        for name in ("home", "tmp"):
            (self.work / name).mkdir(exist_ok=True)

    def answer(self) -> _Answer:
        question = self.request["ask"]
        if question != "system":
            self.make_python()
        if question == "wheel":
            return self.build_twice()
        project = self.project(*self.unpack())
        if question == "system":
            return {"requires": sorted(project.build_system_requires)}
        if question == "requires":
            return {"requires": sorted(project.get_requires_for_build("wheel"))}
        folder = project.metadata_path(self.work / "metadata")
        return {"metadata": (Path(folder) / "METADATA").read_text(encoding="utf-8", errors="replace")}

    def unpack(self) -> tuple[Path, dict[str, str]]:
        """Return a new copy of the source, patched, and the environment of its build."""
        archive, place = Path(self.request["sdist"]), self.work / "source"
        remove_tree(place)
        place.mkdir()
        if archive.suffix == ".zip":
            shutil.unpack_archive(archive, place)  # it leaves out what leads out of the folder
        else:  # tar refuses `..`, and writes through no link that the archive made
            argv = ["tar", "--extract", "--file", archive, "--directory", place]
            # As root, tar would otherwise restore the owners and modes of the archive.
            argv += ["--no-same-owner", "--no-same-permissions"]
            _run(argv, kind="sdist-invalid", message=f"{archive.name} cannot be unpacked")
        found = sorted(place.iterdir())
        if len(found) != 1 or found[0].is_symlink() or not found[0].is_dir():
            raise Refused("sdist-invalid", f"{archive.name} is not one folder", [path.name for path in found[:10]])
        times = [s.st_mtime for s in (path.lstat() for path in place.rglob("*")) if stat.S_ISREG(s.st_mode)]
        epoch = _OF_ZIP if archive.suffix == ".zip" else max(_OLDEST, int(max(times, default=0)))
        for patch in self.request["patches"]:
            # No questions, no patch that is applied in reverse, and no place that fits only roughly.
            argv = ["patch", "--strip=1", "--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch"]
            argv += [f"--directory={found[0]}", f"--input={patch}"]
            _run(argv, kind="patch-failed", message=f"{Path(patch).name} does not fit {archive.name}")
        return found[0], self.environment(epoch)

    def environment(self, epoch: int) -> dict[str, str]:
        """Return variables with nothing of the host, the user or the day."""
        jobs = str(self.request["jobs"])
        env = {key: os.environ[key] for key in ("LANG", "LC_ALL", "TZ")}
        env |= {"PATH": f"{self.python.parent}:{os.environ['PATH']}"}
        env |= {"HOME": str(self.work / "home"), "TMPDIR": str(self.work / "tmp")}
        # Otherwise a build may write what is in a set in another order each time.
        env |= {"USER": "envmgr", "LOGNAME": "envmgr", "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
        env |= {"PYTHONNOUSERSITE": "1", "PYTHONPYCACHEPREFIX": f"{self.work}/bytecode", "PIP_NO_INDEX": "1"}
        env |= {"UV_NO_CONFIG": "1", "UV_OFFLINE": "1", "UV_NO_PROGRESS": "1", "UV_CACHE_DIR": f"{self.work}/cache"}
        return env | {"MAX_JOBS": jobs, "MAKEFLAGS": f"-j{jobs}", "CMAKE_BUILD_PARALLEL_LEVEL": jobs}

    def make_python(self) -> None:
        """Make a Python over the entry's, with nothing but the locked wheels in it."""
        uv, lock, env = self.request["uv"], self.work / "build.lock", self.environment(_OLDEST)
        _run(
            [uv, "venv", "--quiet", "--no-python-downloads", "--python", self.request["python"], self.work / "env"], env
        )
        write_new(lock, self.request["lock"].encode(), mode=0o644)
        words = [word for folder in self.request["folders"] for word in ("--find-links", folder)]
        argv = [uv, "pip", "install", "--quiet", "--python", self.python, "--link-mode", "copy", "--no-deps"]
        _run([*argv, "--no-index", *words, "--require-hashes", "-r", lock], env)

    def project(self, source: Path, env: Mapping[str, str]) -> Any:
        """Return what calls its hooks."""
        from build import BuildException, ProjectBuilder

        def run(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
            _run(cmd, {**env, **(extra_environ or {})}, cwd)

        try:
            return ProjectBuilder(source, python_executable=str(self.python), runner=run)
        except (BuildException, ValueError, TypeError, RecursionError) as error:
            message = f"the pyproject.toml of {source.name} cannot be read"
            raise Refused("sdist-invalid", message, [str(error)]) from None

    def build_twice(self) -> _Answer:
        """Return the name of the first wheel, if the second is the same."""
        wheels = self.build(0), self.build(1)
        if wheels[0].name != wheels[1].name or not filecmp.cmp(*wheels, shallow=False):
            raise Refused("build-differs", "two builds of it differ", _differing(*wheels))
        return {"wheel": wheels[0].name}

    def build(self, number: int) -> Path:
        """Return the wheel of a new copy of the source."""
        source, env = self.unpack()
        place = self.work / f"wheel{number}"
        argv = [self.request["uv"], "build", "--wheel", "--no-build-isolation", "--no-sources", "--force-pep517"]
        # meson-python and scikit-build-core name this folder by chance, and the name gets into what they build.
        argv += ["--config-setting", "build-dir=build", "--python", self.python, "--out-dir", place, source]
        _run(argv, env | self.compilers())
        return next(place.glob("*.whl"))

    def compilers(self) -> dict[str, str]:
        """Return the host's, for a Python that names compilers that are missing here: conda's, for one."""
        ask = "import sysconfig; print(sysconfig.get_config_var('CC') or '')"
        done = subprocess.run([self.python, "-I", "-S", "-c", ask], capture_output=True, text=True, check=False)
        words = shlex.split(done.stdout)
        return {} if words and shutil.which(words[0]) else {"CC": "cc", "CXX": "c++"}


def _run(
    argv: Sequence[object],
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    *,
    kind: str = "build-failed",
    message: str = "",
) -> None:
    """Run a command with its output in the log, below the command. Raise Refused of that kind."""
    words = [str(word) for word in argv]
    sys.stdout.write(f"$ {shlex.join(words)}\n")
    sys.stdout.flush()
    try:
        # A program that asks a question must fail, and not wait for an answer.
        subprocess.run(words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, check=True)
    except FileNotFoundError as error:
        raise Refused("build-failed", f"this host has no `{error.filename}`") from None
    except subprocess.CalledProcessError:
        raise Refused(kind, message) from None


def _differing(one: Path, other: Path) -> list[str]:
    """Return the names of the files in which two wheels differ."""
    if one.name != other.name:
        return [f"{one.name}, then {other.name}"]
    with zipfile.ZipFile(one) as left, zipfile.ZipFile(other) as right:
        mine, theirs = ({(i.filename, i.CRC, i.date_time) for i in each.infolist()} for each in (left, right))
    found = sorted({name for name, *_ in mine ^ theirs})
    return [name for name in found if not name.endswith(".dist-info/RECORD")] or found or ["the order of its files"]


def _answer(request: Mapping[str, Any]) -> _Answer:
    from build import BuildBackendException, BuildException

    try:
        return Workshop(request).answer()
    except Refused as error:
        return {"kind": error.kind, "message": str(error), "lines": list(error.lines)}
    except (BuildBackendException, BuildException) as error:
        return {"kind": "build-failed", "message": str(error)}


if __name__ == "__main__":
    # The modes of files get into the wheel, and must not depend on the caller's umask.
    os.umask(0o022)
    write_new(Path("answer.json"), json.dumps(_answer(json.load(sys.stdin))).encode(), mode=0o644)
