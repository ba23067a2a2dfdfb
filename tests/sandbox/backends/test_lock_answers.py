"""A lock answers its recipe: `lock --check`, `catalog check` and `build` refuse one of other packages, whatever its sidecar claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from envmgr.backends.conda.install_worker import require_answer
from envmgr.backends.conda.lock import CondaLock, FilesDiffer, LockedPackage
from envmgr.backends.conda.lockfile import read_lock as read_conda
from envmgr.backends.conda.models import CondaInput
from envmgr.backends.wheels.lock import WheelsLock
from tests.helpers.forged_locks import (
    ENTRY,
    forge_conda,
    forge_wheels,
    only_the_build_refuses,
    others,
    refused_everywhere,
)
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box


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


def test_wheels_of_another_version(scene: WheelBox) -> None:
    folder = wheels_entry(scene, "alpha==1.0")
    other = others(scene, "alpha==2.0")
    forge_wheels(folder, lambda lock: lock.model_copy(update={"wheels": other.wheels}))
    refused_everywhere(scene.box, "unanswered: the recipe needs `alpha==1.0`, the lock has alpha 2.0")


def test_a_wheel_more(scene: WheelBox) -> None:
    folder = wheels_entry(scene, "alpha==1.0")
    evil = others(scene, "evil").wheels
    forge_wheels(folder, lambda lock: lock.model_copy(update={"wheels": (*lock.wheels, *evil)}))
    refused_everywhere(scene.box, "evil 6.6 is in the lock, and neither the recipe nor another package needs it")


def test_a_wheel_less(scene: WheelBox) -> None:
    folder = wheels_entry(scene, "alpha==1.0")
    forge_wheels(folder, lambda lock: lock.model_copy(update={"wheels": lock.wheels[:1]}))
    refused_everywhere(scene.box, "alpha 1.0 needs `beta>=1`, which the lock lacks")


@pytest.mark.parametrize("claim", [("beta>=1", "evil"), None])
def test_sidecar_of_wheels_that_claims_a_need_is_found_by_the_build(
    scene: WheelBox, claim: tuple[str, ...] | None
) -> None:
    """`alpha needs evil`, or nothing said of what alpha needs."""
    folder = wheels_entry(scene, "alpha==1.0")
    evil = others(scene, "evil").wheels

    def change(lock: WheelsLock) -> WheelsLock:
        alpha = lock.wheels[0].model_copy(update={"requires": claim})
        return lock.model_copy(update={"wheels": (alpha, *lock.wheels[1:], *evil)})

    forge_wheels(folder, change)
    only_the_build_refuses(
        scene.box, "error[files-differ]", "evil 6.6 is in the lock, and neither the recipe nor another package needs it"
    )


def test_sidecar_of_wheels_that_hides_a_need_is_found_by_the_build(scene: WheelBox) -> None:
    folder = wheels_entry(scene, "alpha==1.0")

    def change(lock: WheelsLock) -> WheelsLock:
        return lock.model_copy(update={"wheels": (lock.wheels[0].model_copy(update={"requires": ()}),)})

    forge_wheels(folder, change)
    only_the_build_refuses(scene.box, "alpha 1.0 needs `beta>=1`, which the lock lacks")


def beside_conda(scene: WheelBox, *claim: str, wheels: Sequence[str]) -> None:
    """An entry of conda's Python and alpha, whose lock has these wheels, and whose sidecar says that alpha needs what is claimed."""
    for name, requires in (("alpha", ["beta>=1", "six"]), ("beta", []), ("evil", [])):
        scene.house.wheel(name, requires=requires)
    specs = [f"python {PYTHON}.*", "six"]
    locked = {}
    for entry, rows in (("other/1.0", ["evil", "alpha"]), (ENTRY, ["alpha"])):
        folder = scene.conda(entry, specs, *rows)
        scene.box.ok("lock", entry)
        added = read_conda(folder)[0].added
        assert added is not None
        locked |= added.by_name
    locked["alpha"] = locked["alpha"].model_copy(update={"requires": claim})
    changed = added.model_copy(update={"wheels": tuple(locked[name] for name in wheels), "assumed": {}})
    forge_conda(folder, lambda lock: dataclasses.replace(lock, added=changed))


@pytest.mark.parametrize(
    ("claim", "wheels", "told"),
    [
        (
            ("beta>=1", "evil"),
            ["alpha", "beta", "evil"],
            "evil 1.0 is in the lock, and neither the recipe nor another package needs it",
        ),
        (("six",), ["alpha"], "alpha 1.0 needs `beta>=1`, which the lock lacks"),
    ],
    ids=["more", "less"],
)
def test_sidecar_of_wheels_beside_conda_is_not_believed_by_the_build(
    scene: WheelBox, claim: tuple[str, ...], wheels: list[str], told: str
) -> None:
    """What conda's packages do not bring is missing; six, which they do bring, is not."""
    beside_conda(scene, *claim, wheels=wheels)
    only_the_build_refuses(scene.box, "error[files-differ]", f"  {told}\n")
    assert scene.box.leftovers() == []


