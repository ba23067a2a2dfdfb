"""A lock that somebody else wrote installs what it says was asked for, from the site's indexes, or nothing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

import pytest

from envmgr.people.lock import UserLock, lock_text, read_lock
from envmgr.system.files import remove_tree
from envmgr.wheels.locked import LockedWheel
from tests.helpers.done import Done
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "sci/1.0"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    box = Sandbox(tmp_path_factory.mktemp("locks"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    made.index(pypi=made.house.simple.as_uri())
    box.recipe(ENTRY, [f"python {PYTHON}.*", "six"])
    box.ok("lock", ENTRY)
    box.ok("build", ENTRY)
    made.house.wheel("einops", "0.7")
    made.house.wheel("on-six", requires=["six>=1"])
    made.house.wheel("evil")
    made.house.wheel("six", "99.0")
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def run(box: Sandbox, *argv: str) -> Done:
    return box.run("user", *argv, HOME=str(box.root))


@pytest.fixture(scope="module")
def honest(scene: WheelBox) -> UserLock:
    done = run(scene.box, "create", "honest", "--on", ENTRY, "on-six", "einops")
    assert done.code == 0, done.stderr
    return read_lock(scene.box.root / ".local/share/envmgr/envs/honest/pylock.toml")


def wheel(scene: WheelBox, file: str, **fields: object) -> LockedWheel:
    name, version = file.split("-")[:2]
    sha256 = hashlib.sha256((scene.house.files / file).read_bytes()).hexdigest()
    return LockedWheel(name=name, version=version, file=file, sha256=sha256, index="pypi").model_copy(update=fields)


def with_wheels(lock: UserLock, *wheels: LockedWheel) -> UserLock:
    return lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"wheels": wheels})})


def made_from(box: Sandbox, lock: UserLock) -> Done:
    """Make an environment from a lock; if it is refused, nothing of it is left."""
    file = box.root / "theirs.toml"
    file.write_text(lock_text(lock))
    done = run(box, "create", "theirs", "--from-lock", str(file))
    folder = box.root / ".local/share/envmgr/envs"
    if done.code:
        assert not os.path.lexists(folder / "theirs")
        assert [each.name for each in (folder / ".envmgr").rglob("*theirs*") if each.suffix != ".lock"] == []
    return done


@pytest.mark.parametrize(
    ("forgery", "reference", "said"),
    [
        ("less", "lock-invalid", "what was asked for needs `einops`, which the lock lacks"),
        ("url", "lock-foreign", "http://host.invalid/evil/einops-0.7-py3-none-any.whl"),
        ("file", "lock-foreign", "file:///etc/einops-0.7-py3-none-any.whl"),
        ("index", "lock-foreign", "index other"),
        ("version", "lock-invalid", "einops-0.7-py3-none-any.whl is no file of einops 0.8"),
        ("name", "lock-invalid", "evil-1.0-py3-none-any.whl is no file of einops 1.0"),
        ("base", "lock-invalid", f"six would take the place of that of {ENTRY}, and the lock does not say so"),
        ("twice", "lock-invalid", "einops is in it 2 times"),
        ("python", "lock-invalid", "it is for Python 3.9.1"),
        ("tag", "lock-invalid", "einops-0.7-cp39-cp39-win32.whl is not for Python"),
    ],
)
def test_lock_of_somebody_else_is_held_to_what_it_says(
    scene: WheelBox, honest: UserLock, forgery: str, reference: str, said: str
) -> None:
    einops, on_six = honest.wheels.wheels
    assert (einops.name, on_six.name) == ("einops", "on-six")
    file = einops.file
    forged = {
        "less": (on_six,),
        "url": (einops.model_copy(update={"index": "", "url": f"http://host.invalid/evil/{file}"}), on_six),
        "file": (einops.model_copy(update={"index": "", "url": f"file:///etc/{file}"}), on_six),
        "index": (einops.model_copy(update={"index": "other"}), on_six),
        "version": (einops.model_copy(update={"version": "0.8"}), on_six),
        "name": (wheel(scene, "evil-1.0-py3-none-any.whl", name="einops"), on_six),
        "base": (einops, on_six, wheel(scene, "six-99.0-py3-none-any.whl")),
        "twice": (einops, einops, on_six),
        "tag": (einops.model_copy(update={"file": "einops-0.7-cp39-cp39-win32.whl"}), on_six),
    }
    lock = with_wheels(honest, *forged.get(forgery, honest.wheels.wheels))
    if forgery == "python":
        lock = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"python": "3.9.1"})})
    done = made_from(scene.box, lock)
    assert (done.code, f"error[{reference}]" in done.stderr, said in done.stderr) == (2, True, True), done.stderr


def test_honest_lock_is_taken(scene: WheelBox, honest: UserLock) -> None:
    done = made_from(scene.box, honest)
    assert done.code == 0, done.stderr
    assert run(scene.box, "delete", "theirs").code == 0
