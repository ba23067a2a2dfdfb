"""Which EasyBuild builds: the one beside envmgr without a network, or a private one that is what the lock says."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.backends.easybuild.installation import EasyBuild, Places, contents_sum
from envmgr.backends.easybuild.lock import LOCK_NAME
from envmgr.backends.easybuild.settings import EASYBUILD
from envmgr.system.files import remove_tree
from envmgr.system.run import Runner
from tests.helpers.easybuild.easybuild_wheels import environ_of, write_wheels
from tests.helpers.easybuild.workshop import Workshop, easybuild_home
from tests.helpers.scenes import error_of

NO_NETWORK = {
    "UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple",
    "UV_INDEX": "",
    "UV_FIND_LINKS": "",
    "UV_NO_CACHE": "1",
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
}
BUNDLE = "easybuild/easyblocks/generic/bundle.py"
UNFILED = "the lock does not name EasyBuild's files: a private one comes from the package index; `envmgr lock toy/1.0` adds them"


def places_in(home: Path) -> Places:
    return Places(next(home.glob("lib/python3*/site-packages")), home)


def lock_says(folder: Path) -> str:
    found = re.findall(r"^easybuild_sha256: ([0-9a-f]{64})$", (folder / LOCK_NAME).read_text(), re.MULTILINE)
    return found[0] if found else ""


def write_sum(folder: Path, contents: str) -> None:
    """Another one than `envmgr lock` wrote; and no files, as where no index could be asked."""
    path = folder / LOCK_NAME
    line = f"easybuild_sha256: {contents}\n"
    without = re.sub(r"^easybuild_files:\n(?:[- ].*\n)+", "", path.read_text(), flags=re.MULTILINE)
    path.write_text(re.sub(r"^easybuild_sha256: .*\n", line, without, flags=re.MULTILINE))


def private(box: Workshop) -> Path:
    return box.prefix / "easybuild/tools" / EASYBUILD


@pytest.fixture(scope="module")
def wheels() -> Iterator[Path]:
    """Of an EasyBuild that differs from envmgr's own in one comment; where the build user can read them."""
    bundle = (places_in(easybuild_home()).packages / BUNDLE).read_bytes()
    folder = Path(tempfile.mkdtemp(prefix="ev.", dir="/tmp"))
    folder.chmod(0o755)
    yield write_wheels(folder / "wheels", change={BUNDLE: bundle + b"# another\n"})
    remove_tree(folder)


def test_build_with_the_easybuild_beside_envmgr_needs_no_network(workshop: Workshop) -> None:
    workshop.toy()
    folder = workshop.entry("toy/1.0", "toy-1.0.eb")
    workshop.ok("lock", "toy/1.0", **NO_NETWORK)
    assert lock_says(folder) == contents_sum(places_in(easybuild_home()))
    done = workshop.ok("build", "toy/1.0", **NO_NETWORK)
    assert workshop.shell("module load toy/1.0; toy").stdout == "toy 1.0\n"
    assert "EasyBuild 5.4.1" not in done.stderr
    assert not private(workshop).exists()


