"""What other projects say, asked of the versions that run: their wording is theirs to change, and ours is what stands around it."""

from __future__ import annotations

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticKnownError


def pydantic_says(kind: str, **context: object) -> str:
    """Pydantic's message for an error of this kind. Source: docs.pydantic.dev, "Validation Errors"."""
    return PydanticKnownError(kind, context or None).message()  # type: ignore[arg-type]


def one_of(*values: str) -> str:
    """Pydantic's message for a value that is none of these."""
    *first, last = (f"'{value}'" for value in values)
    return pydantic_says("literal_error", expected=" or ".join([", ".join(first), last]))


def pydantic_refuses(kind: type, value: object) -> str:
    """Pydantic's message for a value that is none of this type."""
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        return error.errors()[0]["msg"]
    raise AssertionError(f"{value!r} is a {kind}")


def yaml_says(text: str) -> str:
    """PyYAML's message for a text that it cannot read."""
    try:
        yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        return str(error.problem)
    except yaml.reader.ReaderError as error:
        return " ".join(str(error).split())
    raise AssertionError(f"PyYAML reads {text!r}")
