"""`make venv`, `update` and `test-newest` in a small project with our Makefile and tools, against an index of its own: real packages, as
they are installed here, and PyYAML in two versions.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from tests.helpers.standin.server import serve
from tests.helpers.waiting import DEADLINE
from tests.helpers.wheelhouse import Wheelhouse

NEEDED = (
    "uv",
    "hatchling",
    "editables",
    "packaging",
    "pathspec",
    "pluggy",
    "trove-classifiers",
    "pytest",
    "iniconfig",
    "pygments",
    "tomlkit",
)
UV = Path(sys.executable).with_name("uv")
LOCKED, NEWER = "6.0.1", "6.0.99"
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "envmgr"
version = "0"
requires-python = ">=3.11"
dependencies = ["pyyaml>=6"]
[project.optional-dependencies]
dev = ["pytest>=8", "hatchling", "uv"]
[dependency-groups]
build = ["editables"]
docs = []
reframe = []
spack = []
[tool.pytest.ini_options]
addopts = ["-p", "no:cacheprovider", "-s"]
"""
TEST = "import yaml\n\n\ndef test_version():\n    print('PyYAML', yaml.VERSION)\n"


@dataclass
class Project:
    folder: Path
    house: Wheelhouse
    environment: dict[str, str]

    def make(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = ["make", "-C", str(self.folder), *words]
        return subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, check=False, timeout=10 * DEADLINE
        )

    def ok(self, *words: str) -> str:
        done = self.make(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def offer(self, version: str, text: str = "") -> None:
        """A PyYAML of this version, in the index."""
        self.house.wheel("pyyaml", version, {"yaml.py": f"VERSION = {version!r}\n{text}"})

    @property
    def installed(self) -> str:
        done = subprocess.run(
            [self.folder / ".venv/bin/python", "-c", "import yaml; print(yaml.VERSION)"],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1].partition(":")[0]


def wheel_again(name: str, folder: Path) -> Path:
    """The wheel that was installed here, from its files."""
    installed = distribution(name)
    tag = re.search(r"^Tag: (.*)$", installed.read_text("WHEEL") or "", re.MULTILINE)
    assert tag is not None
    stem = f"{name.replace('-', '_')}-{installed.version}"
    place = folder / f"{stem}-{tag[1]}.whl"
    record = ""
    with zipfile.ZipFile(place, "w") as archive:
        for path in installed.files or ():
            if path.suffix == ".pyc" or path.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
                continue
            data, inside = Path(str(path.locate())).read_bytes(), str(path)
            if ".." in path.parts:
                if b"python" in data[:200]:  # made from the entry points at each install
                    continue
                inside = f"{stem}.data/scripts/{path.name}"
            archive.write(path.locate(), inside)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{inside},sha256={digest},{len(data)}\n"
        archive.writestr(f"{stem}.dist-info/RECORD", f"{record}{stem}.dist-info/RECORD,,\n")
    return place


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Its lock was made when the index had the first PyYAML alone."""
    folder, house = tmp_path / "project", Wheelhouse(tmp_path / "index")
    for name in ("tools", "envmgr/system"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "envmgr/__init__.py").touch()
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "tests/unit").mkdir(parents=True)
    (folder / "tests/unit/test_it.py").write_text(TEST)
    subprocess.run(["git", "init", "--quiet", folder], check=True)  # `make update` shows what it changed
    house.add(*(wheel_again(name, tmp_path) for name in NEEDED))
    house.wheel("colorama", "0.4.6")  # of pytest on Windows: a universal lock has it
    with serve(house.folder) as server:
        url = f"{server.url.rstrip('/')}/simple"
        environment = {key: value for key, value in os.environ.items() if not re.match(r"PIP_|UV_|MAKE|MFLAGS", key)}
        environment |= {
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": url,
            "PIP_NO_CACHE_DIR": "1",
            "UV_NO_CONFIG": "1",
            "UV_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHON": sys.executable,
            "TMPDIR": str(tmp_path),
        }
        made = Project(folder, house, environment)
        made.offer(LOCKED)
        subprocess.run(
            [
                UV,
                "pip",
                "compile",
                "--generate-hashes",
                "--extra",
                "dev",
                "--group",
                "build",
                "--default-index",
                url,
                "--output-file",
                "dev-lock.txt",
                "pyproject.toml",
            ],
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
        )
        yield made


def test_newer_release_changes_nothing_for_make_venv_and_make_test_newest_uses_it(project: Project) -> None:
    project.offer(NEWER)
    project.ok("venv")
    assert project.installed == LOCKED
    assert re.findall(r"PyYAML (\S+)", project.ok("test-newest", "--old-file=lmod", "PYTEST_ARGS=")) == [NEWER, LOCKED]
    assert project.installed == LOCKED
    project.ok("update")
    project.ok("venv")
    assert project.installed == NEWER


def test_make_venv_takes_no_other_bytes_than_those_of_the_lock(project: Project) -> None:
    project.offer(LOCKED, "import os\n")
    assert project.make("venv").returncode != 0
    assert project.installed == "ModuleNotFoundError"
    project.offer(LOCKED)
    project.ok("venv")
    assert project.installed == LOCKED
