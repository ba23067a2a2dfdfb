"""`build --again` of EasyBuild's installs: at their own path, which nobody else sees until it is whole; their modules, too."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from envmgr.store.prefix import Install, Prefix
from tests.helpers.easybuild.leftovers import nothing_left
from tests.helpers.easybuild.paused_build import release, signs, slow, wait_until_it_compiles
from tests.helpers.easybuild.workshop import TOY_MAKEFILE, Workshop
from tests.helpers.marks import LATER
from tests.helpers.scenes import data, no_processes, tamper

# Of each build the program tells another number, where the mirror says so: as of compilers that write the time.
RANDOM = TOY_MAKEFILE.replace("\tcp toy", "\tod -An -N8 -tx1 /dev/urandom >$(PREFIX)/bin/seed\n\tcp toy")


@pytest.fixture
def box(workshop: Workshop) -> Workshop:
    return workshop


def install(box: Workshop, label: str) -> Install:
    (found,) = [item for item in box.items() if item.startswith(label)]
    return Prefix(box.prefix).install_at(f"store/{found}")


def module(found: Install) -> Path:
    return found.prefix.root / "easybuild/modules" / found.entry.name / f"{found.label}.lua"


def built(box: Workshop, name: str, version: str = "1.0", **fields: object) -> Install:
    box.toy(name, version, **fields)  # type: ignore[arg-type]
    box.locked(f"{name}/{version}", f"{name}-{version}.eb")
    box.ok("build", f"{name}/{version}")
    return install(box, f"{name}/{version}")


def test_install_is_built_again_in_its_place_with_its_module(box: Workshop) -> None:
    """It stands on another version of its own name, which must be there while it is built."""
    old = built(box, "toy")
    new = built(box, "toy", "2.0", builddependencies=[("toy", "1.0")])
    text, manifest, inode = module(new).read_text(), new.manifest.read_bytes(), (old.path / "bin/toy").stat().st_ino
    tamper(new.path / "bin/toy", "#!/bin/sh\necho poison\n")
    (new.path / "bin").chmod(0o755)
    (new.path / "bin/more").write_text("more")
    module(new).chmod(0o644)
    module(new).write_text(f"{text}-- and more\n")
    dry = box.run("build", "--again", "toy/2.0", "--dry-run", "--format", "json")
    assert (dry.code, [each["path"] for each in dry.data["installs"]]) == (0, [new.relative])
    with (new.path / "bin/toy").open() as running:
        done = data(box, "build", "--again", "toy/2.0")
        assert running.read() == "#!/bin/sh\necho poison\n"
    assert [(each["path"], each["outcome"]) for each in done["installs"]] == [(new.relative, "replaced")]
    assert (done["generation"], box.run("verify").code) == (None, 0)
    assert (module(new).read_text(), new.manifest.read_bytes()) == (text, manifest)
    assert (old.path / "bin/toy").stat().st_ino == inode
    assert box.shell("module load toy/2.0; toy").stdout == "toy 2.0\n"
    assert nothing_left(box) == []
    assert box.leftovers() == []


@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGTERM, id="stopped", marks=LATER), pytest.param(signal.SIGKILL, id="killed")]
)
def test_build_that_does_not_end_leaves_what_is_there(box: Workshop, how: signal.Signals) -> None:
    signs(box).mkdir()
    signs(box).chmod(0o777)
    release(box, "toy")
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    box.ok("build", "toy/1.0")
    found = install(box, "toy")
    tamper(found.path / "bin/toy", "poison")
    before = (module(found).read_text(), found.manifest.read_bytes())
    for sign in signs(box).iterdir():
        sign.unlink()
    process = box.start("build", "--again", "toy/1.0")
    wait_until_it_compiles(box)
    process.send_signal(how)
    process.communicate()
    no_processes(box)
    assert (found.path / "bin/toy").read_text() == "poison"
    assert (module(found).read_text(), found.manifest.read_bytes()) == before
    release(box, "toy")
    if how == signal.SIGKILL:
        box.ok("gc")
    assert nothing_left(box) == []
    assert box.leftovers() == []
    box.ok("build", "--again", "toy/1.0")
    assert box.shell("module load toy/1.0; toy").stdout == "toy 1.0\n"


def test_build_that_never_makes_the_same_bytes_gets_a_new_manifest_and_a_generation(box: Workshop) -> None:
    found = built(box, "toy", files={"Makefile": RANDOM})
    before = json.loads(found.manifest.read_text())
    tamper(found.path / "bin/toy", "poison")
    done = data(box, "build", "--again", "toy/1.0")
    (made,) = done["installs"]
    assert (made["outcome"], made["other"], done["generation"]) == ("renewed", ["bin/seed: sha256 changed"], 2)
    after = json.loads(found.manifest.read_text())
    assert (after["digest"], after["facts"]) == (before["digest"], before["facts"])
    assert after["tree"] != before["tree"]
    assert box.ok("verify").code == 0
    assert box.shell("module load toy/1.0; toy").stdout == "toy 1.0\n"
    sound = box.run("build", "--again", "toy/1.0", "--format", "json")
    assert (sound.code, [each["outcome"] for each in sound.data["installs"]]) == (1, ["differs"])
    assert json.loads(found.manifest.read_text()) == after
