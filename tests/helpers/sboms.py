"""SBOMs, judged by the validators of their own libraries."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL


def valid_cyclonedx(text: str) -> dict[str, Any]:
    """The document, after the strict schema of 1.6; all that it refers to is in it, each identifier once."""
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert fault is None, fault
    data: dict[str, Any] = json.loads(text)
    refs = [data["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in data["components"])]
    assert len({*refs}) == len(refs)
    for row in data["dependencies"]:
        assert {row["ref"], *row.get("dependsOn", ())} <= {*refs}
    for each in data["components"]:
        if "purl" in each:
            PackageURL.from_string(each["purl"])
    return data


def valid_spdx(text: str, folder: Path) -> dict[str, Any]:
    """The document, after SPDX's own reader and validator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its parser's tables
        from spdx_tools.spdx.parser.parse_anything import parse_file
        from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

        path = folder / "document.spdx.json"
        path.write_text(text)
        assert [each.validation_message for each in validate_full_spdx_document(parse_file(str(path)))] == []
    data: dict[str, Any] = json.loads(text)
    return data


def spdx_purls(data: dict[str, Any]) -> dict[str, str]:
    """Name of a package -> its purl."""
    return {
        package["name"]: ref["referenceLocator"]
        for package in data["packages"]
        for ref in package.get("externalRefs", ())
        if ref["referenceType"] == "purl"
    }
