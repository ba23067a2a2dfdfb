"""A site, its catalog and its prefix in a folder of their own, and the command line as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envmgr.system.files import remove_tree
from tests.helpers.done import Done
from tests.helpers.sites import with_backends
from tests.helpers.waiting import DEADLINE

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass
class Sandbox:
    """A site, its catalog and its prefix in a folder of their own, and `envmgr` run as a subprocess in it."""

    root: Path
    mirror: str
    policies: dict[str, Any] = field(
        default_factory=lambda: {"min_free": 0, "stall_timeout": 60.0, "download_retries": 1}
    )
    settings: dict[str, Any] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

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
        (self.root / "site.yaml").write_text(json.dumps(with_backends(site), indent=1))
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

    def run(self, *argv: str, timeout: float = 2 * DEADLINE, **extra: str) -> Done:
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
        """Start `envmgr ARGV…` and return at once; what still runs at the test's end is killed."""
        process = subprocess.Popen(
            self.command(*argv),
            cwd=self.root,
            env=self.environ(**extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def clear(self) -> None:
        """End what a test that failed has left running, and remove the prefix: the next test finds a clean scene."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        remove_tree(self.prefix)  # read-only trees: pytest's own clean-up would stumble

    def processes(self) -> dict[int, str]:
        """Processes that are alive and name a path of the sandbox, work in it or have a file of it open, and all that these started: their
        command lines.
        """
        found: dict[int, str] = {}
        others: dict[int, tuple[int, str]] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            pid = int(folder.name)
            try:
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                inside = str((folder / "cwd").readlink())
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state == "Z" or pid == os.getpid():
                continue
            if str(self.root) in words or inside.startswith(str(self.root)) or self._has_open(folder):
                found[pid] = words
            else:
                others[pid] = int(parent), words
        while children := {pid: words for pid, (parent, words) in others.items() if parent in found}:
            found |= children
            others = {pid: each for pid, each in others.items() if pid not in found}
        return found

    def _has_open(self, process: Path) -> bool:
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    if str(descriptor.readlink()).startswith(f"{self.root}/"):
                        return True
        return False

    def shell(self, script: str, shell: str = "bash", timeout: float = DEADLINE) -> subprocess.CompletedProcess[str]:
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


def use(box: Sandbox, *mirrors: str) -> None:
    """Let its channel have these mirrors."""
    box.settings["channels"] = {"standin": {"url": "http://channel.invalid/standin", "mirrors": list(mirrors)}}
    box.write_site()
