"""What the site says of a backend: raw in the site, checked by the backend, each fault with its place in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends import backend_names, read_input, require_settings
from envmgr.backends.conda.models import DEFAULT_CHANNELS, Channel, CondaInput, channels_of, program_of
from envmgr.backends.easybuild.settings import easyconfig_folders, own_easyconfigs
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site, load_site
from envmgr.errors import InputError
from envmgr.system.files import shipped
from tests.helpers.wording import pydantic_says

NOT_URL = "must be an http(s):// or file:// URL"
NO_BACKEND = f"there is no such backend; known: {', '.join(backend_names())}"
NOT_A_PLACE = "is neither an http(s):// or file:// URL nor a folder"


def site_of(folder: Path, **fields: Any) -> Site:
    (folder / "site.yaml").write_text(json.dumps({"prefix": "/shared/envmgr", **fields}, indent=1))
    return load_site(folder / "site.yaml", {})


def faults(site: Site) -> list[str]:
    with pytest.raises(InputError) as caught:
        require_settings(site)
    assert caught.value.reference == "site-invalid"
    count = len(caught.value.context)
    assert caught.value.message == f"{site.source} has {count} fault{'s' if count > 1 else ''}"
    return [line.removeprefix(f"{site.source}:") for line in caught.value.context]


def test_site_without_backends_has_the_defaults_of_each(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    require_settings(site)
    assert (channels_of(site), program_of(site)) == (DEFAULT_CHANNELS, None)
    assert easyconfig_folders(site) == (shipped("easyconfigs"),)


def test_paths_and_folder_mirrors_are_relative_to_the_site_file(tmp_path: Path) -> None:
    conda = {
        "channels": {"own": {"url": "https://x.example/own/", "mirrors": ["mirror/x", "https://m.example/x/"]}},
        "program": "bin/conda",
    }
    site = site_of(tmp_path, backends={"conda": conda, "easybuild": {"easyconfigs": ["configs", "/abs"]}})
    require_settings(site)
    found = channels_of(site)
    assert found["own"].url == "https://x.example/own"
    assert found["own"].mirrors == (f"file://{tmp_path}/mirror/x", "https://m.example/x")
    assert found["nvidia"] == DEFAULT_CHANNELS["nvidia"]
    assert program_of(site) == tmp_path / "bin/conda"
    assert own_easyconfigs(site) == (tmp_path / "configs", Path("/abs"))


@pytest.mark.parametrize(
    ("channel", "fault"),
    [
        ({}, f".url: {pydantic_says('missing')}"),
        ({"url": "conda-forge"}, f".url: {NOT_URL}"),
        ({"url": "ftp://x/c"}, f".url: {NOT_URL}"),
        ({"url": "http://x/c d"}, f".url: {NOT_URL}"),
        ({"url": "http://x/c\n"}, f".url: {NOT_URL}"),
        ({"url": "http://x/c", "mirrors": ["/ok", "s3://x"]}, f".mirrors: `s3://x` {NOT_A_PLACE}"),
        ({"url": "http://x/c", "mirrors": [""]}, f".mirrors: `` {NOT_A_PLACE}"),
        ({"url": "http://x/c", "mirror": []}, ".mirror: unknown field"),
    ],
)
def test_channel_s_fault_is_told_with_its_field(tmp_path: Path, channel: dict[str, Any], fault: str) -> None:
    (told,) = faults(site_of(tmp_path, backends={"conda": {"channels": {"c": channel}}}))
    assert told.partition(": ")[2] == f"backends.conda.channels.c{fault}"


def test_faults_are_told_with_their_lines_and_by_the_names_that_the_file_has(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("prefix: /shared/envmgr\nbackends:\n  easybuild:\n    easyconfig: [a]\n  conda:\n    program: 7\n")
    assert faults(load_site(path, {})) == [
        "4: backends.easybuild.easyconfig: unknown field",
        "6: backends.conda.program: must be a path",
    ]


def test_settings_of_a_backend_that_does_not_exist_are_told(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("prefix: /shared/envmgr\nbackends:\n  cnda: {}\n")
    assert faults(load_site(path, {})) == [f"3: backends.cnda: {NO_BACKEND}"]


def test_faults_of_all_backends_are_told_at_once(tmp_path: Path) -> None:
    site = site_of(tmp_path, backends={"cnda": {}, "easybuild": {"easyconfigs": [1]}, "conda": {"program": 7}})
    assert [line.partition(": ")[2] for line in faults(site)] == [
        f"backends.cnda: {NO_BACKEND}",
        "backends.easybuild.easyconfigs.0: must be a path",
        "backends.conda.program: must be a path",
    ]


def test_settings_of_a_backend_that_are_no_mapping_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        site_of(tmp_path, backends={"conda": 7})
    assert [line.partition(": ")[2] for line in caught.value.context] == ["backends.conda: must be a mapping"]


def test_faults_of_a_site_whose_file_cannot_be_read_here_are_told_without_lines(tmp_path: Path) -> None:
    """A build job has the site in its request."""
    site = site_of(tmp_path, backends={"conda": {"channels": {"c": {}}}})
    (tmp_path / "site.yaml").unlink()
    assert faults(site) == [f"backends.conda.channels.c.url: {pydantic_says('missing')}"]


def test_channel_loses_its_final_slash() -> None:
    assert Channel(url="file:///srv/x///").url == "file:///srv/x"


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ("environment.yml", "input.specs: `environment.yml` is a file: write its `dependencies` here as a list"),
        ("numpy", "input.specs: must be a list: `[numpy]`"),
    ],
)
def test_text_in_place_of_specs_gets_an_answer_that_fits(specs: str, reason: str) -> None:
    recipe = Recipe.model_validate({"schema": 1, "backend": "conda", "input": {"channels": ["x"], "specs": specs}})
    with pytest.raises(InputError) as error:
        read_input(Entry("some", "1"), recipe, CondaInput)
    assert error.value.context[0].startswith(reason)
