"""The sha256 of EasyBuild: what changes it, what does not, and that the shipped locks name the one that is installed here."""

from __future__ import annotations

import compileall
import re
import shutil
from importlib.metadata import requires
from pathlib import Path

import pytest

from envmgr.backends.easybuild.installation import Places, contents_sum, own_places
from envmgr.backends.easybuild.lock import read_easybuild_lock, render_lock
from envmgr.backends.easybuild.settings import EASYBUILD
from envmgr.errors import InputError
from envmgr.system.files import sha256_bytes, shipped
from tests.helpers.easybuild.small_installation import DATA, EASYBLOCKS, FRAMEWORK, PACKAGES, write_easybuild

LOCKS = sorted(shipped("recipes").glob("*/*/easybuild-lock.yml"))


def test_sum_is_taken_over_the_text_that_is_written_down(tmp_path: Path) -> None:
    files = {**PACKAGES, **DATA}
    lines = sorted(
        [
            *(f"{name} {sha256_bytes(files[name])}" for name in files if name.endswith((".py", ".eb"))),
            *(f"easybuild/__init__.py {sha256_bytes(content)}" for content in (FRAMEWORK, EASYBLOCKS)),
        ]
    )
    text = "".join(f"{line}\n" for line in ["envmgr easybuild 1", *lines])
    assert len(lines) == 6
    assert contents_sum(write_easybuild(tmp_path)) == sha256_bytes(text.encode())


def test_sum_is_the_same_wherever_and_however_it_is_installed(tmp_path: Path) -> None:
    expected = contents_sum(write_easybuild(tmp_path / "a"))
    other = write_easybuild(tmp_path / "elsewhere/b", last=EASYBLOCKS, version="5.4.1.post1")
    assert compileall.compile_dir(other.packages, quiet=1)
    (other.home / "easybuild/easyconfigs/z/zlib/zlib-1.3.1_fix.patch").write_text("+++ b\n")
    (other.packages / "test/framework").mkdir(parents=True)
    (other.packages / "test/framework/toy.py").write_text("assert False\n")
    assert contents_sum(other) == expected
    shutil.copytree(other.home / "easybuild", other.packages / "easybuild", dirs_exist_ok=True)
    shutil.rmtree(other.home / "easybuild")
    assert contents_sum(Places(other.packages, other.packages)) == expected, "as pip --target has it"


@pytest.mark.parametrize(
    "change",
    [
        {"easybuild/main.py": b"print('be')\n"},
        {"easybuild/easyconfigs/z/zlib/zlib-1.3.1.eb": b"name = 'zlib' \n"},
        {"easybuild/easyblocks/own.py": b""},
        {"easybuild/easyconfigs/o/own/own-1.eb": b""},
        {"easybuild/__init__.py": b"# nobody's\n"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_sum_differs_when_a_file_does(tmp_path: Path, change: dict[str, bytes]) -> None:
    expected = contents_sum(write_easybuild(tmp_path / "a"))
    assert contents_sum(write_easybuild(tmp_path / "b", change=change)) != expected


def test_sum_differs_when_a_file_is_renamed_or_gone(tmp_path: Path) -> None:
    places = write_easybuild(tmp_path)
    sums = [contents_sum(places)]
    easyconfig = places.home / "easybuild/easyconfigs/z/zlib/zlib-1.3.1.eb"
    moved = easyconfig.rename(easyconfig.with_name("zlib-1.3.2.eb"))
    sums.append(contents_sum(places))
    moved.unlink()
    sums.append(contents_sum(places))
    assert len(set(sums)) == 3


def test_what_is_not_there_has_no_sum(tmp_path: Path) -> None:
    places = write_easybuild(tmp_path)
    shutil.rmtree(tmp_path / "easybuild")
    with pytest.raises(FileNotFoundError):
        contents_sum(places)


def test_dependency_is_the_version_that_recipes_are_locked_with() -> None:
    pinned = [line for line in requires("envmgr") or () if line.startswith("easybuild")]
    assert sorted(pinned) == sorted(
        f"easybuild-{part}=={EASYBUILD}" for part in ("easyblocks", "easyconfigs", "framework")
    )


def test_shipped_locks_name_the_easybuild_that_is_installed_with_envmgr() -> None:
    found = {read_easybuild_lock(path.parent)[0].easybuild_sha256 for path in LOCKS}
    assert len(LOCKS) == 12
    assert found == {contents_sum(own_places())}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_lock_without_the_sum_is_refused_and_with_it_is_written_as_it_was(path: Path, tmp_path: Path) -> None:
    assert render_lock(read_easybuild_lock(path.parent)[0]) == path.read_text()
    text, count = re.subn(r"^easybuild_sha256: [0-9a-f]{64}\n", "", path.read_text(), flags=re.MULTILINE)
    assert count == 1
    (tmp_path / path.name).write_text(text)
    with pytest.raises(InputError) as caught:
        read_easybuild_lock(tmp_path)
    assert (caught.value.reference, caught.value.context) == ("lock-invalid", ("easybuild_sha256: Field required",))
