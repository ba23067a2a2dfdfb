"""Prefixes that older releases made, unpacked at their own path in a mount namespace; and how such a one is made.

    python -m tests.helpers.old_prefix RELEASE PYTHON [--easybuild HOME]

makes `tests/fixtures/prefixes/RELEASE.tar.gz`, as root: PYTHON runs that release, for every user of the machine; HOME is an
environment of EasyBuild 5.4.1 for releases that look for one below the prefix. One is made for each release, by its own code, and
never again: `expected.json` in it says what the release itself said of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envmgr.catalog.target import read_target
from tests.helpers.eb_tar import write_tar
from tests.helpers.places import CACHE, TESTS
from tests.helpers.sandbox import Sandbox
from tests.helpers.small_disk import Inside, Small
from tests.helpers.standin.channel import build_channel

FIXTURES = TESTS / "fixtures" / "prefixes"
HOME = Path("/media/cluster")  # a folder of every Linux, under which a tmpfs is mounted, for the namespace only
PREFIX, SITE = HOME / "envmgr", HOME / "site"
_PACKAGES = {"hello-prefix", "hello-activate", "shared"}
_EASYCONFIG = """\
easyblock = 'Tarball'
name = '{name}'
version = '1.0'
homepage = 'https://example.org'
description = '{name} for tests'
toolchain = SYSTEM
sources = ['{name}-1.0.tar.gz']
checksums = ['{sha256}']
dependencies = {dependencies}
sanity_check_paths = {{'files': ['bin/{name}.sh'], 'dirs': []}}
moduleclass = 'tools'
"""
# The machine that the prefix was made on: the target is part of every digest.
_AS_THERE = """\
import platform, sys
sys.argv[0], glibc = "envmgr", sys.argv.pop(1)
platform.libc_ver = lambda *_, **__: ("glibc", glibc)
from envmgr.cli.app import main
main()
"""


@dataclass
class OldPrefix(Sandbox):
    """The site of an old release, with its prefix. Files are looked at through /proc."""

    inside: Inside | None = None

    @property
    def _there(self) -> Path:
        assert self.inside is not None
        return Path(f"/proc/{self.inside.process.pid}/root")

    @property
    def prefix(self) -> Path:
        return self._there / PREFIX.relative_to("/")

    @property
    def site(self) -> Path:
        return self._there / SITE.relative_to("/")

    @property
    def expected(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._there / HOME.relative_to("/") / "expected.json").read_text())
        return found

    def command(self, *argv: str) -> list[str]:
        assert self.inside is not None
        as_there = [sys.executable, "-c", _AS_THERE, self.expected["target"]["glibc"], *argv]
        return [*self.inside.words(), *as_there]

    def environ(self, **extra: str) -> dict[str, str]:
        return super().environ(**{"ENVMGR_SITE": str(SITE / "site.yaml"), **extra})


@contextmanager
def old_prefix(release: str, root: Path) -> Iterator[OldPrefix]:
    """What `release` made, as the caller's own, on a machine like the one that it was made on."""
    archive = FIXTURES / f"{release}.tar.gz"
    inside = Small.enter(
        root,
        f"mount -t tmpfs -o mode=755 tmpfs {HOME.parent}; tar -xzf {archive} -C {HOME.parent} --no-same-owner; "
        f"chmod 755 {HOME}; "  # site.yaml is not read where everybody could put another one
        f"mount --bind {HOME}/os-release $(readlink -f /etc/os-release)",
    )
    try:
        yield OldPrefix(root, "", inside=inside)
    finally:
        inside.leave()


