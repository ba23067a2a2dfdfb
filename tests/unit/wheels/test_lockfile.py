"""The file wheels.lock: what is written is read, by pip and uv too, and what is not one file each is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uv import find_uv_bin

from envmgr.errors import InputError
from envmgr.wheels.lockfile import LockedRow, LockedWheels, read_wheels, wheels_text

URL = "https://wheels.example/v1/flash_attn-2.8.3%2Bcu12torch2.5-cp311-cp311-linux_x86_64.whl"
ROWS = (
    LockedRow(name="flash-attn", version="2.8.3+cu12torch2.5", sha256="a" * 64, url=URL),
    LockedRow(name="six", version="1.16.0", sha256="b" * 64),
)
LOCK = LockedWheels(
    recipe="d" * 64,
    python="3.11.7",
    platform="x86_64-manylinux_2_28",
    indexes=("own", "pypi"),
    exclude_newer="2026-11-22",
    size=9876,
    rows=ROWS,
)
TEXT = f"""\
# Written by envmgr; pip and uv read it. Lock again instead of editing.
# recipe: {"d" * 64}
# python: 3.11.7
# platform: x86_64-manylinux_2_28
# indexes: own, pypi
# exclude-newer: 2026-11-22
# files: 2, 9876 bytes
# envmgr: {{"base": "python/3.11"}}
flash-attn @ {URL} --hash=sha256:{"a" * 64}
six==1.16.0 --hash=sha256:{"b" * 64}
"""


def test_lock_is_written_sorted_and_read_as_it_was_written() -> None:
    shuffled = LOCK.model_copy(update={"rows": ROWS[::-1]})
    assert wheels_text(shuffled, {"envmgr": '{"base": "python/3.11"}'}) == TEXT
    lock, header = read_wheels(TEXT, "wheels.lock")
    assert lock == LOCK
    assert header["envmgr"] == '{"base": "python/3.11"}'
    assert lock.identity() == [["flash-attn", "2.8.3+cu12torch2.5", "a" * 64], ["six", "1.16.0", "b" * 64]]
    assert lock.describe() == {"flash-attn": "2.8.3+cu12torch2.5 aaaaaaaa", "six": "1.16.0 bbbbbbbb"}


NAMES = st.lists(st.from_regex(r"[a-z0-9]{1,4}(-[a-z0-9]{1,3})?", fullmatch=True), unique=True, max_size=5)


@given(NAMES, st.none() | st.integers(0), st.sampled_from(["", "e" * 64]))
def test_any_lock_is_read_as_it_was_written(names: list[str], size: int | None, recipe: str) -> None:
    rows = tuple(LockedRow(name=name, version="1!2.0rc1+x_1", sha256="c" * 64) for name in sorted(names))
    lock = LockedWheels(recipe=recipe, python="3.12", platform="aarch64-manylinux_2_17", size=size, rows=rows)
    assert read_wheels(wheels_text(lock), "it")[0] == lock


HEAD = "# python: 3.11\n# platform: x86_64-manylinux_2_28\n"
SUM = f"--hash=sha256:{'b' * 64}"


@pytest.mark.parametrize(
    ("row", "reference", "message"),
    [
        ("six==1.16.0", "lock-unhashed", "it:3: not one sha256"),
        (f"six==1.16.0 {SUM} {SUM}", "lock-unhashed", "it:3: not one sha256"),
        ("six==1.16.0 --hash=md5:00", "lock-unhashed", "it:3: not one sha256"),
        (f"six>=1 {SUM}", "lock-invalid", "it:3: not `name==version --hash=sha256:…`"),
        (f"Six==1 {SUM}", "lock-invalid", "it:3: not `name==version --hash=sha256:…`"),
        ("--index-url https://own.example", "lock-invalid", "it:3: not `name==version --hash=sha256:…`"),
        (f"-r other {SUM}", "lock-invalid", "it:3: not `name==version --hash=sha256:…`"),
        (f"other @ {URL} {SUM}", "lock-invalid", "it:3: not the URL of a wheel of other"),
        (f"six @ https://me:pw@own.example/six-1-py3-none-any.whl {SUM}", "lock-invalid", "it:3: not the URL of a wheel of six"),
        (f"six @ git+https://own.example/six {SUM}", "lock-invalid", "it:3: not the URL of a wheel of six"),
        (f"six==1 {SUM}\nsix==2 {SUM}", "lock-invalid", "it: six is locked twice"),
    ],
)  # fmt: skip
def test_row_is_one_package_with_one_sha256(row: str, reference: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        read_wheels(f"{HEAD}{row}\n", "it")
    assert (raised.value.reference, raised.value.message) == (reference, message)
    assert raised.value.hint == "lock again instead of editing it"


def test_header_says_what_the_lock_is_for() -> None:
    with pytest.raises(InputError) as raised:
        read_wheels(f"# platform: windows\nsix==1 {SUM}\n", "it")
    assert raised.value.message == "it: its header does not say what the lock is for"
    assert [line.partition(":")[0] for line in raised.value.context] == ["# python", "# platform"]


def test_uv_reads_the_lock_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "wheels.lock"
    place.write_text(TEXT.replace("flash-attn @", "# flash-attn @"))
    words = ["pip", "compile", "--no-config", "--offline", "--no-deps", "--no-index", "--find-links", str(tmp_path)]
    done = subprocess.run([find_uv_bin(), *words, place], capture_output=True, text=True, check=False)
    assert "Because six was not found in the provided package locations" in " ".join(done.stderr.split())
