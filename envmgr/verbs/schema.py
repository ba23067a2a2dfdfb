"""`envmgr schema`: JSON schemas of what verbs print with `--format json`, made from the classes of their results.

Source: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from envmgr.catalog.names import nearest
from envmgr.errors import ErrorData, Failed, InputError, Written
from envmgr.report import Lines, Result, Verbatim
from envmgr.verbs import argument
from envmgr.wording import did_you_mean

ERROR = "envmgr.error/1"
CATALOG = "envmgr.catalog/1"
"""The name of `catalog.json`, which lies beside the page of a generation."""
# Verbs whose form has another name.
_SAME = dict.fromkeys(("user-create", "user-add", "user-remove", "user-update"), "user")


@dataclass(frozen=True, slots=True)
class SchemaList(Result):
    """The names of all forms of JSON that envmgr prints, such as `envmgr.lock/1`."""

    schema: ClassVar[str] = "envmgr.schemas/1"
    names: tuple[str, ...]

    def lines(self) -> Lines:
        yield from self.names


@dataclass(frozen=True, slots=True)
class SchemaResult(Result):
    """The JSON schema of one form, as an object."""

    schema: ClassVar[str] = "envmgr.schema/1"
    name: str
    document: Mapping[str, Any]

    def lines(self) -> Lines:
        yield Verbatim(json.dumps(self.document, indent=1) + "\n")


class _Printed(GenerateJsonSchema):
    """Describes values as they are printed: every field is there, and an entry is text."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,  # noqa: ARG002
        total: bool,  # noqa: ARG002
    ) -> bool:
        return True

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False

    def call_schema(self, schema: Any) -> JsonSchemaValue:  # noqa: ARG002 - a named tuple, by an older pydantic
        return {"type": "string"}

    named_tuple_schema = call_schema


def schema(
    words: Annotated[list[str] | None, argument("The verb, such as build or user create; or error.", "VERB")] = None,
) -> Result:
    """Print the JSON schema of what a verb prints.

    Without VERB it lists all schemas.
    """
    if not words:
        return SchemaList(tuple(sorted((ERROR, CATALOG, *result_classes()))))
    forms = {_short(name): name for name in (ERROR, CATALOG, *result_classes())}
    wanted = _short("-".join(words))
    if (name := forms.get(_SAME.get(wanted, wanted))) is None:
        hint = did_you_mean(nearest(wanted, forms), "`envmgr schema` lists them")
        raise InputError("unknown-schema", f"there is no form of JSON for `{' '.join(words)}`", hint=hint)
    return SchemaResult(name, schema_of(name))


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON schema of the form `name`, as `SchemaList` has it."""
    if name == ERROR:
        found = _described(ErrorData)
        several = _described(tuple[list[Failed], Written | None])
        found["properties"] |= dict(zip(("failed", "written"), several["prefixItems"], strict=True))
        found["$defs"] = several["$defs"]
    elif name == CATALOG:
        from envmgr.page.model import PageGeneration

        # A file beside the page: its version is a number, under `schema_version`.
        return {"$schema": GenerateJsonSchema.schema_dialect, "$id": name, **_described(PageGeneration)}
    else:
        found = _described(result_classes()[name])
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": name,
        **found,
        "properties": {"schema": {"const": name}, **found["properties"]},
        "required": ["schema", *found["required"]],
    }


def result_classes() -> dict[str, type[Result]]:
    """Return the classes of results by their form's name."""
    found: dict[str, type[Result]] = {}
    for name in ("verbs", "steps", "builds.slurm", "audit.result", "cli.help"):
        module = importlib.import_module(f"envmgr.{name}")
        inner = pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}.")
        for each in (module, *(importlib.import_module(info.name) for info in inner)):
            for value in vars(each).values():
                if isinstance(value, type) and Result in value.__mro__[1:] and "schema" in vars(value):
                    found[vars(value)["schema"]] = value
    return found


def _described(kind: Any) -> dict[str, Any]:
    found: dict[str, Any] = _open(TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_Printed))
    return found


def _open(value: Any) -> Any:
    """Return a schema without the refusals of keys that later versions may add."""
    if isinstance(value, dict):
        return {key: _open(each) for key, each in value.items() if (key, each) != ("additionalProperties", False)}
    return [_open(each) for each in value] if isinstance(value, list) else value


def _short(name: str) -> str:
    return name.removeprefix("envmgr.").partition("/")[0]
