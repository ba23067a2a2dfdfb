"""Installs of the layout before Pythons were marked: they stay in use, with all that stands on them, until their lock changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from envmgr.backends.easybuild.backend import EasyBuildBackend, LoadedEasyBuildLock
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem
from envmgr.catalog.names import Entry
from envmgr.catalog.site import Site, Target, load_site
from envmgr.steps.resolved import LockInstalls, ResolvedEntry
from envmgr.store.manifest import InstallFacts, Manifest, write_manifest
from envmgr.store.prefix import Install, Item

TARGET = Target(arch="x86_64", cpu_level="x86-64-v2", os_id="rocky", os_major="9", glibc="2.34")
PYTHON, ZLIB = "Python/3.11.2", "zlib/1.3"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "site.yaml").write_text(json.dumps({"prefix": str(tmp_path / "prefix")}))
    return load_site(tmp_path / "site.yaml", {})


def locked(name: str, *, depends: tuple[str, ...] = (), build: tuple[str, ...] = (), text: str = "a") -> LockedItem:
    software, version = name.split("/")
    return LockedItem(
        name=software,
        version=version,
        easyconfig=f"{software}-{version}.eb",
        origin="catalog",
        sha256=text * 64,
        depends=depends,
        build_depends=build,
    )


def chain(site: Site, *items: LockedItem) -> dict[str, Item]:
    content = EasyBuildLock(
        recipe="", framework="5.4.1", easyblocks="5.4.1", easybuild_sha256="0" * 64, rpath=False, items=items
    )
    lock = LoadedEasyBuildLock(
        backend=EasyBuildBackend(), entry=Entry("entry", "1.0"), sha256="", packages={}, content=content
    )
    return {str(item.install.entry): item for item in lock.items(site, TARGET)}


def before(site: Site, *items: LockedItem) -> dict[str, Item]:
    """What the release before would have named them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EasyBuildBackend, "layout", 1)
        return chain(site, *items)


def put(*items: Item) -> None:
    for item in items:
        item.install.path.mkdir(parents=True)
        write_manifest(item.install.manifest, Manifest(item.install.digest, "0" * 64, 0o022, InstallFacts(), {}, ()))


def paths(items: dict[str, Item]) -> list[Install]:
    return [item.install for item in items.values()]


def of_older_layout(items: dict[str, Item]) -> list[str]:
    return [name for name, item in items.items() if item.install.of_older_layout]


APP = (locked(ZLIB), locked(PYTHON, depends=(ZLIB,)), locked("app/1.0", depends=(PYTHON, ZLIB)))
# What only the build of something below needs.
TOOL = (locked(PYTHON), locked("Meson/1.1", build=(PYTHON,)), locked("tool/1.0", build=("Meson/1.1", PYTHON)))


@pytest.mark.parametrize("name", ["Python", "Anaconda3", "Miniconda3", "Miniforge3"])
def test_fresh_prefix_has_the_new_layout_of_pythons_and_of_nothing_else(site: Site, name: str) -> None:
    python = f"{name}/3.11.2"
    items = (locked(ZLIB), locked(python, depends=(ZLIB,)), locked("app/1.0", depends=(python,)))
    now, old = chain(site, *items), before(site, *items)
    assert {key: item.install.layout for key, item in now.items()} == {ZLIB: 1, python: 2, "app/1.0": 1}
    assert now[ZLIB].install == old[ZLIB].install
    assert now[python].install != old[python].install
    assert now["app/1.0"].install != old["app/1.0"].install  # its files name the Python below it
    assert of_older_layout(now) == []


def test_conda_environment_has_the_new_layout_whatever_its_name(site: Site) -> None:
    named = locked("QIIME2/2022.11")
    now = chain(site, named.model_copy(update={"python": True}))
    assert [item.install.layout for item in (*now.values(), *chain(site, named).values())] == [2, 1]


def test_what_is_there_stays_with_all_that_stands_on_it(site: Site) -> None:
    old = before(site, *APP)
    put(*old.values())
    now = chain(site, *APP)
    assert paths(now) == paths(old)
    assert [item.needs for item in now.values()] == [item.needs for item in old.values()]
    assert of_older_layout(now) == [PYTHON]


