"""Sources, patches and scripts: at other places than the usual ones, and damaged in the cache."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from envmgr.backends.easybuild.lock import LOCK_NAME
from envmgr.system.files import sha256_file
from tests.helpers.easybuild.failure_output import patched, told
from tests.helpers.easybuild.workshop import AM_ROOT, Workshop
from tests.helpers.scenes import plain


def locked_item(box: Workshop) -> dict[str, Any]:
    """Of the toy, in its lock."""
    item: dict[str, Any] = yaml.safe_load((box.root / "recipes/toy/1.0" / LOCK_NAME).read_text())["items"][-1]
    return item


def said(box: Workshop) -> str:
    box.ok("build", "toy/1.0")
    return box.shell("module load toy/1.0 && toy").stdout


def test_source_that_another_software_has_too(workshop: Workshop) -> None:
    """As UCX-CUDA, which is built from UCX's source, kept once."""
    workshop.toy("base")
    archive = workshop.root / "mirror/b/base/base-1.0.tar.gz"
    workshop.toy(sources=[{"filename": archive.name, "alt_location": "base"}], checksums=[sha256_file(archive)])
    workshop.locked("toy/1.0", "toy-1.0.eb")
    (source,) = locked_item(workshop)["sources"]
    assert source == {"name": archive.name, "sha256": sha256_file(archive), "folder": "b/base"}
    assert said(workshop) == "toy 1.0\n"


def test_archive_among_the_patches_is_got_as_a_source_is(workshop: Workshop) -> None:
    """As OpenBLAS has two of them."""
    archive, more = workshop.root / "mirror/t/toy/toy-1.0.tar.gz", workshop.root / "mirror/t/toy/more.tgz"
    workshop.toy()
    more.write_bytes(b"more")
    workshop.toy(
        patches=[(more.name, ".")],
        checksums=[{archive.name: sha256_file(archive)}, {more.name: sha256_file(more)}],
        prebuildopts="grep -qx more more.tgz && ",
    )
    workshop.locked("toy/1.0", "toy-1.0.eb")
    item = locked_item(workshop)
    assert [(s["name"], s["sha256"]) for s in item["sources"]] == [
        (archive.name, sha256_file(archive)),
        (more.name, sha256_file(more)),
    ]
    assert "patches" not in item
    assert said(workshop) == "toy 1.0\n"


def test_source_by_its_whole_url(workshop: Workshop) -> None:
    archive = workshop.root / "mirror/t/toy/toy-1.0.tar.gz"
    workshop.toy()
    url = f"https://example.org/files/{archive.name}"
    workshop.toy(
        sources=["https://example.org/files/%(name)s-%(version)s.tar.gz"],
        checksums=[{archive.name: sha256_file(archive)}],
    )
    workshop.locked("toy/1.0", "toy-1.0.eb")
    (source,) = locked_item(workshop)["sources"]
    assert source == {"name": archive.name, "sha256": sha256_file(archive), "urls": [url]}
    assert said(workshop) == "toy 1.0\n"


def test_templates_of_a_build_may_stand_in_a_source(workshop: Workshop) -> None:
    """As of glslang, which is unpacked below its build folder."""
    workshop.toy()
    archive = workshop.root / "mirror/t/toy/toy-1.0.tar.gz"
    unpack = "mkdir -p %(builddir)s/toy-1.0 && tar xf %s --strip-components=1 -C $_"
    workshop.toy(sources=[{"filename": archive.name, "extract_cmd": unpack}], checksums=[sha256_file(archive)])
    workshop.locked("toy/1.0", "toy-1.0.eb")
    assert said(workshop) == "toy 1.0\n"


def test_patch_that_another_folder_of_easyconfigs_has(workshop: Workshop) -> None:
    """As an easyconfig of EasyBuild's that was copied into the site's folder and changed, without its patches."""
    patch = patched(workshop)
    workshop.settings["easyconfigs"] = ["easyconfigs", "others"]
    workshop.write_site()
    elsewhere = workshop.root / "others/t/toy" / patch.name
    elsewhere.parent.mkdir(parents=True)
    patch.rename(elsewhere)
    workshop.locked("toy/1.0", "toy-1.0.eb")
    assert said(workshop) == "toy mended\n"
    elsewhere.write_text(elsewhere.read_text() + "\n")
    done = workshop.run("build", "toy/1.0")
    assert (done.code, f"  {elsewhere} has changed" in done.stderr) == (3, True)


def test_patch_of_another_software(workshop: Workshop) -> None:
    """As Tkinter, which has Python's."""
    patch = patched(workshop)
    archive = workshop.root / "mirror/t/toy/toy-1.0.tar.gz"
    workshop.toy(
        patches=[{"name": patch.name, "alt_location": "Other"}], checksums=[sha256_file(archive), sha256_file(patch)]
    )
    elsewhere = workshop.root / "easyconfigs/o/Other" / patch.name
    elsewhere.parent.mkdir(parents=True)
    patch.rename(elsewhere)
    workshop.locked("toy/1.0", "toy-1.0.eb")
    assert locked_item(workshop)["patches"] == [
        {"name": patch.name, "sha256": sha256_file(elsewhere), "folder": "o/Other"}
    ]
    assert said(workshop) == "toy mended\n"


