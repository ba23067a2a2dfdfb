"""SBOMs, judged by the validators of their own libraries."""

from __future__ import annotations

import json
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
