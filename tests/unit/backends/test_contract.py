"""Every backend has what the tests of the contract need, and its promises are tried in one of the tiers."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.backends import all_backends, backend_names, get_backend
from envmgr.errors import InputError
from envmgr.store.prefix import Prefix
from tests.helpers.backend_promises import backends_of


def test_every_backend_is_held_to_its_promises() -> None:
    assert sorted(name for tier in ("sandbox", "easybuild", "spack") for name in backends_of(tier)) == [
        *backend_names()
    ]


def test_backends_are_called_as_their_modules() -> None:
    assert [backend.name for backend in all_backends()] == [*backend_names()]


@pytest.mark.parametrize("name", ["nope", "__init__", "conda.solve", ""])
def test_backend_that_does_not_exist_is_told(name: str) -> None:
    with pytest.raises(InputError) as caught:
        get_backend(name)
    assert caught.value.render() == (
        f"error[unknown-backend]: there is no backend `{name}`\n\nhint: known: {', '.join(backend_names())}"
    )


def test_own_folders_lie_below_the_prefix_and_are_no_other_s(tmp_path: Path) -> None:
    found: dict[Path, str] = {}
    for backend in all_backends():
        for own in backend.folders(Prefix(tmp_path)):
            assert tmp_path in own.path.parents
            assert found.setdefault(own.path, backend.name) == backend.name