def conda_entry(box: Sandbox, *specs: str, accept: dict[str, str] | None = None) -> Path:
    folder = box.recipe(ENTRY, [*specs], tests=[{"name": "t", "run": ":"}], **({"accept": accept} if accept else {}))
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


def test_a_conda_package_more(sandbox: Sandbox) -> None:
    folder = conda_entry(sandbox, "hello-prefix")
    more = packages(sandbox, "shared")
    forge_conda(folder, lambda lock: dataclasses.replace(lock, packages=(*lock.packages, *more)))
    refused_everywhere(sandbox, "is in the lock, and neither the recipe nor another package needs it")


def test_recipe_that_changed_under_an_entry_that_is_published(sandbox: Sandbox) -> None:
    """Its packages are there, and were built and checked for another recipe."""
    folder = conda_entry(sandbox, "hello-prefix")
    sandbox.ok("build", ENTRY)
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("hello-prefix", "hello-prefix >=99"))
    digest = CondaInput.model_validate(yaml.safe_load(recipe.read_text())["input"]).digest()
    forge_conda(folder, lambda lock: dataclasses.replace(lock, recipe_digest=digest))
    built = sandbox.run("build", ENTRY)
    assert (built.code, "unanswered: the recipe needs `hello-prefix >=99`" in built.stderr) == (2, True), built.stderr


def claiming(more: tuple[LockedPackage, ...]) -> Callable[[CondaLock], CondaLock]:
    """Each package of the recipe needs the first of `more`, as its sidecar says."""

    def change(lock: CondaLock) -> CondaLock:
        claims = [dataclasses.replace(p, depends=(*p.depends, "shared")) for p in lock.packages]
        return dataclasses.replace(lock, packages=(*claims, *more))

    return change


def test_sidecar_of_conda_that_claims_a_need_is_found_by_the_build(sandbox: Sandbox) -> None:
    folder = conda_entry(sandbox, "hello-prefix")
    forge_conda(folder, claiming(packages(sandbox, "shared")))
    only_the_build_refuses(
        sandbox, "error[files-differ]", "is in the lock, and no file of it needs that", "accept: {file-needs:"
    )


def test_need_that_the_channel_lists_can_be_accepted_by_name(sandbox: Sandbox) -> None:
    more = packages(sandbox, "shared")
    named = ", ".join(package.name for package in more)
    folder = conda_entry(sandbox, "hello-prefix", accept={"file-needs": f"{named}: the channel's patch adds them"})
    forge_conda(folder, claiming(more))
    assert "there is no such fault" not in sandbox.ok("lock", "--check", ENTRY).stdout
    sandbox.ok("build", ENTRY)


@pytest.mark.parametrize("change", [{}, {"name": "other"}, {"version": "2.0"}, {"build": "1"}, {"subdir": "linux-64"}])
def test_file_that_says_it_is_another_package_than_the_lock(channel: Channel, change: dict[str, str]) -> None:
    (path,) = channel.folder.glob("noarch/hello-prefix-*.conda")
    name, version, build = path.name.removesuffix(".conda").rsplit("-", 2)
    record = {"name": name, "version": version, "build": build, "subdir": "noarch", "file": path.name, **change}
    request = {"records": [record], "specs": [record["name"]], "virtual": [], "accepts": []}
    with pytest.raises(FilesDiffer) if change else nullcontext() as found:
        require_answer({record["name"]: path}, request)
    if found:
        said = " ".join(record[key] for key in ("name", "version", "build"))
        expected = f"{path.name} is {name} {version} {build} for noarch, the lock says {said} for {record['subdir']}"
        assert found.value.details == {"lines": [expected]}


def test_sidecar_whose_extras_have_no_end_is_a_fault_of_its_entry(scene: WheelBox) -> None:
    """Each extra asks all rows again: 53 kB took all memory of a host."""
    scene.house.wheel("alpha")
    folder = scene.entry(ENTRY, "alpha[e0]")
    scene.lock(ENTRY)
    rows = tuple(f"alpha[e{number + 1}]; extra == 'e{number}'" for number in range(3_000))
    forge_wheels(
        folder, lambda lock: lock.model_copy(update={"wheels": (lock.wheels[0].model_copy(update={"requires": rows}),)})
    )
    refused_everywhere(scene.box, "what alpha needs takes too long to follow")


@pytest.mark.parametrize("row", ["beta; os_name ~= 'x'", "beta; 'x' in extras"])
def test_sidecar_with_a_marker_that_says_nothing_stops_no_verb(scene: WheelBox, row: str) -> None:
    folder = wheels_entry(scene, "alpha")
    forge_wheels(
        folder,
        lambda lock: lock.model_copy(
            update={"wheels": (lock.wheels[0].model_copy(update={"requires": ("beta", row)}), *lock.wheels[1:])}
        ),
    )
    assert scene.box.run("catalog", "check", ENTRY).code == 0  # the row names what is there
    assert scene.box.run("lock", "--check", ENTRY).code == 0
    assert scene.box.run("build", "--dry-run", "--all").code == 0
    assert scene.box.run("build", ENTRY).code == 0
