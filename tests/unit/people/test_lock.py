"""The lock of a user environment: one text for one content, read as it was written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envmgr.errors import EnvmgrError
from envmgr.people.lock import UserLock, lock_text, read_lock
from envmgr.wheels.lockfile import LockedRow, LockedWheels

LOCK = UserLock(
    on="sci/1.0",
    base="cd" * 32,
    requirements=("einops",),
    replaced=("six",),
    editable=("/home/alice/own",),
    wheels=LockedWheels(
        python="3.11.7",
        platform="x86_64-manylinux_2_28",
        indexes=("pypi",),
        size=3,
        rows=(LockedRow(name="einops", version="0.7", sha256="ab" * 32),),
    ),
)
LINE = (
    f'# envmgr: {{"schema": 1, "on": "sci/1.0", "base": "{"cd" * 32}", "requirements": ["einops"], '
    '"replaced": ["six"], "editable": ["/home/alice/own"]}'
)


def test_lock_is_a_wheels_lock_with_one_more_line_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "wheels.lock"
    path.write_text(lock_text(LOCK))
    assert path.read_text().splitlines()[-2:] == [LINE, f"einops==0.7 --hash=sha256:{'ab' * 32}"]
    assert read_lock(path) == LOCK


@pytest.mark.parametrize("found", ["2", '"1"', "true"])
def test_another_format_is_refused_by_name(tmp_path: Path, found: str) -> None:
    path = tmp_path / "wheels.lock"
    path.write_text(lock_text(LOCK).replace('"schema": 1', f'"schema": {found}'))
    with pytest.raises(EnvmgrError) as caught:
        read_lock(path)
    assert caught.value.reference == "format-unknown"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace(LINE, ""), "it lacks the line `# envmgr: {…}`"),
        (lambda text: text.replace(LINE, LINE[:-1]), "Expecting ',' delimiter"),
        (lambda text: text.replace(LINE, "# envmgr: " + "[" * 100_000), "nested too deep"),
        (lambda text: text.replace('["einops"]', "3"), "requirements Input should be a valid tuple"),
        (lambda text: text.replace("cd" * 32, "CD" * 32), "base String should match pattern"),
        (lambda text: text.replace('"/home', '"home'), "editable.0 String should match pattern"),
        (lambda text: text.replace("# python: ", "# snake: "), "# python: "),
        (lambda _: "x = '\u202e'", "not `name==version --hash=sha256:…`"),
    ],
)
def test_damaged_lock_is_an_error_of_the_house(tmp_path: Path, change: object, said: str) -> None:
    path = tmp_path / "wheels.lock"
    path.write_text(change(lock_text(LOCK)))  # type: ignore[operator]
    with pytest.raises(EnvmgrError) as caught:
        read_lock(path)
    assert caught.value.reference == "lock-invalid"
    assert said in re.sub(r"\\n\s*", " ", caught.value.render())


def test_content_is_that_of_the_packages_and_not_of_what_was_asked_for() -> None:
    assert LOCK.content == LOCK.model_copy(update={"requirements": ("einops>0",)}).content
    assert LOCK.content != LOCK.model_copy(update={"base": "ef" * 32}).content
