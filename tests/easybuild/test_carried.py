"""EasyBuild itself, from a carried cache: fetched where there is a network, installed and used where there is none."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from envmgr.backends.easybuild.installation import Places, contents_sum
from envmgr.backends.easybuild.lock import DEFAULT_CONTENTS, DEFAULT_FILES, LOCK_NAME
from envmgr.backends.easybuild.settings import EASYBUILD
from envmgr.system.files import remove_tree
from tests.helpers.easybuild.debian_sources import SOURCES
from tests.helpers.easybuild.workshop import AM_ROOT, BUILD_USER, Workshop, make_workshop, ordinary_python, real_sources
from tests.helpers.places import CACHE
from tests.helpers.scenes import error_of
from tests.helpers.waiting import DEADLINE

NAMES = sorted(file.name for file in DEFAULT_FILES)
# The process itself stays who it is: only its network is another.
NO_NETWORK = ["unshare", "--net"] if AM_ROOT else ["unshare", "--user", "--map-current-user", "--net"]


@dataclass
class Island(Workshop):
    """A machine without a network, whose envmgr has no EasyBuild beside it, no mirror, and nothing in its cache."""

    def command(self, *argv: str) -> list[str]:
        return [*NO_NETWORK, str(self.root / "venv/bin/python"), "-m", "envmgr", *argv]

    def make_python(self) -> None:
        from uv import find_uv_bin

        ordinary = ordinary_python()
        (packages,) = ordinary.parent.parent.glob("lib/python3*/site-packages")
        venv, base = self.root / "venv", ordinary.resolve()
        subprocess.run([find_uv_bin(), "venv", "--quiet", "--offline", "--python", base, venv], check=True, umask=0o022)
        (own,) = venv.glob("lib/python3*/site-packages")
        (own / "beside.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")


@pytest.fixture
def island() -> Iterator[Island]:
    opened = make_workshop(sources={"mirrors": []})
    box = Island(opened.root, "", settings=opened.settings)
    box.make_python()
    yield box
    box.clear()
    remove_tree(box.root)


def counted(text: str) -> tuple[int, int, int]:
    """Files, those that were there, those that were fetched: of `fetch --format json` for one entry."""
    (row,) = json.loads(text)["entries"]
    return row["files"], row["present"], row["fetched"]


def edited(folder: Path, pattern: str, text: str) -> None:
    path = folder / LOCK_NAME
    before = path.read_text()
    path.write_text(re.sub(pattern, text, before, count=1))
    assert path.read_text() != before


def test_carried_cache_builds_bzip2_without_a_network_and_without_an_easybuild(island: Island) -> None:
    real_sources("bzip2")
    connected = make_workshop(sources={"mirrors": [str(CACHE / "sources")]})
    try:
        fetched = connected.ok("fetch", "bzip2/1.0", "--carry", "--format", "json")
        assert counted(fetched.stdout) == (5, 0, 5)
        shutil.copytree(connected.prefix / "cache", island.root / "carried")
    finally:
        connected.clear()
        remove_tree(connected.root)

    done = island.ok("fetch", "bzip2/1.0", "--file", str(island.root / "carried"), "--format", "json")
    assert counted(done.stdout) == (5, 0, 5)
    remove_tree(island.root / "carried")

    done = island.run("build", "bzip2/1.0", timeout=10 * DEADLINE)
    assert done.code == 0, done.stderr
    assert f"EasyBuild {EASYBUILD}: envmgr's own is not used: it has no easybuild-framework\n" in done.stderr
    home = island.prefix / "easybuild/tools" / EASYBUILD
    (packages,) = home.glob("lib/python3*/site-packages")
    assert contents_sum(Places(packages, home)) == DEFAULT_CONTENTS
    assert {path.name.partition("-")[0] for path in packages.glob("*.dist-info")} == {
        f"easybuild_{part}" for part in ("framework", "easyblocks", "easyconfigs")
    }
    assert island.shell("module load bzip2/1.0; bzip2 --help 2>&1 | head -n 1").stdout.startswith("bzip2, a block")
    if AM_ROOT:
        assert home.owner() == BUILD_USER


def test_build_without_the_files_names_each_with_its_sha256_and_where_to_put_it(island: Island) -> None:
    real_sources("bzip2")
    bzip2 = CACHE / "sources" / SOURCES["bzip2"].path
    island.ok("fetch", "bzip2/1.0", "--dry-run")
    done = island.run("fetch", "bzip2/1.0", "--file", str(bzip2))
    assert done.code == 3
    told = error_of(done, island)
    assert told.startswith(f"error[source-missing]: bzip2/1.0: {', '.join(NAMES)} are missing\n")
    for file in DEFAULT_FILES:
        assert f"  {file.name}:\n    sha256 {file.sha256}\n" in told
        assert f"\n  or put it at ROOT/prefix/cache/sources/{file.sha256}/{file.name}\n" in told
        assert (
            f"\n  or put it into a folder that sources.mirrors in site.yaml names, as e/EasyBuild/{file.name}\n" in told
        )
    assert told.endswith(
        "\n  or run `envmgr fetch --carry bzip2/1.0` on a machine with a network and the same catalog, bring the folder `cache` of its "
        "prefix, and run `envmgr fetch bzip2/1.0 --file /path/to/cache`"
    )
    built = island.run("build", "bzip2/1.0")
    assert (built.code, error_of(built, island).partition("\n  log: ")[0].splitlines()[0]) == (3, told.splitlines()[0])
    assert not (island.prefix / "easybuild/tools" / EASYBUILD).exists()


def test_fetch_leaves_out_the_easybuild_that_is_beside_envmgr_unless_it_is_carried(workshop: Workshop) -> None:
    workshop.toy()
    workshop.locked("toy/1.0", "toy-1.0.eb")
    plain = json.loads(workshop.ok("fetch", "toy/1.0", "--dry-run", "--format", "json").stdout)
    assert [file["name"] for file in plain["entries"][0]["missing"]] == ["toy-1.0.tar.gz"]
    carried = json.loads(workshop.ok("fetch", "toy/1.0", "--carry", "--dry-run", "--format", "json").stdout)
    assert [file["name"] for file in carried["entries"][0]["missing"]] == [
        "toy-1.0.tar.gz",
        *(f.name for f in DEFAULT_FILES),
    ]
    assert {file.sha256 for file in DEFAULT_FILES} == {file["sha256"] for file in carried["entries"][0]["missing"][1:]}


def test_source_of_easybuild_that_was_replaced_is_refused(workshop: Workshop) -> None:
    workshop.toy()
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    edited(folder, r"easybuild_sha256: \w+", f"easybuild_sha256: {'f' * 64}")
    name = f"easybuild_framework-{EASYBUILD}.tar.gz"
    place = workshop.root / "mirror/e/EasyBuild" / name
    place.parent.mkdir(parents=True)
    place.write_bytes(b"another\n")
    done = workshop.run("build", "toy/1.0")
    assert done.code == 3
    told = error_of(done, workshop)
    assert told.startswith("error[lock-stale]: ROOT/recipes/toy/1.0/easybuild-lock.yml does not match recipe.yaml\n")
    assert f"  easybuild_sha256: EasyBuild {EASYBUILD} was released as " in told
    given = workshop.run("fetch", "toy/1.0", "--file", str(place))
    assert given.code in (2, 3)
    assert not (workshop.prefix / "easybuild/tools" / EASYBUILD).exists()
    assert not [*workshop.prefix.glob(f"cache/sources/*/{name}")]
