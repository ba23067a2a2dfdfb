"""Which entries will have a Python of their own, as far as their locks tell."""

from __future__ import annotations

import pytest

from envmgr.backends import get_backend
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.site import load_site

SITE = load_site(None, {"HOME": "/nowhere"})
TOLD = {
    "pytorch/2.1-cuda11.8": True,
    "tensorflow/2.15-cuda11.8": True,
    "mpich/4.2": False,
    "python/3.11": True,
    "python/3.12": True,
    "anaconda/2025.06": None,  # its installer has one
    "openmpi/4.1": None,
}


@pytest.mark.parametrize("name", TOLD)
def test_lock_tells_whether_the_install_will_have_a_python(name: str) -> None:
    catalog = open_catalog(SITE)
    found = catalog.find(catalog.parse(name))
    recipe = found.recipe()
    assert get_backend(recipe.backend).load_lock(found.entry, recipe, found.folder, SITE).python is TOLD[name]
