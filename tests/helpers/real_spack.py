"""A real Spack for `make test-spack`: `$SPACK` is a checkout, `$SPACK_PYTHON` a Python with clingo. Nothing is written into the checkout.

Sources come from Debian's source packages and the package index, into one folder, which the sites of the tests name as a mirror.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.helpers.easybuild.debian_sources import sourcepath
from tests.helpers.places import CACHE
from tests.helpers.sandbox import Sandbox

OWN = CACHE / "spack"
SOURCES = OWN / "sources"
TIMEOUT = 3600.0  # seconds, for one command on a busy machine


def checkout() -> Path:
    return Path(os.environ["SPACK"])


def site_settings() -> dict[str, Any]:
    """`backends.spack`: the tools of this system, and the Python of these tests, are not built."""
    folder = OWN / "config"
    folder.mkdir(parents=True, exist_ok=True)
    python = f"python@{platform.python_version()}"
    rows = {"gmake": ("gmake@4.3", "/usr"), "diffutils": ("diffutils@3.8", "/usr"), "python": (python, sys.base_prefix)}
    packages = {
        name: {"externals": [{"spec": spec, "prefix": prefix}], "buildable": False}
        for name, (spec, prefix) in rows.items()
    }
    (folder / "packages.yaml").write_text(json.dumps({"packages": packages}))
    # The indexes of its packages take a minute, and are the same for all tests.
    (folder / "config.yaml").write_text(json.dumps({"config": {"misc_cache": str(OWN / "indexes")}}))
    return {"spack": str(checkout()), "config": str(folder), "python": os.environ["SPACK_PYTHON"]}


def spack_site(box: Sandbox) -> None:
    """Let the sandbox's site have this Spack, and a mirror of sources that a test can cut off."""
    mirror = box.root / "mirror"
    mirror.mkdir()
    box.settings |= {
        "sources": {"mirrors": [mirror.as_uri()], "upstream": False},
        "backends": {"spack": site_settings()},
    }
    box.write_site()


def bring_sources(box: Sandbox, entry: str) -> Path:
    """Put into the mirror what the lock of `entry` names; return the mirror."""
    SOURCES.mkdir(parents=True, exist_ok=True)
    for source in locked_sources(box, entry):
        package, _, version = source["package"].removeprefix("py-").partition("@")
        name = source["urls"][0].rpartition("/")[2]
        if not (SOURCES / name).exists():
            if package == "bzip2":
                shutil.copy(sourcepath("bzip2") / "b/bzip2" / name, SOURCES)
            else:
                _from_index(f"{package}=={version}", wheel=name.endswith(".whl"))
        shutil.copy(SOURCES / name, box.root / "mirror")
    return box.root / "mirror"


def locked_sources(box: Sandbox, entry: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((box.root / "recipes" / entry / "spack-lock.yml").read_text())[
        "sources"
    ]
    return found


def _from_index(requirement: str, *, wheel: bool) -> None:
    kind = ["--only-binary", ":all:"] if wheel else ["--no-binary", ":all:"]
    words = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        *kind,
        "--dest",
        str(SOURCES),
        requirement,
    ]
    subprocess.run(words, check=True, timeout=TIMEOUT)


def install_tree(box: Sandbox, entry: str, folder: Path) -> Path:
    """Let this Spack install what the lock of `entry` has, as a site does that uses it without envmgr; return the tree."""
    env, tree, mirror = folder / "env", folder / "tree", folder / "mirror"
    env.mkdir(parents=True)
    recipe = json.loads((box.root / "recipes" / entry / "recipe.yaml").read_text())
    (env / "spack.yaml").write_text(
        json.dumps(
            {
                "spack": {
                    "specs": recipe["input"]["specs"],
                    "view": False,
                    "concretizer": {"unify": True},
                    "mirrors:": {"here": mirror.as_uri()},
                    "config": {
                        "install_tree": {"root": str(tree), "projections": {"all": "{name}/{version}-{hash:8}"}},
                        "source_cache": str(folder / "sources"),
                        "build_stage": [str(folder / "stage")],
                    },
                }
            }
        )
    )
    shutil.copy(box.root / "recipes" / entry / "spack.lock", env)
    for source in locked_sources(box, entry):
        place = mirror / source["place"]
        place.parent.mkdir(parents=True)
        shutil.copy(SOURCES / source["urls"][0].rpartition("/")[2], place)
    spack(folder, "install", "--only-concrete", "--no-cache")
    return tree


def spack(folder: Path, *words: str) -> str:
    """Run a command of Spack on the environment in `folder`, with nothing of the user's own."""
    argv = ["/bin/sh", "-c", spack_line(folder, *words)]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def spack_line(folder: Path, *words: str) -> str:
    """The same as one line of shell, for a recipe."""
    own = site_settings()
    settings = {
        "SPACK_PYTHON": own["python"],
        "SPACK_USER_CONFIG_PATH": folder / "user",
        "SPACK_SYSTEM_CONFIG_PATH": folder / "system",
        "SPACK_USER_CACHE_PATH": folder / "cache",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    argv = (f"{own['spack']}/bin/spack", "-C", own["config"], "-e", str(folder / "env"), *words)
    return shlex.join(["env", *(f"{name}={value}" for name, value in settings.items()), *argv])


def changed_files() -> list[str]:
    """The files of the checkout that git sees as changed or new, ignored ones too."""
    argv = ["git", "-c", f"safe.directory={checkout()}", "-C", str(checkout()), "status", "--porcelain", "--ignored"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
