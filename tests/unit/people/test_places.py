"""Places of `--at`: what can stand in PATH, and a folder of the user's own for the installs."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from envmgr.errors import InputError
from envmgr.people.places import place_at, require_own

ME = pwd.getpwuid(os.geteuid()).pw_name
OWN = """\
error[place-invalid]: {root} {what}
  the programs in it would run as you

hint: name a path in another folder, one that only you can write"""


def test_installs_lie_in_a_folder_with_the_users_name(tmp_path: Path) -> None:
    link, prefix = place_at(tmp_path / "env")
    assert (link, prefix.root) == (tmp_path / "env", tmp_path / f".envmgr-{ME}")
    assert not prefix.root.exists()
    require_own(prefix.root, make=True)
    assert place_at(tmp_path / "env") == (link, prefix)


@pytest.mark.parametrize("name", ["a:b/env", "env:1", "a b/env", "$HOME/env"])
def test_place_that_path_cannot_name_is_refused_as_a_prefix_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    with pytest.raises(InputError) as caught:
        place_at(tmp_path / name)
    assert str(caught.value) == (
        f"error[place-invalid]: no environment can lie at {tmp_path / name}\n"
        "  it goes into PATH and #! lines, which take no spaces, colons, quotes and shell characters\n\n"
        "hint: name another path"
    )


def test_link_in_the_place_of_the_users_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root := tmp_path / f".envmgr-{ME}").symlink_to(tmp_path / "elsewhere")
    for attempt in (lambda: place_at(tmp_path / "env"), lambda: require_own(root, make=True)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert str(caught.value) == OWN.format(root=root, what="is no folder")


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives a folder to another")
def test_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (root := tmp_path / f".envmgr-{ME}").mkdir()
    os.chown(root, 65534, 65534)
    for attempt in (lambda: place_at(tmp_path / "env"), lambda: require_own(root, make=True)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert str(caught.value) == OWN.format(root=root, what="belongs to nobody")
