"""`build:` of a wheels recipe: a package is built from its source, locked as the others are, twice, without a network."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.helpers.builders import builders, compiled, pure
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "some/1.0"


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    made = make_wheel_box(sandbox)
    made.house.add(*builders())
    return made


def sidecar(scene: WheelBox) -> dict[str, dict[str, object]]:
    data = json.loads((scene.box.root / "recipes" / ENTRY / "wheels.lock.json").read_text())
    return {sdist["name"]: sdist for sdist in data["sdists"]}


def manifest(scene: WheelBox) -> dict[str, object]:
    root = scene.install(ENTRY)
    return json.loads((root.parent / f"{root.name}.manifest.json").read_text())


def test_source_becomes_a_part_of_the_install(scene: WheelBox) -> None:
    """The newest that fits; what it needs comes as wheels; the record has its wheel."""
    scene.house.sdist("here", "1.0", pure("here"))
    sdist = scene.house.sdist("here", "1.5", pure("here", "1.5", ("dep>=1",)))
    scene.house.sdist("here", "2.0", pure("here", "2.0"))
    scene.house.wheel("here", "1.5")
    scene.house.wheel("dep")
    folder = scene.entry(ENTRY, "here<2", build=["here"])
    assert scene.lock(ENTRY) == {"dep": "1.0", "here": "1.5"}
    sha256 = hashlib.sha256(sdist.read_bytes()).hexdigest()
    text = (folder / "wheels.lock").read_text()
    flit = next(p for p in builders() if p.name.startswith("flit"))
    assert text.splitlines()[3:] == [
        "# here is built from here-1.5.tar.gz, with",
        f"#   flit-core==3.12.0 --hash=sha256:{hashlib.sha256(flit.read_bytes()).hexdigest()}",
        f"here==1.5 --hash=sha256:{sha256}",
    ]
    scene.box.ok("build", ENTRY)
    (made,) = manifest(scene)["provenance"]["made"]
    assert (made["wheel"], made["sdist_sha256"], made["network"]) == ("here-1.5-py2.py3-none-any.whl", sha256, "none")
    loaded = scene.box.shell(f"module load {ENTRY} && python -c 'import here, dep; print(here.VERSION, dep.VERSION)'")
    assert (loaded.stderr, loaded.stdout) == ("", "1.5 1.0\n")
    assert not list((scene.install(ENTRY) / f"lib/python{PYTHON}/site-packages").glob("flit*"))


def test_extension_in_c_and_what_its_build_asks_for(scene: WheelBox) -> None:
    scene.house.sdist("fast", "1.0", compiled("fast"))
    scene.entry(ENTRY, "fast", build=["fast"], python=scene.base())
    scene.lock(ENTRY)
    assert [wheel["name"] for wheel in sidecar(scene)["fast"]["build"]] == ["setuptools", "wheel"]
    scene.box.ok("build", ENTRY)
    loaded = scene.box.shell(f"module load {ENTRY} && python -c 'import fast; print(fast.answer())'")
    assert (loaded.stderr, loaded.stdout) == ("", "42\n")
