"""The lock of a user environment: one text for one content, read as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.pylock import Pylock

from envmgr.errors import EnvmgrError
from envmgr.people.lock import UserLock, lock_text, read_lock
from envmgr.wheels.locked import LockedWheel, WheelSet

WHEEL = LockedWheel(
    name="einops",
    version="0.7",
    file="einops-0.7-py3-none-any.whl",
    sha256="ab" * 32,
    index="house",
    size=3,
    requires=("six>=1",),
    url="index:house/einops-0.7-py3-none-any.whl",
)
LOCK = UserLock(
    on="sci/1.0",
    base="cd" * 32,
    requirements=("einops",),
    replaced=("six",),
    editable=("/home/alice/own",),
    wheels=WheelSet(python="3.11.7", platform="x86_64-manylinux_2_28", uv="0.13", wheels=(WHEEL,)),
)


def test_lock_comes_back_and_is_a_pylock_by_the_specification(tmp_path: Path) -> None:
    path = tmp_path / "pylock.toml"
    path.write_text(lock_text(LOCK))
    assert read_lock(path) == LOCK
    import tomllib

    read = Pylock.from_dict(tomllib.loads(path.read_text()))
    assert [(p.name, str(p.version)) for p in read.packages] == [("einops", "0.7")]


@pytest.mark.parametrize("found", ["2", '"1"', "true"])
def test_another_format_is_refused_by_name(tmp_path: Path, found: str) -> None:
    path = tmp_path / "pylock.toml"
    path.write_text(lock_text(LOCK).replace("schema = 1", f"schema = {found}"))
    with pytest.raises(EnvmgrError) as caught:
        read_lock(path)
    assert caught.value.reference == "format-unknown"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("ab" * 32, "ab"),
        lambda text: text.replace('sha256 = "', 'md5 = "'),
        lambda text: text.replace("tool.envmgr", "tool.other"),
        lambda text: text.replace("packages", "package"),
        lambda text: text[:200],
        lambda text: text.replace('requirements = ["einops"]', "requirements = 3"),
        lambda text: text.replace("cd" * 32, "CD" * 32),
        lambda _: "[[",
        lambda _: "",
        lambda _: "x = '\u202e'",
    ],
)
def test_damaged_lock_is_an_error_of_the_house(tmp_path: Path, change: object) -> None:
    path = tmp_path / "pylock.toml"
    path.write_text(change(lock_text(LOCK)))  # type: ignore[operator]
    with pytest.raises(EnvmgrError) as caught:
        read_lock(path)
    assert caught.value.reference == "lock-invalid"


def test_content_is_that_of_the_packages_and_not_of_what_was_asked_for() -> None:
    assert LOCK.content == LOCK.model_copy(update={"requirements": ("einops>0",)}).content
    assert LOCK.content != LOCK.model_copy(update={"base": "ef" * 32}).content
