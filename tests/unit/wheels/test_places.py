"""What a lock says of where a wheel lies, and which platform uv is told."""

from __future__ import annotations

import pytest

from envmgr.wheels.settings import PUBLIC_FILES, index_of, locked_url
from envmgr.wheels.uv import _nearest

SUM = f"/packages/ab/cd/{'e' * 60}"


@pytest.mark.parametrize(
    ("index", "url", "locked"),
    [
        ("pypi", f"{PUBLIC_FILES}{SUM}/one-1.0.whl", f"{PUBLIC_FILES}{SUM}/one-1.0.whl"),
        ("pypi", f"http://mirror.example.org/root/pypi{SUM}/one-1.0.whl", f"{PUBLIC_FILES}{SUM}/one-1.0.whl"),
        ("pypi", f"https://mirror.example.org/x{SUM}/one-1.0.whl#sha256=00", f"{PUBLIC_FILES}{SUM}/one-1.0.whl"),
        ("pypi", "http://mirror.example.org/files/one-1.0.whl", "index:pypi/one-1.0.whl"),
        ("pypi", "file:///mnt/wheels/one-1.0.whl", "index:pypi/one-1.0.whl"),
        ("own", f"http://own.example.org{SUM}/one-1.0.whl", "index:own/one-1.0.whl"),
    ],
)
def test_locked_url_names_no_host_of_the_site_and_tells_its_index(index: str, url: str, locked: str) -> None:
    assert locked_url(index, url, "one-1.0.whl") == locked
    assert index_of(locked) == index


@pytest.mark.parametrize("url", ["https://example.org/one-1.0.whl", "file:///one-1.0.whl", "index:own", "index:a/b/c"])
def test_other_urls_are_of_no_index(url: str) -> None:
    assert index_of(url) == ""


@pytest.mark.parametrize(
    ("glibc", "told"),
    [("17", "17"), ("27", "17"), ("28", "28"), ("30", "28"), ("34", "34"), ("41", "40"), ("12", "12")],
)
def test_uv_is_told_the_newest_glibc_that_it_knows(glibc: str, told: str) -> None:
    assert _nearest(f"x86_64-manylinux_2_{glibc}") == f"x86_64-manylinux_2_{told}"
