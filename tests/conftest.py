"""What the tests share: the stand-in channel, a throw-away site on it, and the command line as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.done import Done
from tests.helpers.places import CACHE
from tests.helpers.standin.channel import Channel, cached_channel

pytest_plugins = ["tests.helpers.cluster.fixtures", "tests.helpers.audit_scene", "tests.helpers.eb_fixtures"]

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="session")
def channel() -> Channel:
    """The stand-in channel as a folder, built once for all tests and sessions."""
    return cached_channel(CACHE)


@dataclass
class Sandbox:
    """A site, its catalog and its prefix in a folder of their own, and `envmgr` run as a subprocess in it."""

    root: Path
    mirror: str
    policies: dict[str, Any] = field(
        default_factory=lambda: {"min_free": 0, "stall_timeout": 5.0, "download_retries": 1}
    )
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def prefix(self) -> Path:
        return self.root / "prefix"

    def write_site(self) -> None:
        """(Re)write site.yaml from `mirror`, `policies` and `settings`."""
        site = {
            "schema": 1,
            "name": "sandbox",
            "prefix": str(self.prefix),
            "catalogs": ["recipes"],
            "channels": {
                "standin": {"url": "http://channel.invalid/standin", "mirrors": [self.mirror] if self.mirror else []}
            },
            "policies": self.policies,
            **self.settings,
        }
        (self.root / "site.yaml").write_text(json.dumps(site, indent=1))
        (self.root / "recipes").mkdir(exist_ok=True)

    def recipe(self, entry: str, specs: list[str], **fields: Any) -> Path:
        """Write a recipe and its software.yaml; returns the recipe's folder."""
        name, version = entry.split("/")
        folder = self.root / "recipes" / name / version
        folder.mkdir(parents=True, exist_ok=True)
        software = {
            "description": f"{name} for tests",
            "homepage": "https://example.org",
            "licence": "MIT",
            "category": "test",
        }
        (folder.parent / "software.yaml").write_text(json.dumps(software))
        recipe = {"schema": 1, "backend": "conda", "input": {"channels": ["standin"], "specs": specs}, **fields}
        (folder / "recipe.yaml").write_text(json.dumps(recipe, indent=1))
        return folder

    def command(self, *argv: str) -> list[str]:
        return [sys.executable, "-m", "envmgr", *argv]

    def environ(self, **extra: str) -> dict[str, str]:
        keep = {k: os.environ[k] for k in ("PATH", "HOME", "LANG") if k in os.environ}
        return {**keep, "ENVMGR_SITE": str(self.root / "site.yaml"), **extra}

    def run(self, *argv: str, timeout: float = 120, **extra: str) -> Done:
        """Run `envmgr ARGV…` to its end; a traceback on stderr fails the test whatever the exit code."""
        done = subprocess.run(
            self.command(*argv),
            cwd=self.root,
            env=self.environ(**extra),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *argv: str, **extra: str) -> Done:
        done = self.run(*argv, **extra)
        assert done.code == 0, f"{argv}: exit {done.code}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *argv: str, **extra: str) -> subprocess.Popen[str]:
        """Start `envmgr ARGV…` and return at once."""
        return subprocess.Popen(
            self.command(*argv),
            cwd=self.root,
            env=self.environ(**extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def shell(self, script: str, shell: str = "bash", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a script in a fresh shell that has read `envmgr shell-init`."""
        init = self.ok("shell-init", shell).stdout
        return subprocess.run(
            [shell, *(["--noprofile", "--norc"] if shell == "bash" else [])],
            input=init + textwrap.dedent(script),
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.root)},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def current(self) -> int | None:
        link = self.prefix / "current"
        return int(link.readlink().name) if link.is_symlink() else None

    def leftovers(self) -> list[str]:
        """What should never stay: staging folders, trees without a manifest, temporary files."""
        found = list(self.prefix.glob("store/*/.staging-*"))
        found += [
            p
            for p in self.prefix.glob("store/*/*")
            if p.is_dir() and not p.with_name(f"{p.name}.manifest.json").exists()
        ]
        found += [p for p in self.prefix.rglob("*.tmp") if "cache" not in p.parts]
        return sorted(str(p.relative_to(self.prefix)) for p in found)


@pytest.fixture
def sandbox(tmp_path: Path, channel: Channel) -> Iterator[Sandbox]:
    """A site whose channel is the stand-in folder."""
    box = Sandbox(tmp_path, str(channel.folder))
    box.write_site()
    yield box
    remove_tree(box.prefix)  # read-only trees: pytest's own clean-up would stumble


@pytest.fixture
def make_sandbox(tmp_path: Path) -> Iterator[Callable[[str, str], Sandbox]]:
    """Several sandboxes: `make_sandbox(name, mirror)`."""
    made: list[Sandbox] = []

    def make(name: str, mirror: str) -> Sandbox:
        (tmp_path / name).mkdir()
        made.append(Sandbox(tmp_path / name, mirror))
        made[-1].write_site()
        return made[-1]

    yield make
    for box in made:
        remove_tree(box.prefix)
