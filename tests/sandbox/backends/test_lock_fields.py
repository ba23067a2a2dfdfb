"""Each field of a lock is held to the recipe, one by one, and what a source is built with to the source itself."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.conda.lockfile import SIDECAR_NAME
from envmgr.backends.conda.lockfile import read_lock as read_conda
from envmgr.backends.wheels.lock import WheelsLock
from envmgr.backends.wheels.lock import read_wheels_lock as read_wheels
from envmgr.wheels.locked import LockedSdist
from tests.helpers.builders import builders, compiled, pure
from tests.helpers.forged_locks import (
    ENTRY,
    forge_conda,
    forge_wheels,
    only_the_build_refuses,
    others,
    refused_everywhere,
)
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

Sdist = Callable[[LockedSdist], LockedSdist]
OTHER = "py3-none-manylinux_2_39_x86_64"


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


@pytest.fixture
def source(scene: WheelBox, tmp_path: Path) -> WheelBox:
    """`here` is there as source; evil says so when it runs."""
    scene.house.add(*builders())
    start = f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    scene.house.wheel("evil", "6.6", files={"evil.pth": start})
    scene.house.sdist("here", "1.0", pure("here"))
    return scene


def lock_source(scene: WheelBox, **given: Any) -> Path:
    folder = scene.entry(ENTRY, "here", build=["here"], **given)
    scene.box.ok("lock", ENTRY)
    return folder


def forge_source(folder: Path, change: Sdist) -> None:
    forge_wheels(folder, lambda lock: lock.model_copy(update={"sdists": tuple(map(change, lock.sdists))}))


def evil_among(scene: WheelBox) -> Sdist:
    evil = others(scene, "evil").wheels[0].model_copy(update={"url": None})

    def change(sdist: LockedSdist) -> LockedSdist:
        wheels = sorted((*sdist.build, evil), key=lambda wheel: wheel.name)
        return sdist.model_copy(update={"build": tuple(wheels)})

    return change


def test_what_builds_a_source_is_what_it_asks_for(source: WheelBox, tmp_path: Path) -> None:
    forge_source(lock_source(source), evil_among(source))
    refused_everywhere(
        source.box, "evil 6.6 is in the lock, and neither the build of here nor another package needs it"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("claims", [False, True], ids=["unsaid", "claimed"])
@pytest.mark.parametrize("files", [pure("here"), compiled("here")], ids=["file", "hook"])
def test_wheel_that_a_source_is_not_built_with_is_never_unpacked(
    source: WheelBox, tmp_path: Path, claims: bool, files: dict[str, str]
) -> None:
    """Whatever the sidecar says. The hook of the second one asks for `wheel`, and is asked before evil is there."""
    source.house.sdist("here", "1.0", files)
    folder, more = lock_source(source), evil_among(source)

    def change(sdist: LockedSdist) -> LockedSdist:
        assert sdist.asks is not None
        return more(sdist).model_copy(update={"asks": (*sdist.asks, "evil") if claims else None})

    forge_source(folder, change)
    only_the_build_refuses(
        source.box,
        "error[files-differ]",
        "evil 6.6 is in the lock, and neither the build of here nor another package needs it",
    )
    assert not (tmp_path / "ran").exists()
    assert source.box.leftovers() == []


@pytest.mark.parametrize(
    ("files", "gone", "told"),
    [
        (pure("here"), "flit-core", "the build of here needs `flit_core>=3`, which the lock lacks"),
        (compiled("here"), "wheel", "the build of here needs `wheel`, which the lock lacks"),
    ],
    ids=["file", "hook"],
)
def test_wheel_that_a_source_is_built_with_and_the_lock_lacks(
    source: WheelBox, files: dict[str, str], gone: str, told: str
) -> None:
    source.house.sdist("here", "1.0", files)
    folder = lock_source(source)

    def change(sdist: LockedSdist) -> LockedSdist:
        return sdist.model_copy(update={"build": tuple(w for w in sdist.build if w.name != gone), "asks": None})

    forge_source(folder, change)
    only_the_build_refuses(source.box, "error[files-differ]", told)


def test_older_lock_that_does_not_say_what_its_source_asks_for(source: WheelBox) -> None:
    """Nor what these wheels need: the build asks all the same."""
    source.house.sdist("here", "1.0", compiled("here"))
    folder = lock_source(source)

    def change(sdist: LockedSdist) -> LockedSdist:
        wheels = [wheel.model_copy(update={"requires": None}) for wheel in sdist.build]
        return sdist.model_copy(update={"build": tuple(wheels), "asks": None})

    forge_source(folder, change)
    assert source.box.run("lock", "--check", ENTRY).code == 0
    source.box.ok("build", ENTRY)


def test_patch_that_was_dropped(source: WheelBox) -> None:
    folder = source.entry(ENTRY, "here", build=["here"])
    patch = folder / "a.patch"
    patch.write_text('--- a/here.py\n+++ b/here.py\n@@ -1 +1 @@\n-VERSION = "1.0"\n+VERSION = "1.0p"\n')
    sha256 = hashlib.sha256(patch.read_bytes()).hexdigest()
    lock_source(source, patches=[{"file": "a.patch", "sha256": sha256}])
    forge_source(folder, lambda sdist: sdist.model_copy(update={"patches": ()}))
    refused_everywhere(source.box, f"patches of here: the recipe says a.patch {sha256[:8]}, the lock none")


@pytest.mark.parametrize("build", [["here"], []])
def test_source_and_wheel_are_not_exchanged(source: WheelBox, build: list[str]) -> None:
    """The recipe has it built, and the lock has a wheel; and the other way round."""
    source.entry("built/1.0", "here", build=["here"])
    source.box.ok("lock", "built/1.0")
    made = source.box.root / "recipes/built/1.0"
    source.house.wheel("here")
    ready, built = others(source, "here"), read_wheels(made)[0]
    folder = source.entry(ENTRY, "here", build=build)
    source.box.ok("lock", ENTRY)
    other = ready if build else built
    forge_wheels(folder, lambda lock: lock.model_copy(update={"sdists": other.sdists, "wheels": other.wheels}))
    told = (
        "the recipe has here built from its source, the lock does not"
        if build
        else "the lock has here 1.0 built from its source, the recipe does not"
    )
    refused_everywhere(source.box, f"unanswered: {told}")


@pytest.mark.parametrize("where", ["wheels", "build", "both kinds"])
def test_one_name_has_one_file(source: WheelBox, where: str) -> None:
    """Of two, METADATA of one would be looked at, and both unpacked."""
    folder = lock_source(source)
    source.house.wheel("here", files={"evil.pth": "import this\n"})
    here, evil = others(source, "here").wheels[0], others(source, "evil").wheels[0]

    def change(lock: WheelsLock) -> WheelsLock:
        if where == "build":
            sdist = lock.sdists[0]
            twice = (*sdist.build, evil.model_copy(update={"name": sdist.build[0].name}))
            return lock.model_copy(update={"sdists": (sdist.model_copy(update={"build": twice}),)})
        return lock.model_copy(update={"wheels": (here,) if where == "both kinds" else (evil, evil)})

    forge_wheels(folder, change)
    done = source.box.run("build", ENTRY)
    assert (done.code, "error[lock-invalid]" in done.stderr, "is locked twice" in done.stderr) == (2, True, True)


def other_file(scene: WheelBox, tag: str) -> dict[str, object]:
    """A wheel of the same version for another platform."""
    path = scene.house.wheel("alpha", tag=tag)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"file": path.name, "sha256": sha256, "size": path.stat().st_size, "url": None}


@pytest.mark.parametrize(
    ("fields", "wheel", "told"),
    [
        (
            {"platform": "x86_64-manylinux_2_39"},
            {},
            "platform: the recipe says x86_64-manylinux_2_28, the lock x86_64-manylinux_2_39",
        ),
        ({"exclude_newer": "2030-01-01"}, {}, "exclude_newer: the recipe says 2024-06-01, the lock 2030-01-01"),
        (
            {},
            {"uploaded": "2024-06-02T00:00:00Z"},
            "was uploaded at 2024-06-02T00:00:00Z, and the recipe says exclude_newer: 2024-06-01",
        ),
        ({}, {"uploaded": "soon"}, "`uploaded` is no time"),
    ],
    ids=["platform", "exclude_newer", "uploaded", "no time"],
)
def test_field_of_a_wheels_lock_that_was_changed(
    scene: WheelBox, fields: dict[str, object], wheel: dict[str, object], told: str
) -> None:
    scene.house.wheel("alpha")
    with scene.served():
        folder = scene.entry(ENTRY, "alpha", exclude_newer="2024-06-01")
        scene.box.ok("lock", ENTRY)
        forge_wheels(folder, lambda lock: changed(lock, fields, wheel))
        refused_everywhere(scene.box, told)


def changed(lock: WheelsLock, fields: dict[str, object], wheel: dict[str, object]) -> WheelsLock:
    return lock.model_copy(update={**fields, "wheels": (lock.wheels[0].model_copy(update=wheel),)})


def test_last_moment_of_the_day_is_not_too_new(scene: WheelBox) -> None:
    scene.house.wheel("alpha", uploaded="2024-06-01T23:59:59.000000Z")
    with scene.served():
        scene.entry(ENTRY, "alpha", exclude_newer="2024-06-01")
        scene.box.ok("lock", ENTRY)
        scene.box.ok("build", ENTRY)


@pytest.mark.parametrize("tag", [OTHER, "py3-none-win_amd64", "cp27-none-any", "cp311-cp311-manylinux_2_17_aarch64"])
def test_wheel_for_another_python_or_platform(scene: WheelBox, tag: str) -> None:
    scene.house.wheel("alpha")
    folder = scene.entry(ENTRY, "alpha")
    scene.box.ok("lock", ENTRY)
    file = other_file(scene, tag)
    forge_wheels(folder, lambda lock: changed(lock, {}, file))
    refused_everywhere(scene.box, f"alpha-1.0-{tag}.whl is not for Python {PYTHON} on x86_64-manylinux_2_28")


def test_wheel_for_another_platform_under_another_name(scene: WheelBox) -> None:
    """The index has it by its own name: the lock's is nowhere."""
    scene.house.wheel("alpha")
    with scene.served():
        folder = scene.entry(ENTRY, "alpha")
        scene.box.ok("lock", ENTRY)
        file = {**other_file(scene, "py2.py3-none-any"), "file": "alpha-1.0-py3-none-any.whl"}
        (scene.house.files / "alpha-1.0-py3-none-any.whl").unlink()
        scene.house.write()
        forge_wheels(folder, lambda lock: changed(lock, {}, file))
        done = scene.box.run("build", ENTRY)
        assert (done.code, "error[not-found]: alpha-1.0-py3-none-any.whl is not at" in done.stderr) == (3, True)


