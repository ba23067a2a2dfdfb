"""EasyBuild's own files: those of the released version, and of another one in an index, a mirror of it, or a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from envmgr.backends.easybuild import Workbench
from envmgr.backends.easybuild.installation import contents_sum, own_places
from envmgr.backends.easybuild.lock import (
    DEFAULT_CONTENTS,
    DEFAULT_FILES,
    PACKAGES,
    EasyBuildFile,
    EasyBuildLock,
    read_easybuild_lock,
)
from envmgr.backends.easybuild.settings import EASYBUILD
from envmgr.backends.easybuild.sources import find_files, find_in_index, index_places_of
from envmgr.catalog.site import Site, load_site
from envmgr.report import SilentReporter
from envmgr.system.files import sha256_file
from envmgr.system.run import Runner
from tests.helpers.places import ROOT
from tests.helpers.wheelhouse import Wheelhouse

NOWHERE = "http://127.0.0.1:9/simple"
OTHER = "5.3.9"


class Listening(SilentReporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    """An index of another EasyBuild, of the newest tool that builds it, and of an older one."""
    made = Wheelhouse(tmp_path / "house")
    for package in PACKAGES:
        made.sdist(package, OTHER, {"setup.py": "raise SystemExit('nothing is built to lock it')\n"})
    for version in ("80.0.0", "81.0.0"):
        made.wheel("setuptools", version)
    return made


def site_of(folder: Path, index: str, mirrors: Sequence[str] = ()) -> Site:
    indexes = {"pypi": {"url": index, "mirrors": [*mirrors]}}
    text = json.dumps({"prefix": str(folder / "prefix"), "backends": {"wheels": {"indexes": indexes}}})
    (folder / "site.yaml").write_text(text)
    return load_site(folder / "site.yaml", os.environ)


def bench(site: Site) -> Workbench:
    return Workbench(site, os.environ, Runner(), SilentReporter(), "toy/1.0")


def files_of(house: Wheelhouse) -> tuple[EasyBuildFile, ...]:
    paths = [(package, OTHER, f"{package.replace('-', '_')}-{OTHER}.tar.gz") for package in PACKAGES]
    paths.append(("setuptools", "81.0.0", "setuptools-81.0.0-py3-none-any.whl"))
    return tuple(
        EasyBuildFile(package=package, version=version, name=name, sha256=sha256_file(house.files / name))
        for package, version, name in paths
    )


def test_files_of_the_released_version_are_known_without_an_index(tmp_path: Path) -> None:
    site = site_of(tmp_path, NOWHERE)
    assert contents_sum(own_places()) == DEFAULT_CONTENTS
    assert find_files(EASYBUILD, DEFAULT_CONTENTS, bench(site)) == (DEFAULT_FILES, "")
    changed = find_files(EASYBUILD, "0" * 64, bench(site))
    assert changed == ((), "the EasyBuild that is here is not as it was released")
    assert {file.version for file in DEFAULT_FILES if not file.builds} == {EASYBUILD}


def test_shipped_locks_name_the_released_files() -> None:
    locks = sorted(path.parent for path in ROOT.glob("recipes/*/*/easybuild-lock.yml"))
    assert len(locks) >= 10
    for folder in locks:
        lock, _ = read_easybuild_lock(folder)
        assert (lock.easybuild_sha256, lock.easybuild_files) == (DEFAULT_CONTENTS, DEFAULT_FILES), folder


def test_files_of_another_version_are_asked_of_the_index(tmp_path: Path, house: Wheelhouse) -> None:
    site = site_of(tmp_path, house.simple.as_uri())
    assert find_files(OTHER, "0" * 64, bench(site)) == (files_of(house), "")


def test_index_that_does_not_answer_leaves_the_lock_without_files_and_says_why(tmp_path: Path) -> None:
    files, why = find_files(OTHER, "0" * 64, bench(site_of(tmp_path, NOWHERE)))
    assert (files, why) == ((), "an index of pypi does not answer")


def test_first_place_that_has_the_files_gives_them_and_a_dead_one_is_told(tmp_path: Path, house: Wheelhouse) -> None:
    folder, wanted, reporter = house.files.as_uri(), files_of(house), Listening()
    site = site_of(tmp_path, house.simple.as_uri(), [NOWHERE, folder])
    assert [place.url for place in index_places_of(site, Runner())] == [NOWHERE, folder, house.simple.as_uri()]
    found = find_in_index(wanted, index_places_of(site, Runner()), "toy/1.0", Runner(), reporter)
    assert reporter.said == [f"toy/1.0: {NOWHERE}: 127.0.0.1:9: Connection refused"]
    assert found == {file.sha256: (f"{folder}/{file.name}",) for file in wanted}


def test_site_without_upstream_asks_only_mirrors_of_the_index(tmp_path: Path) -> None:
    text = f"prefix: {tmp_path / 'prefix'}\nsources: {{upstream: false}}\n"
    (tmp_path / "site.yaml").write_text(text)
    assert index_places_of(load_site(tmp_path / "site.yaml", os.environ), Runner()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda rows: rows[1:],
            "easybuild_files must have EasyBuild's three packages, each once, and what builds them",
        ),
        (
            lambda rows: rows[:3],
            "easybuild_files must have EasyBuild's three packages, each once, and what builds them",
        ),
        (
            lambda rows: [*rows, rows[0]],
            "easybuild_files must have EasyBuild's three packages, each once, and what builds",
        ),
        (
            lambda rows: [{**rows[0], "package": "other"}, *rows[1:]],
            "`easybuild_framework-5.4.1.tar.gz` is no file of other 5.4.1",
        ),
        (lambda rows: [{**rows[0], "version": "5 --index-url x"}, *rows[1:]], "cannot be a folder's name"),
    ],
)
def test_lock_with_a_part_of_easybuild_or_a_foreign_file_is_refused(change: object, said: str) -> None:
    rows = [file.model_dump() for file in DEFAULT_FILES]
    item = {"name": "toy", "version": "1", "easyconfig": "toy-1.eb", "origin": "catalog", "sha256": "0" * 64}
    base = {"recipe": "", "framework": "5.4.1", "easyblocks": "5.4.1", "rpath": False, "items": [item]}
    lock = {**base, "easybuild_sha256": DEFAULT_CONTENTS}
    assert EasyBuildLock.model_validate({**lock, "easybuild_files": rows}).easybuild_files == DEFAULT_FILES
    with pytest.raises(ValidationError) as caught:
        EasyBuildLock.model_validate({**lock, "easybuild_files": change(rows)})  # type: ignore[operator]
    assert said in str(caught.value)
