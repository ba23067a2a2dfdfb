"""SBOMs of each shipped lock, of names and licences that break other things, and of packages' own SBOMs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from packageurl import PackageURL

from envmgr.backends import get_backend, locked_packages
from envmgr.backends.easybuild.lock import read_easybuild_lock
from envmgr.backends.easybuild.parts import item_parts
from envmgr.catalog.names import parse_entry
from envmgr.catalog.recipe import load_recipe
from envmgr.catalog.site import load_site
from envmgr.exchange.sboms import write_sbom
from envmgr.exchange.sboms.document import CarriedPart, CarriedSbom, Component, Document, purl_of
from envmgr.store.parts import Part
from tests.helpers.sboms import valid_cyclonedx
from tests.helpers.shipped import LOCKED, ROOT

TIME = datetime(2026, 11, 28, 12, tzinfo=UTC)


def document(*parts: Part, licence: str = "", carried: tuple[CarriedSbom, ...] = ()) -> Document:
    refs = [f"store/x/1-00000000#{part.ecosystem}:{index}" for index, part in enumerate(parts)]
    rows = tuple(
        Component(ref, part, tuple(refs[:1] if ref != refs[0] else ()), part.licence or licence, carried)
        for ref, part in zip(refs, parts, strict=True)
    )
    return Document("x", "1", "seed", TIME, rows, {"x/1": tuple(refs)})


@cache
def packages_of(entry: str) -> Mapping[str, str]:
    recipe, site = load_recipe(ROOT / entry / "recipe.yaml"), load_site(None, {"HOME": "/nowhere"})
    return locked_packages(parse_entry(entry), recipe, ROOT / entry, site)


@cache
def shipped_parts(entry: str) -> list[Part]:
    folder = ROOT / entry
    backend = get_backend(load_recipe(folder / "recipe.yaml").backend)
    if backend.name == "easybuild":
        items = read_easybuild_lock(folder)[0].items
        return [part for item in items for part in item_parts(item, items)]
    texts = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    return [*backend.parts({}, texts)]


@pytest.mark.parametrize("entry", LOCKED)
def test_sbom_of_a_shipped_lock_is_valid_and_has_every_package(entry: str) -> None:
    parts = shipped_parts(entry)
    names = {name.partition(" ")[0].partition("/")[0] for name in packages_of(entry)}
    assert names - {"easybuild-framework"} <= {part.name for part in parts}
    whole = document(*parts)
    data = valid_cyclonedx(write_sbom(whole))
    assert len(data["components"]) == len(parts)
    assert write_sbom(whole) == write_sbom(whole)


def test_toolchains_and_suffixes_are_no_part_of_easybuilds_versions() -> None:
    parts = {part.name: part for part in shipped_parts("horovod/0.28-cuda11.7")}
    assert (parts["zlib"].version, parts["zlib"].build) == ("1.2.12", "GCCcore-11.3.0")
    assert (parts["PyTorch"].version, parts["PyTorch"].build) == ("1.13.1", "foss-2022a-CUDA-11.7.0")
    assert (parts["OpenSSL"].version, parts["OpenSSL"].build) == ("1.1", "")
    assert "scipy" in parts  # an extension of SciPy-bundle
    assert parts["scipy"].needs == (parts["SciPy-bundle"].key,)


HOSTILE = ["a b", "名前", "100%", "a/b", "a@b", "a?x=y#z", "-", '"<&\\']


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", ["generic", "conda", "oci"])
def test_names_and_versions_that_break_a_purl_are_quoted(name: str, kind: Any) -> None:
    sha256 = "a" * 64
    part = Part(ecosystem="x", name=name, version=name, key=name, purl=kind, sha256=sha256, qualifiers={"build": name})
    read = PackageURL.from_string(str(purl_of(part)))
    assert "/".join(filter(None, (read.namespace, read.name))).lower() == name.lower()
    assert read.version == (f"sha256:{sha256}" if kind == "oci" else name)
    assert read.qualifiers == {"build": name}
    whole = document(part)
    (one,) = valid_cyclonedx(write_sbom(whole))["components"]
    assert (one["name"], one["version"], one["purl"]) == (name, name, str(purl_of(part)))


LICENCES = [
    "MIT",
    "Apache-2.0 WITH LLVM-exception",
    "GPL-2.0-only OR MIT",
    "MIT OR",
    "((",
    "()",
    "MIT AND ()",
    "Proprietary, see NVIDIA's",
    "LicenseRef-Public-Domain AND (MIT",
    "ライセンス %/<>",
    "PSF",
]


@pytest.mark.parametrize("text", LICENCES)
def test_licence_that_is_no_expression_stands_as_it_is(text: str) -> None:
    part = Part(ecosystem="conda", name="lib", version="1", key="lib", purl="conda", licence=text)
    (one,) = valid_cyclonedx(write_sbom(document(part)))["components"]
    (said,) = one["licenses"]
    assert text in (said.get("expression"), *said.get("license", {}).values())


def test_sboms_that_packages_bring_are_named_with_their_parts() -> None:
    inside = (
        CarriedPart("libopenblas", "0.3.30", "pkg:rpm/almalinux/openblas@0.3.30"),
        CarriedPart("x", "", "no purl"),
    )
    carried = CarriedSbom("lib/python3.11/site-packages/numpy-2.dist-info/sboms/a b.cdx.json", "b" * 64, inside)
    part = Part(ecosystem="pypi", name="numpy", version="2", key="numpy", purl="pypi")
    whole = document(part, carried=(carried,))
    (one,) = valid_cyclonedx(write_sbom(whole))["components"]
    (reference,) = one["externalReferences"]
    assert (reference["type"], reference["url"]) == ("bom", carried.path.replace(" ", "%20"))
    assert reference["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]
    assert [(each["name"], each.get("purl")) for each in one["components"]] == [
        ("libopenblas", "pkg:rpm/almalinux/openblas@0.3.30"),
        ("x", None),
    ]


def test_missing_extra_is_an_error_with_the_command_that_installs_it() -> None:
    script = """
import sys
sys.modules["cyclonedx"] = None
from datetime import datetime
from envmgr.errors import EnvmgrError
from envmgr.exchange.sboms import write_sbom
from envmgr.exchange.sboms.document import Document
try:
    write_sbom(Document("x", "1", "", datetime.now(), (), {}))
except EnvmgrError as error:
    print(error.render())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("error[extra-missing]: an SBOM needs the Python package cyclonedx")
    assert done.stdout.endswith("hint: pip install 'envmgr[sbom]'\n")
