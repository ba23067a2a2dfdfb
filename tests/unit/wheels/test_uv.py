"""What uv is told, and what it says of the public index."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from envmgr.catalog.site import load_site
from envmgr.errors import InputError
from envmgr.system.run import Runner
from envmgr.wheels.resolve import index_places
from envmgr.wheels.settings import indexes_of
from envmgr.wheels.uv import _nearest, public_index


@pytest.mark.parametrize(
    ("glibc", "told"),
    [("17", "17"), ("27", "17"), ("28", "28"), ("30", "28"), ("34", "34"), ("41", "40"), ("12", "12")],
)
def test_uv_is_told_the_newest_glibc_that_it_knows(glibc: str, told: str) -> None:
    assert _nearest(f"x86_64-manylinux_2_{glibc}") == f"x86_64-manylinux_2_{told}"


def test_public_index_is_asked_of_uv_whatever_the_environment_says(tmp_path: Path) -> None:
    """A site may name mirrors of it only; other indexes need a URL."""
    own = dict.fromkeys(("UV_DEFAULT_INDEX", "UV_INDEX_URL"), "https://me:secret@other.example/simple")
    found = public_index(Runner(), {**os.environ, **own})
    assert re.fullmatch(r"https://[a-z.]+/simple", found)
    assert "other.example" not in found
    text = f"prefix: {tmp_path}/prefix\nbackends: {{wheels: {{indexes: {{NAME: {{mirrors: [/data/wheels]}}}}}}}}\n"
    (tmp_path / "site.yaml").write_text(text.replace("NAME", "pypi"))
    site = load_site(tmp_path / "site.yaml", os.environ)
    assert index_places(["pypi"], site, Runner()) == {"pypi": ["file:///data/wheels", found]}
    (tmp_path / "site.yaml").write_text(text.replace("NAME", "own"))
    with pytest.raises(InputError, match="own: it has no `url`"):
        indexes_of(load_site(tmp_path / "site.yaml", os.environ))
