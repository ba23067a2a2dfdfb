"""A lock that somebody else wrote installs what it says was asked for, from the site's indexes, or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from envmgr.people.lock import UserLock, lock_text, read_lock
from envmgr.system.files import remove_tree, sha256_file
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
    made.house.wheel("einops", "0.9", tag="cp39-cp39-win32")
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def run(box: Sandbox, *argv: str) -> Done:
    return box.run("user", *argv, HOME=str(box.root))


@pytest.fixture(scope="module")
def honest(scene: WheelBox) -> UserLock:
    done = run(scene.box, "create", "honest", "--on", ENTRY, "on-six", "einops")
    assert done.code == 0, done.stderr
    return read_lock(scene.box.root / ".local/share/envmgr/envs/honest/wheels.lock")


def sha256(scene: WheelBox, file: str) -> str:
    return sha256_file(scene.house.files / file)


def made_from(box: Sandbox, text: str) -> Done:
    """Make an environment from a lock; if it is refused, nothing of it is left."""
    file = box.root / "theirs-wheels.lock"
    file.write_text(text)
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
        ("index", "lock-foreign", "index other"),
        ("name", "not-found", "einops 0.7 is not at"),
        ("version", "lock-invalid", "einops-0.7-py3-none-any.whl is no wheel of einops 0.8 for Python"),
        ("base", "lock-invalid", f"six would take the place of that of {ENTRY}, and the lock does not say so"),
        ("twice", "lock-invalid", "einops is locked twice"),
        ("python", "lock-invalid", "it is for Python 3.9.1"),
        ("tag", "lock-invalid", "einops-0.9-cp39-cp39-win32.whl is no wheel of einops 0.9 for Python"),
    ],
)
def test_lock_of_somebody_else_is_held_to_what_it_says(
    scene: WheelBox, honest: UserLock, forgery: str, reference: str, said: str
) -> None:
    text = lock_text(honest)
    (row,) = (line for line in text.splitlines() if line.startswith("einops=="))
    sum_ = f"--hash=sha256:{sha256(scene, 'einops-0.7-py3-none-any.whl')}"
    assert row == f"einops==0.7 {sum_}"
    old, new = {
        "less": (f"{row}\n", ""),
        "url": (row, f"einops @ http://host.invalid/evil/einops-0.7-py3-none-any.whl {sum_}"),
        "index": ("# indexes: ", "# indexes: other, "),
        "name": (row, f"einops==0.7 --hash=sha256:{sha256(scene, 'evil-1.0-py3-none-any.whl')}"),
        "version": (row, f"einops==0.8 {sum_}"),
        "base": (row, f"{row}\nsix==99.0 --hash=sha256:{sha256(scene, 'six-99.0-py3-none-any.whl')}"),
        "twice": (row, f"{row}\n{row}"),
        "python": ("# python: ", "# python: 3.9.1\n# once: "),
        "tag": (row, f"einops==0.9 --hash=sha256:{sha256(scene, 'einops-0.9-cp39-cp39-win32.whl')}"),
    }[forgery]
    assert old in text
    done = made_from(scene.box, text.replace(old, new))
    assert (done.code in (2, 3), f"error[{reference}]" in done.stderr, said in done.stderr) == (True, True, True), (
        done.stderr
    )


def test_honest_lock_is_taken(scene: WheelBox, honest: UserLock) -> None:
    done = made_from(scene.box, lock_text(honest))
    assert done.code == 0, done.stderr
    assert run(scene.box, "delete", "theirs").code == 0