def test_easybuild_that_is_not_the_lock_s_is_left_for_the_one_that_is(workshop: Workshop, wheels: Path) -> None:
    workshop.toy()
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    own, wrong = lock_says(folder), "f" * 64
    write_sum(folder, wrong)
    assert workshop.ok("lock", "toy/1.0", "--check").stdout == f"toy/1.0: fresh  2 packages\n  note: {UNFILED}\n"
    done = workshop.run("build", "toy/1.0", **environ_of(wheels))
    assert done.code == 3
    assert f"EasyBuild 5.4.1: envmgr's own is not used: its sha256 is {own}, the lock says {wrong}\n" in done.stderr
    (found,) = re.findall(r"sha256 ([0-9a-f]{64}) was installed", done.stderr) or [done.stderr]
    assert error_of(done, workshop).startswith(
        "error[easybuild-differs]: EasyBuild 5.4.1 is not what the lock says\n"
        "  ROOT/prefix/easybuild/tools/5.4.1\n"
        f"  sha256 {wrong} was locked\n"
        f"  sha256 {found} was installed\n"
    )
    assert found not in (own, wrong)
    assert not private(workshop).exists()
    assert workshop.items() == []

    write_sum(folder, found)
    done = workshop.ok("build", "toy/1.0", **environ_of(wheels))
    assert [line for line in done.stderr.splitlines() if "EasyBuild" in line and "log" not in line] == [
        f"toy/1.0: {UNFILED}",
        f"EasyBuild 5.4.1: envmgr's own is not used: its sha256 is {own}, the lock says {found}",
        *[line for line in done.stderr.splitlines() if line.startswith("EasyBuild 5.4.1 install: done in ")],
    ]
    assert contents_sum(places_in(private(workshop))) == found
    assert workshop.shell("module load toy/1.0; toy").stdout == "toy 1.0\n"

    installed = workshop.items()
    workshop.ok("lock", "toy/1.0")
    assert lock_says(folder) == own
    assert "nothing to do" in workshop.ok("build", "toy/1.0", **NO_NETWORK).stdout
    assert workshop.items() == installed


def test_index_that_cannot_be_reached_is_told_with_the_reason_to_need_it(workshop: Workshop) -> None:
    workshop.toy()
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    own, wrong = lock_says(folder), "f" * 64
    write_sum(folder, wrong)
    done = workshop.run("build", "toy/1.0", **NO_NETWORK)
    assert done.code == 3
    assert f"EasyBuild 5.4.1: envmgr's own is not used: its sha256 is {own}, the lock says {wrong}\n" in done.stderr
    assert error_of(done, workshop).startswith("error[easybuild-unavailable]: EasyBuild 5.4.1 could not be installed\n")
    assert error_of(done, workshop).endswith(
        "hint: it comes from the Python package index: is that reachable, or UV_DEFAULT_INDEX set to a mirror, or UV_FIND_LINKS to a "
        "folder that has it and what builds it, with UV_NO_INDEX=1?\n"
        "  `envmgr lock toy/1.0` writes EasyBuild's files into the lock, and `envmgr fetch` brings them then"
    )
    assert not private(workshop).exists()


def test_easybuild_sees_nothing_of_envmgr_s_other_packages(tmp_path: Path) -> None:
    """rich would wrap its messages, archspec would name the build host's CPU, a start-up file (.pth) would run."""
    home = easybuild_home()
    tool = EasyBuild(home / "bin/python", places_in(home), EASYBUILD, Path("/nonexistent/lmod"))
    script = tmp_path / "ask.py"
    script.write_text(
        "import importlib, json, sys, sysconfig\n"
        "sysconfig.get_config_vars()\n"  # a module of the standard library that is not among its names
        "from easybuild.tools.version import VERSION\n"
        "def has(name):\n"
        "    try:\n"
        "        return bool(importlib.import_module(name))\n"
        "    except ModuleNotFoundError:\n"
        "        return False\n"
        "names = ['rich', 'archspec', 'envmgr', 'yaml', 'xml.etree', 'easybuild.easyblocks.generic.bundle']\n"
        "print(json.dumps([str(VERSION), sys.argv[1:], {name: has(name) for name in names}]))\n"
    )
    done = Runner().run(tool.argv(script, "a", "b"), env=tool.environment(), cwd=tmp_path)
    assert json.loads(done.stdout) == [
        EASYBUILD,
        ["a", "b"],
        {
            "rich": False,
            "archspec": False,
            "envmgr": False,
            "yaml": False,
            "xml.etree": True,
            "easybuild.easyblocks.generic.bundle": True,
        },
    ]
    own = Runner().run([home / "bin/python", "-c", "import rich, archspec, envmgr, yaml"])
    assert own.returncode == 0