def make(release: str, python: Path, easybuild: Path | None) -> Path:
    """Build, change, publish and roll back with the old release, as `nobody`, and pack what that left."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        inside = Small.enter(work, f"mount -t tmpfs -o mode=755 tmpfs {HOME.parent}; mkdir -m 777 {HOME}")
        try:
            there = Path(f"/proc/{inside.process.pid}/root{HOME}")
            _lay_out(there, easybuild)
            said = _use(inside, python, there)
            (there / "expected.json").write_text(json.dumps(said, indent=1))
            shutil.copyfile("/etc/os-release", there / "os-release")
            target = FIXTURES / f"{release}.tar.gz"
            target.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(target, "w:gz") as tar:
                tar.add(there, HOME.name, filter=_plain)
        finally:
            inside.leave()
    return target


def _lay_out(there: Path, easybuild: Path | None) -> None:
    build_channel(there / "channel", wheels=CACHE / "wheels", packages=_PACKAGES)
    site = {
        "schema": 1,
        "name": "cluster",
        "prefix": str(PREFIX),
        "catalogs": ["recipes"],
        "easyconfigs": ["easyconfigs"],
        "channels": {"standin": {"url": "http://channel.invalid/standin", "mirrors": ["../channel"]}},
        "sources": {"mirrors": ["../mirror"], "upstream": False},
        "policies": {"min_free": 0},
    }
    (there / "site").mkdir()
    (there / "site" / "site.yaml").write_text(json.dumps(site, indent=1))
    recipes = {
        "tool/1.0": {"backend": "conda", "input": {"channels": ["standin"], "specs": ["hello-prefix"]}},
        "act/1.0": {"backend": "conda", "input": {"channels": ["standin"], "specs": ["hello-activate"]}},
        "toy/1.0": {"backend": "easybuild", "input": {"easyconfig": "toy-1.0.eb"}},
        "top/1.0": {"backend": "easybuild", "input": {"easyconfig": "top-1.0.eb"}},
    }
    for entry, recipe in recipes.items():
        folder = there / "site" / "recipes" / entry
        folder.mkdir(parents=True)
        (folder.parent / "software.yaml").write_text(json.dumps({"description": f"{folder.parent.name} for tests"}))
        (folder / "recipe.yaml").write_text(json.dumps(recipe))
    for name, dependencies in (("toy", []), ("top", [("toy", "1.0")])):
        archive = there / "mirror" / name[0] / name / f"{name}-1.0.tar.gz"
        write_tar(archive, f"{name}-1.0", {f"bin/{name}.sh": f"#!/bin/sh\necho {name} 1.0\n", "README": "A toy.\n"})
        text = _EASYCONFIG.format(name=name, sha256=_sha256(archive), dependencies=dependencies)
        place = there / "site" / "easyconfigs" / name[0] / name / f"{name}-1.0.eb"
        place.parent.mkdir(parents=True)
        place.write_text(text)
    if easybuild is not None:
        tools = there / "envmgr" / "easybuild" / "tools"
        tools.mkdir(parents=True)
        (tools / "5.4.1").symlink_to(easybuild)
    subprocess.run(["chown", "-R", "nobody:", there], check=True)


def _use(inside: Inside, python: Path, there: Path) -> dict[str, Any]:
    def envmgr(*argv: str) -> Any:
        done = subprocess.run(
            [
                *inside.words(),
                "setpriv",
                "--reuid=nobody",
                "--regid=nogroup",
                "--clear-groups",
                python,
                "-m",
                "envmgr",
                *argv,
            ],
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/nonexistent",
                "ENVMGR_SITE": str(SITE / "site.yaml"),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if done.returncode:
            sys.exit(f"envmgr {' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout) if "json" in argv else None

    envmgr("lock", "--all")
    envmgr("build", "tool/1.0", "act/1.0")
    envmgr("build", "top/1.0", "toy/1.0")
    recipe = there / "site" / "recipes" / "tool" / "1.0" / "recipe.yaml"
    text = recipe.read_text()
    recipe.write_text(text.replace('"hello-prefix"', '"hello-prefix", "shared"'))
    envmgr("lock", "tool/1.0")
    envmgr("build", "tool/1.0")
    envmgr("rollback")
    shown = {
        entry: envmgr("show", entry, "--format", "json") for entry in ("tool/1.0", "act/1.0", "toy/1.0", "top/1.0")
    }
    return {
        "target": read_target("x86-64-v2").model_dump(),
        "digests": {entry: said["digest"] for entry, said in shown.items()},
        "installs": {entry: said["install"] for entry, said in shown.items()},
        "history": envmgr("history", "--format", "json"),
    }


def _sha256(path: Path) -> str:
    from envmgr.system.files import sha256_file

    return sha256_file(path)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Nobody's, and without what is large, or this machine's alone: tools, downloads, logs."""
    if any(f"{HOME.name}/envmgr/{part}" in member.name for part in ("easybuild/tools/", "cache/", "var/log/")):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("release")
    parser.add_argument("python", type=Path)
    parser.add_argument("--easybuild", type=Path)
    options = parser.parse_args()
    print(make(options.release, options.python.absolute(), options.easybuild))


if __name__ == "__main__":
    main()
