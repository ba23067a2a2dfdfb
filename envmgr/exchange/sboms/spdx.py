"""SPDX 2.3 in JSON, by its own library. Source: spdx.github.io/spdx-spec/v2.3."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

from license_expression import ExpressionError
from packageurl import PackageURL
from spdx_tools.common.spdx_licensing import spdx_licensing
from spdx_tools.spdx import model
from spdx_tools.spdx.model import RelationshipType as Kind
from spdx_tools.spdx.writer.json.json_writer import write_document_to_stream

from envmgr.exchange import sboms
from envmgr.system.files import sha256_bytes

_ROOT = "SPDXRef-DOCUMENT"


def write(document: sboms.Document) -> str:
    """Return the text."""
    made = _Made()
    whole = f"{document.name}/{document.version}"
    made.package(whole, document.name, document.version)
    made.relate(_ROOT, Kind.DESCRIBES, _id(whole))
    made.carry(whole, document.carried)
    for each in document.components:
        made.component(each)
    for name, refs in document.members.items():
        if name != whole:
            made.package(name, *name.split("/", 1))
            made.relate(_id(whole), Kind.CONTAINS, _id(name))
        for ref in refs:
            made.relate(_id(name), Kind.CONTAINS, _id(ref))
    info = model.CreationInfo(
        spdx_version="SPDX-2.3",
        spdx_id=_ROOT,
        name=whole,
        document_namespace=f"urn:uuid:{document.serial}",
        creators=[model.Actor(model.ActorType.TOOL, "envmgr")],
        created=document.time.replace(tzinfo=None, microsecond=0),
    )
    texts = [model.ExtractedLicensingInfo(key, text) for key, text in made.licences.items()]
    whole_document = model.Document(
        info, packages=made.packages, relationships=made.relations, extracted_licensing_info=texts
    )
    text = io.StringIO()
    write_document_to_stream(whole_document, text, validate=False, drop_duplicates=False)
    return f"{text.getvalue()}\n"


def _id(ref: str) -> str:
    """Return an identifier of the few characters that SPDX allows."""
    words = "".join(c if c.isascii() and c.isalnum() else "-" for c in ref.rpartition("#")[2])
    return f"SPDXRef-{words[:60]}-{sha256_bytes(ref.encode())[:12]}"


class _Made:
    """The parts of a document, as they are made."""

    def __init__(self) -> None:
        self.packages: list[model.Package] = []
        self.relations: list[model.Relationship] = []
        self.licences: dict[str, str] = {}

    def package(self, ref: str, name: str, version: str) -> model.Package:
        nothing = model.SpdxNoAssertion()
        made = model.Package(
            _id(ref),
            name,
            nothing,
            version=version or None,
            files_analyzed=False,
            license_concluded=nothing,
            license_declared=nothing,
            copyright_text=nothing,
        )
        self.packages.append(made)
        return made

    def relate(self, one: str, kind: Kind, other: str) -> None:
        self.relations.append(model.Relationship(one, kind, other))

    def component(self, each: sboms.Component) -> None:
        made = self.package(each.ref, each.part.name, each.part.version)
        if each.part.sha256:
            made.checksums = [model.Checksum(model.ChecksumAlgorithm.SHA256, each.part.sha256)]
        if each.licence:
            made.license_declared = self._licence(each.licence)
        made.external_references = [_purl(str(sboms.purl_of(each.part)))]
        made.external_references += _references(each.carried)
        for ref in each.needs:
            self.relate(_id(each.ref), Kind.DEPENDS_ON, _id(ref))
        self.carry(each.ref, each.carried)

    def carry(self, ref: str, carried: tuple[sboms.CarriedSbom, ...]) -> None:
        """Add what a package's own SBOMs name."""
        for own in carried:
            for index, part in enumerate(own.parts):
                inner = f"{ref}:{own.path}:{index}#{part.name}"
                made = self.package(inner, part.name, part.version)
                with suppress(ValueError):  # a stranger's text
                    made.external_references = [_purl(str(PackageURL.from_string(part.purl)))]
                self.relate(_id(ref), Kind.CONTAINS, _id(inner))

    def _licence(self, text: str) -> object:
        """Return the expression; another text gets a name in the document, and stands there as it is."""
        try:
            return spdx_licensing.parse(text, validate=True)
        except (ExpressionError, IndexError):  # IndexError: of `()`
            key = f"LicenseRef-{sha256_bytes(text.encode())[:12]}"
            self.licences[key] = text
            return spdx_licensing.parse(key)


def _purl(locator: str) -> model.ExternalPackageRef:
    return model.ExternalPackageRef(model.ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", locator)


def _references(carried: tuple[sboms.CarriedSbom, ...]) -> Iterator[model.ExternalPackageRef]:
    for own in carried:
        yield model.ExternalPackageRef(
            model.ExternalPackageRefCategory.OTHER, "sbom", quote(own.path), f"sha256 {own.sha256}"
        )
