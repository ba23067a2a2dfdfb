"""CycloneDX 1.6 in JSON, by its own library. Source: cyclonedx.org, "Specification Overview"; ECMA-424."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model import bom as model
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from envmgr.exchange.sboms import document as sboms


def write(document: sboms.Document) -> str:
    """Return the text."""
    whole = f"{document.name}/{document.version}"
    root = Component(
        name=document.name,
        version=document.version,
        type=ComponentType.APPLICATION if whole in document.members else ComponentType.PLATFORM,
        bom_ref=whole,
        external_references=[_reference(each) for each in document.carried],
        components=[part for each in document.carried for part in _inside(whole, each)],
    )
    entries = {each: _entry(each) for each in document.members if each != whole} | {whole: root}
    made = {each.ref: _component(each) for each in document.components}
    bom = model.Bom(
        serial_number=document.serial,
        metadata=model.BomMetaData(
            timestamp=document.time,
            component=root,
            tools=ToolRepository(components=[Component(name="envmgr", type=ComponentType.APPLICATION)]),
        ),
        components=[*(each for name, each in entries.items() if name != whole), *made.values()],
    )
    for name, refs in document.members.items():
        bom.register_dependency(entries[name], [made[ref] for ref in refs])
    if whole not in document.members:
        bom.register_dependency(root, [each for name, each in entries.items() if name != whole])
    for each in document.components:
        bom.register_dependency(made[each.ref], [made[ref] for ref in each.needs])
    return f"{JsonV1Dot6(bom).output_as_string(indent=1)}\n"


def _entry(name: str) -> Component:
    short, _, version = name.partition("/")
    return Component(name=short, version=version, type=ComponentType.APPLICATION, bom_ref=name)


def _component(each: sboms.Component) -> Component:
    part = each.part
    said = {"envmgr:ecosystem": part.ecosystem, "envmgr:build": part.build}
    return Component(
        name=part.name,
        version=part.version or None,
        type=ComponentType.CONTAINER if part.purl == "oci" else ComponentType.LIBRARY,
        bom_ref=each.ref,
        purl=sboms.purl_of(part),
        hashes=_hashes(part.sha256),
        licenses=[LicenseFactory().make_from_string(each.licence)] if each.licence else (),
        properties=[Property(name=key, value=value) for key, value in said.items() if value],
        external_references=[_reference(own) for own in each.carried],
        components=[inner for own in each.carried for inner in _inside(each.ref, own)],
    )


def _hashes(sha256: str) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []


def _reference(carried: sboms.CarriedSbom) -> ExternalReference:
    url = XsUri(quote(carried.path))
    return ExternalReference(type=ExternalReferenceType.BOM, url=url, hashes=_hashes(carried.sha256))


def _inside(ref: str, carried: sboms.CarriedSbom) -> Iterator[Component]:
    for index, part in enumerate(carried.parts):
        purl = None
        with suppress(ValueError):  # a stranger's text
            purl = PackageURL.from_string(part.purl)
        yield Component(
            name=part.name, version=part.version or None, purl=purl, bom_ref=f"{ref}:{carried.path}:{index}"
        )
