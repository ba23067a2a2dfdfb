"""What `envmgr schema` says of the JSON that a verb printed: each key is in the schema, and each value is what it says."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from envmgr.verbs.schema import schema_of


def faults(printed: dict[str, Any]) -> list[str]:
    """Where the JSON of a verb is not as its schema says; also a key that the schema does not have."""
    found = _validator(printed["schema"]).iter_errors(printed)
    return [f"{error.json_path}: {error.message[:300]}" for error in found]


@cache
def _validator(name: str) -> Draft202012Validator:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(closed(schema))


def closed(value: Any) -> Any:
    """The schema with no other keys than those that it names."""
    if isinstance(value, list):
        return [closed(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: closed(each) for key, each in value.items()}
    return found | {"additionalProperties": False} if isinstance(found.get("properties"), dict) else found