def test_old_python_that_only_a_build_needed_may_be_gone(site: Site) -> None:
    """`gc` takes it. The install that was built by it keeps its name all the same."""
    old = before(site, *TOOL)
    put(old["tool/1.0"])
    assert paths(chain(site, *TOOL)) == paths(old)
    old["tool/1.0"].install.manifest.unlink()
    now = chain(site, *TOOL)
    assert [each in paths(old) for each in paths(now)] == [False, False, False]
    assert now[PYTHON].install.layout == 2


@pytest.mark.parametrize(("wanted", "told"), [(APP, True), (TOOL, False)], ids=["runs with it", "was built by it"])
def test_entry_is_told_of_an_old_python_that_it_runs_with(
    site: Site, wanted: tuple[LockedItem, ...], told: bool
) -> None:
    put(*before(site, *wanted).values())
    items = tuple(chain(site, *wanted).values())
    assert ResolvedEntry(*[cast("Any", None)] * 4, (LockInstalls(cast("Any", None), items),)).of_older_layout is told


def test_old_python_that_went_missing_under_an_install_is_made_again_as_it_was(site: Site) -> None:
    old = before(site, *APP)
    put(old[ZLIB], old["app/1.0"])
    now = chain(site, *APP)
    assert paths(now) == paths(old)
    assert now[PYTHON].install.layout == 1


def test_another_entry_is_built_on_the_python_that_is_there(site: Site) -> None:
    old = before(site, *APP)
    put(old[ZLIB], old[PYTHON])
    other = (*APP[:2], locked("other/1.0", depends=(PYTHON,)))
    now = chain(site, *other)
    assert now[PYTHON].install == old[PYTHON].install
    assert of_older_layout(now) == [PYTHON]
    assert paths(now) == paths(before(site, *other))


def test_changed_lock_gets_the_new_layout(site: Site) -> None:
    put(*before(site, *APP).values())
    items = (APP[0], locked(PYTHON, depends=(ZLIB,), text="b"), APP[2])
    now = chain(site, *items)
    assert now[PYTHON].install.layout == 2
    assert of_older_layout(now) == []


def test_install_of_the_new_layout_stays_when_an_old_python_comes_back(site: Site) -> None:
    now = chain(site, *APP)
    put(*now.values())
    put(before(site, *APP)[PYTHON])
    assert paths(chain(site, *APP)) == paths(now)
    assert of_older_layout(chain(site, *APP)) == []


def test_install_on_pythons_of_both_layouts_stays_when_only_its_build_needed_them(site: Site) -> None:
    """One Python was there, of the old layout, for another entry's sake; the second was built. `gc` takes both."""
    two = "Python/2.7.18"
    items = (locked(PYTHON), locked(two), locked("app/1.0", build=(PYTHON, two)))
    old = before(site, items[0])
    put(old[PYTHON])
    now = chain(site, *items)
    assert [item.install.layout for item in now.values()] == [1, 2, 1]
    put(now[two], now["app/1.0"])
    for python in (old[PYTHON], now[two]):
        python.install.manifest.unlink()
    assert paths(chain(site, *items)) == paths(now)


def test_what_an_old_python_built_is_not_built_anew_below_an_edited_entry(site: Site) -> None:
    """`gc` took the Python. It alone is made again, as it was; all of the store above it keeps its name."""
    below = (locked(PYTHON), locked("lib/1.0", build=(PYTHON,)), locked("more/1.0", depends=("lib/1.0",)))
    old = before(site, *below, locked("app/1.0", depends=("more/1.0",)))
    put(old["lib/1.0"], old["more/1.0"], old["app/1.0"])
    edited = (*below, locked("app/1.0", depends=("more/1.0",), text="b"))
    now = chain(site, *edited)
    assert paths(now)[:3] == paths(old)[:3]
    put(now[PYTHON], now["app/1.0"])
    now[PYTHON].install.manifest.unlink()
    assert paths(chain(site, *edited)) == paths(now)
