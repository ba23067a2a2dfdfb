"""What a catalog's folder has: no link out of it is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.catalog import entries
from envmgr.catalog.entries import Catalog, list_catalog
from envmgr.errors import InputError


def recipe(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").touch()


def test_entries_are_listed_with_links_inside_of_the_catalog_alone(tmp_path: Path) -> None:
    root = tmp_path / "catalog"
    recipe(root / "a/1")
    recipe(tmp_path / "out/1")
    (root / "a/latest").symlink_to("1")
    (root / "b").symlink_to("a")
    (root / "c").symlink_to(tmp_path / "out")
    (root / "a/2").symlink_to(tmp_path / "out/1")
    (root / "a/3").symlink_to("3")
    (root / "README").touch()
    (root / "empty/1").mkdir(parents=True)
    (root / "d/1").mkdir(parents=True)
    (root / "d/1/recipe.yaml").symlink_to("nowhere")
    found = list_catalog(root)
    assert [str(f.relative_to(root)) for f in found.folders] == ["a/1", "a/latest", "b/1", "b/latest", "d/1"]
    words = "is a link out of the catalog: put the folder itself there"
    # `b` is `a` by another name.
    assert found.faults == (f"{root}/a/2: {words}", f"{root}/b/2: {words}", f"{root}/c: {words}")


def test_names_that_cannot_be_are_told_without_control_characters(tmp_path: Path) -> None:
    recipe(tmp_path / "a/\x1b[31m")
    recipe(tmp_path / "two\nlines/1")
    assert [fault.partition(": ")[2].partition(":")[0] for fault in list_catalog(tmp_path).faults] == [
        "bad name `\\x1b[31m`",
        "bad name `two\\nlines`",
    ]


def test_name_of_users_environments_is_told(tmp_path: Path) -> None:
    recipe(tmp_path / "user/1")
    (told,) = Catalog((tmp_path,), tmp_path).name_faults()
    assert told == f"{tmp_path}/user: no entry can have that name: environments of users have it"


def test_a_catalog_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MOST_RECIPES", 3)
    for number in range(3):
        recipe(tmp_path / f"a/{number}")
    assert len(list_catalog(tmp_path).folders) == 3
    recipe(tmp_path / "a/3")
    with pytest.raises(InputError) as caught:
        list_catalog(tmp_path)
    assert caught.value.reference == "catalog-too-large"


def test_a_folder_of_very_many_names_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_MOST_FOLDERS", 20)
    for place in ("a/{}", "{}"):
        for number in range(30):
            (tmp_path / place / place.format(number)).mkdir(parents=True)
        with pytest.raises(InputError, match="very many folders"):
            list_catalog(tmp_path / place)