def test_prerelease_that_the_recipe_does_not_ask_for(scene: WheelBox) -> None:
    scene.house.wheel("alpha")
    folder = scene.entry(ENTRY, "alpha")
    scene.box.ok("lock", ENTRY)
    scene.house.wheel("alpha", "2.0rc1")
    other = others(scene, "alpha==2.0rc1")
    forge_wheels(folder, lambda lock: lock.model_copy(update={"wheels": other.wheels}))
    refused_everywhere(scene.box, "alpha 2.0rc1 is a pre-release, and nothing asks for one")


def test_python_of_a_lock_decides_nothing(scene: WheelBox) -> None:
    """A row of METADATA that counts for the Python that is there counts, whatever the lock says of its patch release."""
    scene.house.wheel("alpha", requires=["beta; python_full_version < '3.11.90'"])
    scene.house.wheel("beta")
    folder = scene.entry(ENTRY, "alpha", python=f"system/{PYTHON}")
    scene.box.ok("lock", ENTRY)
    forge_wheels(folder, lambda lock: changed(lock, {"python": f"{PYTHON}.99"}, {}))
    refused_everywhere(scene.box, 'alpha 1.0 needs `beta; python_full_version < "3.11.90"`, which the lock lacks')


@pytest.mark.parametrize(
    ("fields", "tag", "told"),
    [
        (
            {"platform": "x86_64-manylinux_2_39"},
            "",
            "platform: the recipe says x86_64-manylinux_2_28, the lock x86_64-manylinux_2_39",
        ),
        ({"exclude_newer": "2024-06-01"}, "", "exclude_newer: the recipe says nothing, the lock 2024-06-01"),
        ({}, OTHER, f"alpha-1.0-{OTHER}.whl is not for Python {PYTHON} on x86_64-manylinux_2_28"),
    ],
    ids=["platform", "exclude_newer", "tag"],
)
def test_field_of_wheels_beside_conda_that_was_changed(
    scene: WheelBox, fields: dict[str, object], tag: str, told: str
) -> None:
    scene.house.wheel("alpha")
    folder = scene.conda(ENTRY, [f"python {PYTHON}.*"], "alpha")
    scene.box.ok("lock", ENTRY)
    added = read_conda(folder)[0].added
    assert added is not None
    file = other_file(scene, tag) if tag else {}
    if tag:
        file["url"] = f"index:house/{file['file']}"
    wheels = (added.wheels[0].model_copy(update=file),)
    forge_conda(
        folder, lambda lock: dataclasses.replace(lock, added=added.model_copy(update={**fields, "wheels": wheels}))
    )
    refused_everywhere(scene.box, told)