def test_scripts_that_easyblocks_ask_for_by_themselves_are_locked(workshop: Workshop) -> None:
    """PyTorch's when it fetches, TensorFlow's when it is made; no easyconfig can have a checksum of them."""
    for easyblock, field in (("EB_PyTorch", {"tests": ["run.py"]}), ("EB_TensorFlow", {"test_script": "run.py"})):
        easyconfig = workshop.toy(easyblock=easyblock, skipsteps=[], installopts="", **field)
        script = easyconfig.parent / "run.py"
        script.write_text("print('runs')\n")
        workshop.locked("toy/1.0", "toy-1.0.eb")
        assert locked_item(workshop)["files"] == [{"name": "run.py", "sha256": sha256_file(script)}], easyblock


def test_upstream_s_places_are_those_that_easybuild_would_try(workshop: Workshop) -> None:
    """With words after a file's name, as SourceForge's; with both names that a file on PyPI may have."""
    archive = workshop.root / "mirror/t/toy/toy-1.0.tar.gz"
    workshop.toy(
        source_urls=[("https://one.example.org/files", "download"), "https://two.example.org/"],
        exts_defaultclass="PythonPackage",
        exts_list=[("my-ext", "2.0", {"checksums": ["0" * 64], "source_urls": ["%(pypi)s"]})],
    )
    easyconfig = workshop.root / "easyconfigs/t/toy/toy-1.0.eb"
    easyconfig.write_text(easyconfig.read_text().replace("'%(pypi)s'", "PYPI_SOURCE"))
    workshop.locked("toy/1.0", "toy-1.0.eb")
    first, second = locked_item(workshop)["sources"]
    assert first["urls"] == [
        f"https://one.example.org/files/{archive.name}/download",
        f"https://two.example.org/{archive.name}",
    ]
    assert [url.rpartition("/")[2] for url in second["urls"] if "example.org" not in url] == [
        "my-ext-2.0.tar.gz",
        "my_ext-2.0.tar.gz",
    ]


def damaged(box: Workshop) -> Path:
    """A locked toy, its source in the cache; there it is then written over."""
    box.toy(download_instructions="Ask the vendor for it.")
    box.locked("toy/1.0", "toy-1.0.eb")
    box.ok("fetch", "toy/1.0")
    (path,) = box.prefix.glob("cache/sources/*/toy-1.0.tar.gz")
    path.write_text("damaged")
    return path


def test_damaged_source_in_the_cache_is_fetched_again_by_the_build(workshop: Workshop) -> None:
    path = damaged(workshop)
    workshop.ok("build", "toy/1.0")
    assert sha256_file(path) == path.parent.name
    assert workshop.shell("module load toy/1.0; toy").stdout == "toy 1.0\n"


def test_damaged_source_in_the_cache_that_no_mirror_has_is_told(workshop: Workshop) -> None:
    path = damaged(workshop)
    found, archive = sha256_file(path), workshop.root / "mirror/t/toy/toy-1.0.tar.gz"
    away = archive.rename(archive.with_name("away"))
    text = told(workshop, workshop.run("build", "toy/1.0"), 3)
    right = path.parent.name
    assert text.startswith(
        "error[source-differs]: toy/1.0: toy-1.0.tar.gz is not what the lock names\n"
        f"  sha256 {right}\n"
        f"  {plain(str(path), workshop)}: sha256 is {found}, the lock says {right}\n"
        "  file://ROOT/mirror/t/toy/toy-1.0.tar.gz: no such file\n"
    )
    assert "\n  toy-1.0.eb says: Ask the vendor for it.\n" in text
    assert "\n  or put it at ROOT/mirror/t/toy/toy-1.0.tar.gz\n" in text
    away.rename(archive)
    workshop.ok("build", "toy/1.0")


@pytest.mark.skipif(not AM_ROOT, reason="gives a folder of the cache to root")
def test_damaged_source_in_a_folder_of_the_cache_that_is_root_s_is_told(workshop: Workshop) -> None:
    path = damaged(workshop)
    os.chown(path.parent, 0, 0)
    path.parent.chmod(0o755)
    done = workshop.run("build", "toy/1.0")
    assert "Traceback" not in done.stderr
    where = plain(str(path), workshop)
    assert told(workshop, done, 3) == (
        f"error[not-writable]: cannot write {where}\n"
        f"  [Errno 13] Permission denied: '{where}'\n"
        f"  {where}: sha256 is {sha256_file(path)}, the lock says {path.parent.name}\n"
        "  toy/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: run as the site's build user, or give this user the folder"
    )


def test_source_where_easybuild_keeps_those_of_extensions_is_locked_and_fetched(workshop: Workshop) -> None:
    workshop.toy(checksums=[])
    archive = workshop.root / "mirror/t/toy/toy-1.0.tar.gz"
    (archive.parent / "extensions").mkdir()
    archive.rename(archive.parent / "extensions" / archive.name)
    workshop.entry("toy/1.0", "toy-1.0.eb", input={"unhashed": {"toy-1.0.tar.gz": "we made it"}})
    workshop.ok("lock", "toy/1.0")
    workshop.ok("build", "toy/1.0")
