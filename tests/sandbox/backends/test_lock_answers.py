"""A lock meets its recipe: `lock --check`, `check` and `build` refuse one of other packages. One that was changed
in other ways, with its sidecar, is found by `lock --check`, which solves again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from envmgr.backends.conda.lock import CondaLock, LockedPackage
from envmgr.backends.conda.lockfile import read_lock as read_conda
from tests.helpers.builders import builders, pure
from tests.helpers.forged_locks import ENTRY, forge_conda, forge_wheels, others, refused_everywhere
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

AGAIN = f"  hint: `envmgr lock {ENTRY}` writes it again\n"


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


def wheels_entry(scene: WheelBox, *requirements: str) -> Path:
    """alpha needs beta; evil stands alone."""
    scene.house.wheel("alpha", "1.0", requires=["beta>=1"])
    scene.house.wheel("alpha", "2.0", requires=["beta>=1"])
    scene.house.wheel("beta", "1.0")
    scene.house.wheel("evil", "6.6")
    folder = scene.entry(ENTRY, *requirements)
    scene.lock(ENTRY)
    return folder


def checked(box: Sandbox) -> str:
    done = box.run("lock", "--check", ENTRY)
    assert done.code == (0 if "fresh" in done.stdout else 1), done.stderr
    return done.stdout.partition("  note: ")[0]


def test_wheels_of_another_version(scene: WheelBox) -> None:
    folder = wheels_entry(scene, "alpha==1.0")
    other = others(scene, "alpha==2.0")
    forge_wheels(folder, lambda lock: lock.model_copy(update={"rows": other}))
    refused_everywhere(scene.box, "unanswered: the recipe needs `alpha==1.0`, the lock has alpha 2.0")


def test_wheels_that_a_solver_would_not_choose(scene: WheelBox) -> None:
    """One more, and one less. A newer version of the index is no fault."""
    folder = wheels_entry(scene, "alpha==1.0")
    scene.house.wheel("beta", "2.0")
    assert checked(scene.box) == f"{ENTRY}: fresh  2 packages\n"
    new, gone = others(scene, "beta")[0], others(scene, "evil")[0]
    forge_wheels(folder, lambda lock: lock.model_copy(update={"rows": (lock.rows[0], gone)}))
    assert checked(scene.box) == (
        f"{ENTRY}: faulty  2 packages  (a solver chooses other packages for the recipe)\n"
        f"  + beta 2.0 {new.sha256[:8]}\n  - evil 6.6 {gone.sha256[:8]}\n{AGAIN}"
    )


def test_wheels_that_do_not_fit_together(scene: WheelBox) -> None:
    folder = wheels_entry(scene, "alpha==1.0")
    scene.house.wheel("beta", "0.5")
    other = others(scene, "beta==0.5")
    forge_wheels(folder, lambda lock: lock.model_copy(update={"rows": (lock.rows[0], *other)}))
    said = checked(scene.box)
    assert said.startswith(f"{ENTRY}: faulty  2 packages  (its packages do not fit together: "), said
    assert said.endswith(AGAIN)


def test_sources_are_taken_as_the_lock_has_them(scene: WheelBox) -> None:
    """None is built, and the index need not have what builds it."""
    scene.house.add(*builders())
    scene.house.sdist("here", "1.0", pure("here"))
    scene.entry(ENTRY, "here", build=["here"])
    scene.box.ok("lock", ENTRY)
    for each in scene.house.files.glob("flit*"):
        each.unlink()
    scene.house.write()
    assert checked(scene.box) == f"{ENTRY}: fresh  1 package\n"


def test_wheels_beside_conda_that_a_solver_would_not_choose(scene: WheelBox) -> None:
    scene.house.wheel("alpha", requires=["beta>=1", "six"])
    scene.house.wheel("beta")
    folder = scene.conda(ENTRY, [f"python {PYTHON}.*", "six"], "alpha")
    scene.box.ok("lock", ENTRY)
    scene.house.wheel("beta", "2.0")
    scene.house.wheel("beta", "1.0", {"more.py": ""}, build="1")  # another file of the locked version
    assert ": fresh" in checked(scene.box)

    def change(lock: CondaLock) -> CondaLock:
        assert lock.added is not None
        return dataclasses.replace(lock, added=lock.added.model_copy(update={"rows": lock.added.rows[:1]}))

    forge_conda(folder, change)
    assert "  + beta 2.0 " in checked(scene.box)


def conda_entry(box: Sandbox, *specs: str) -> Path:
    folder = box.recipe(ENTRY, [*specs], tests=[{"name": "t", "run": ":"}])
    box.ok("lock", ENTRY)
    return folder


def packages(box: Sandbox, *specs: str) -> tuple[LockedPackage, ...]:
    folder = box.recipe("other/1.0", [*specs])
    box.ok("lock", "other/1.0")
    return read_conda(folder)[0].packages


def test_conda_packages_of_another_recipe(sandbox: Sandbox) -> None:
    folder = conda_entry(sandbox, "hello-prefix")
    other = packages(sandbox, "left")
    forge_conda(folder, lambda lock: dataclasses.replace(lock, packages=other))
    refused_everywhere(sandbox, "unanswered: the recipe needs `hello-prefix`, which the lock lacks")


def claiming(more: tuple[LockedPackage, ...]) -> Callable[[CondaLock], CondaLock]:
    """Each package of the recipe needs the first of `more`, as its sidecar says."""

    def change(lock: CondaLock) -> CondaLock:
        claims = [dataclasses.replace(p, depends=(*p.depends, "shared")) for p in lock.packages]
        return dataclasses.replace(lock, packages=(*claims, *more))

    return change


def test_conda_packages_that_a_solver_would_not_choose(sandbox: Sandbox) -> None:
    folder = conda_entry(sandbox, "hello-prefix")
    assert checked(sandbox) == f"{ENTRY}: fresh  1 package\n"
    more = packages(sandbox, "shared")
    forge_conda(folder, claiming(more))
    gone = "".join(f"  - {package.name} {package.version} {package.build}\n" for package in more)
    assert checked(sandbox) == (
        f"{ENTRY}: faulty  2 packages  (a solver chooses other packages for the recipe)\n{gone}{AGAIN}"
    )


def test_conda_package_that_no_channel_has(sandbox: Sandbox) -> None:
    folder = conda_entry(sandbox, "hello-prefix")
    forge_conda(
        folder,
        lambda lock: dataclasses.replace(
            lock,
            packages=tuple(
                dataclasses.replace(p, version="99", url=p.url.replace(f"-{p.version}-", "-99-")) for p in lock.packages
            ),
        ),
    )
    assert checked(sandbox).startswith(f"{ENTRY}: faulty  1 package  (its packages do not fit together: ")
