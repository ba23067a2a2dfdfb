from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
from pydantic import ValidationError

from envmgr.catalog.site import Target, read_target
from tests.helpers.wording import one_of

ROCKY = 'NAME="Rocky Linux"\nVERSION="9.4 (Blue Onyx)"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'


def read(tmp_path: Path, text: str) -> Target:
    path = tmp_path / "os-release"
    path.write_bytes(text.encode("latin-1"))
    return read_target("x86-64-v3", path)


@pytest.mark.parametrize(
    ("text", "os_id", "os_major"),
    [
        (ROCKY, "rocky", "9"),
        ("ID=ubuntu\nVERSION_ID='24.04'\n", "ubuntu", "24"),
        ("ID=debian\nVERSION_ID=12", "debian", "12"),
        ("# ID=no\nID=arch\nBUILD_ID=rolling\n", "arch", "0"),
        ("", "linux", "0"),
        ('NAME="\xff\xfe"\nID=odd\nVERSION_ID="1.2.3"\n', "odd", "1"),
    ],
)
def test_read_target_takes_id_and_major_version_of_os_release(
    tmp_path: Path, text: str, os_id: str, os_major: str
) -> None:
    target = read(tmp_path, text)
    assert (target.os_id, target.os_major) == (os_id, os_major)


def test_read_target_stands_without_an_os_release(tmp_path: Path) -> None:
    target = read_target("x86-64", tmp_path / "missing")
    assert (target.os_id, target.os_major) == ("linux", "0")


def test_read_target_takes_the_cpu_level_from_the_site_never_from_the_host(tmp_path: Path) -> None:
    assert {level: read_target(level, tmp_path / "x").cpu_level for level in ("x86-64", "x86-64-v4", "aarch64")} == {
        "x86-64": "x86-64",
        "x86-64-v4": "x86-64-v4",
        "aarch64": "aarch64",
    }


def test_read_target_knows_this_host() -> None:
    target = read_target("x86-64-v2")
    assert target.arch == platform.machine() == os.uname().machine
    name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    assert (name, version) == ("glibc", target.glibc)


def test_target_refuses_a_level_that_does_not_exist() -> None:
    with pytest.raises(ValidationError, match=one_of("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")):
        Target(arch="x86_64", cpu_level="x86-64-v9", os_id="rocky", os_major="9", glibc="2.34")