@pytest.mark.parametrize("sidecar", [True, False])
def test_conda_packages_for_another_platform(sandbox: Sandbox, sidecar: bool) -> None:
    folder = sandbox.recipe(ENTRY, ["hello-prefix"])
    sandbox.ok("lock", ENTRY)

    def change(lock: Any) -> Any:
        packages = [
            dataclasses.replace(
                p, subdir="linux-aarch64", noarch=None, url=p.url.replace("/noarch/", "/linux-aarch64/")
            )
            for p in lock.packages
        ]
        return dataclasses.replace(lock, platform="linux-aarch64", packages=tuple(packages))

    forge_conda(folder, change)
    if not sidecar:
        (folder / SIDECAR_NAME).unlink()
    refused_everywhere(sandbox, "is for linux-aarch64, the recipe for linux-64")


def test_word_of_a_reason_accepts_nothing(sandbox: Sandbox) -> None:
    """Names count up to the colon, and no others."""
    sandbox.recipe("other/1.0", ["shared"])
    sandbox.ok("lock", "other/1.0")
    more = read_conda(sandbox.root / "recipes/other/1.0")[0].packages
    for reason in ("left: the patch of the shared channel adds it", "the patch of the shared channel adds it"):
        folder = sandbox.recipe(ENTRY, ["hello-prefix"], accept={"file-needs": reason})
        sandbox.ok("lock", ENTRY)

        def change(lock: Any) -> Any:
            claims = [dataclasses.replace(p, depends=(*p.depends, "shared")) for p in lock.packages]
            return dataclasses.replace(lock, packages=(*claims, *more))

        forge_conda(folder, change)
        only_the_build_refuses(
            sandbox, "error[files-differ]", 'say so in recipe.yaml: `accept: {file-needs: "NAMES: why"}`'
        )
