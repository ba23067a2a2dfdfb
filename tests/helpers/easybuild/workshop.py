"""What the tests of the EasyBuild backend share: a site whose builds run as an ordinary user, on real tarballs.

EasyBuild refuses root. Where root runs the tests, the site has a build user, and the Python that runs envmgr is one that this
user can reach, with its EasyBuild: this one, or the system's in an environment of its own under tests/.cache.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.easybuild.installation import why_not_own
from envmgr.backends.easybuild.settings import EASYBUILD
from envmgr.system.files import remove_tree, sha256_bytes, sha256_file
from tests.helpers.easybuild.debian_sources import sourcepath
from tests.helpers.places import CACHE, ROOT
from tests.helpers.sandbox import Sandbox

AM_ROOT = os.geteuid() == 0
BUILD_USER = "nobody" if AM_ROOT else pwd.getpwuid(os.geteuid()).pw_name

# Builds in a second, and says so: C, a Makefile of its own, one program.
TOY_MAKEFILE = """\
all: toy
toy: toy.c
\tcc -O2 -o toy toy.c
install: toy
\tmkdir -p $(PREFIX)/bin
\tcp toy $(PREFIX)/bin/
"""
TOY_C = '#include <stdio.h>\nint main(void) { puts("toy %s"); return 0; }\n'


ORDINARY_PYTHON = "ENVMGR_TESTS_ORDINARY_PYTHON"
_LOCK = "dev-lock.txt"
_MEASURED = os.environ.get("ENVMGR_COVERAGE")  # by tools/coverage


@dataclass
class Workshop(Sandbox):
    """A sandbox for EasyBuild: `easyconfigs/` before the shipped ones, `mirror/` as the only place of sources."""

    def write_site(self) -> None:
        self.settings = {
            "easyconfigs": ["easyconfigs"],
            "build_dir": str(self.root / "build"),
            "sources": {"mirrors": ["mirror", str(CACHE / "sources")], "upstream": False},
            **({"build_user": BUILD_USER} if AM_ROOT else {}),
            **self.settings,
        }
        super().write_site()
        for name in ("easyconfigs", "mirror"):
            (self.root / name).mkdir(exist_ok=True)
        build = self.root / "build"
        if not build.exists():
            build.mkdir()
            self.give(build)

    def give(self, path: Path) -> None:
        """To the build user."""
        if AM_ROOT:
            account = pwd.getpwnam(BUILD_USER)
            os.chown(path, account.pw_uid, account.pw_gid)

    def command(self, *argv: str) -> list[str]:
        return [str(ordinary_python()), "-m", "envmgr", *argv]

    def environ(self, **extra: str) -> dict[str, str]:
        return super().environ(XDG_CACHE_HOME=str(CACHE / "xdg"), **extra)

    def easyconfig(self, name: str, version: str, text: str = "", **fields: Any) -> Path:
        """Write an easyconfig of the SYSTEM toolchain into `easyconfigs/`; `fields` are its parameters, `text` is put after them."""
        folder = self.root / "easyconfigs" / name[0].lower() / name
        folder.mkdir(parents=True, exist_ok=True)
        rows = {
            "name": name,
            "version": version,
            "homepage": "https://example.org",
            "description": f"{name} for tests",
            **fields,
        }
        lines = [f"{key} = {value!r}" for key, value in rows.items()]
        path = folder / f"{name}-{version}.eb"
        path.write_text("\n".join([*lines, "toolchain = SYSTEM", "moduleclass = 'tools'", text]) + "\n")
        return path

    def toy(
        self, name: str = "toy", version: str = "1.0", *, files: Mapping[str, str] | None = None, **fields: Any
    ) -> Path:
        """A software that builds in a second: its source in the mirror, its easyconfig, with its true checksum."""
        from tests.helpers.easybuild.source_archives import write_tar

        content = {"Makefile": TOY_MAKEFILE, "toy.c": TOY_C % version, **(files or {})}
        archive = write_tar(
            self.root / "mirror" / name[0].lower() / name / f"{name}-{version}.tar.gz", f"{name}-{version}", content
        )
        return self.easyconfig(
            name,
            version,
            **{
                "easyblock": "ConfigureMake",
                "skipsteps": ["configure"],
                "sources": [archive.name],
                "checksums": [sha256_file(archive)],
                "installopts": "PREFIX=%(installdir)s",
                "sanity_check_paths": {"files": ["bin/toy"], "dirs": []},
                **fields,
            },
        )

    def entry(self, entry: str, easyconfig: str, *, input: Mapping[str, Any] | None = None, **fields: Any) -> Path:  # noqa: A002
        """Write the recipe of an entry."""
        fields.setdefault("backend", "easybuild")
        fields["input"] = {"easyconfig": easyconfig, **(input or {})}
        return self.recipe(entry, [], **fields)

    def locked(self, entry: str, easyconfig: str, **fields: Any) -> Path:
        folder = self.entry(entry, easyconfig, **fields)
        self.ok("lock", entry)
        return folder

    def items(self) -> list[str]:
        """Finished items of the store: `<name>/<version>-<digest8>`."""
        return sorted(
            f"{p.parent.name}/{p.name.removesuffix('.manifest.json')}"
            for p in self.prefix.glob("store/*/*.manifest.json")
        )


def easybuild_home() -> Path:
    """The environment that runs envmgr in these tests: `bin/python`, `easybuild/easyconfigs`, EasyBuild among its packages."""
    return ordinary_python().parent.parent


@cache
def ordinary_python() -> Path:
    """A Python with this checkout's envmgr that every user of this machine can run, and an EasyBuild that may be used.

    Its bytecode is there: EasyBuild starts four times as fast with it, and envmgr lets it write none. On a node, whose checkout is
    read-only, it is the one of ORDINARY_PYTHON, made before.
    """
    if made := os.environ.get(ORDINARY_PYTHON):
        return Path(made)
    python = Path(sys.executable)
    if (AM_ROOT and not _everybody_can_run(python)) or why_not_own(EASYBUILD, None):
        wanted = sha256_bytes(b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", _LOCK)))[:12]
        python = CACHE / (f"python-{wanted}-coverage" if _MEASURED else f"python-{wanted}") / "bin" / "python"
    home = python.parent.parent
    done = CACHE / f"compiled-{sha256_bytes(str(home).encode())[:12]}"
    with _locked(CACHE / "python.lock"):
        if not python.is_relative_to(sys.prefix) and not (home / "complete").exists():
            _make_python(home)
        if _MEASURED and not python.is_relative_to(sys.prefix):
            (site_packages,) = home.glob("lib/python3*/site-packages")
            shutil.copy(Path(_MEASURED) / "start.pth", site_packages / "zz-coverage.pth")
        if not done.exists() or done.stat().st_mtime < python.lstat().st_mtime:
            packages = [*home.glob("lib/python3*/site-packages/easybuild")]
            subprocess.run([python, "-m", "compileall", "-q", *packages], check=True)
            done.touch()
    return python


def _make_python(home: Path) -> None:
    """As `make venv` does: nothing but what dev-lock.txt has."""
    remove_tree(home)
    into = ["pip", "install", "--quiet", "--python", str(home / "bin/python")]
    locked = ["--require-hashes", "--constraints", _LOCK, "--build-constraints", _LOCK]
    for argv in (
        ["venv", "--quiet", "--python", _system_python(), str(home)],
        [*into, *locked, "-r", "pyproject.toml", "--extra", "dev", "--group", "build"],
        [*into, "--no-deps", "--no-build-isolation", "--editable", "."],
    ):
        subprocess.run([sys.executable, "-m", "tools.uv", *argv], check=True, cwd=ROOT, umask=0o022)
    (home / "complete").touch()


def _system_python() -> str:
    for name in ("/usr/bin/python3", "/usr/bin/python3.11", "/usr/bin/python3.12", "/usr/local/bin/python3"):
        if shutil.which(name):
            done = subprocess.run(
                [name, "-c", "import sys; print(sys.version_info >= (3, 11))"],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.stdout.strip() == "True":
                return name
    pytest.fail("root runs these tests, and no Python 3.11 or newer is here that other users can run: install python3")


def _everybody_can_run(path: Path) -> bool:
    real = path.resolve()
    return all(p.stat().st_mode & 0o001 for p in (real, *real.parents, *path.parents))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_workshop(**settings: Any) -> Workshop:
    """In a folder that other users can reach, unlike pytest's."""
    root = Path(tempfile.mkdtemp(prefix="ev.", dir="/tmp")).resolve()
    root.chmod(0o755)
    box = Workshop(root, "", settings=dict(settings))
    box.write_site()
    return box


def real_sources(*names: str) -> Path:
    """Real tarballs, where every Workshop's site finds them."""
    for name in names:
        sourcepath(name)
    return CACHE / "sources"
