"""Entries of the site's Spack as far as no Spack is needed: a lock that a real one made, and a site that has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.spack_tree import LOCKED, recorded, write_spack_lock

ENTRY = "bzip2/1.0.8"


@pytest.fixture
def folder(sandbox: Sandbox) -> Path:
    folder = sandbox.recipe(ENTRY, [], backend="spack", input=LOCKED)
    write_spack_lock(folder)
    return folder


@pytest.mark.always
def test_lock_of_a_real_spack_is_checked_shown_and_fetched(sandbox: Sandbox, folder: Path) -> None:
    assert sandbox.run("lock", "--check", ENTRY).code == 0
    assert sandbox.ok("list", ENTRY, "--format", "json").data["packages"]["bzip2"] == "1.0.8 v6chp4fv"
    assert sandbox.run("check", ENTRY).code == 0
    (source,) = json.loads(recorded("environment/sources.json"))
    mirror = sandbox.root / "mirror"
    sandbox.settings["sources"] = {"mirrors": [mirror.as_uri()], "upstream": False}
    sandbox.write_site()
    place = mirror / source["place"]
    place.parent.mkdir(parents=True)
    place.write_bytes(b"something else")
    done = sandbox.run("fetch", ENTRY)
    assert (done.code, "error[source-differs]: " in done.stderr, f"file://{place}: sha256 is " in done.stderr) == (
        3,
        True,
        True,
    )
    place.unlink()
    done = sandbox.run("build", ENTRY)
    assert (done.code, f"run `envmgr fetch {ENTRY} --file /path/to/bzip2-1.0.8.tar.gz`" in done.stderr) == (3, True)
    assert sandbox.leftovers() == []
    assert list(sandbox.prefix.glob("store/*/*")) == []


def test_site_without_a_spack_is_told_what_to_name(sandbox: Sandbox, folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = sandbox.run("lock", ENTRY)
    assert (done.code, done.stderr.splitlines()[0]) == (3, "error[spack-missing]: the site names no Spack")
    assert "hint: under `backends.spack` in site.yaml: `spack: /path/to/spack`\n" in done.stderr
    sandbox.settings["backends"] = {"spack": {"spack": str(sandbox.root)}}
    sandbox.write_site()
    done = sandbox.run("lock", ENTRY)
    assert (done.code, f"cannot run `{sandbox.root}/bin/spack`" in done.stderr) == (3, True)
    sandbox.settings["backends"] = {"spack": {"spack": "spack"}}
    sandbox.write_site()
    done = sandbox.run("lock", ENTRY)
    assert (done.code, "backends.spack.spack: must be an absolute path" in done.stderr) == (2, True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
