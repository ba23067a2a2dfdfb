from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from envmgr.errors import InputError
from envmgr.verbs.schema import CATALOG, ERROR, result_classes, schema, schema_of
from tests.helpers.printed_json import closed, faults
from tests.helpers.verbs import VERBS

NAMES = schema().names


def test_every_verb_has_a_schema_and_so_has_an_error() -> None:
    found = {verb: schema(verb.split()).name for verb in VERBS}
    assert set(found.values()) == {*NAMES} - {
        ERROR,
        CATALOG,
        "envmgr.audit-explain/1",
        "envmgr.help/1",
        "envmgr.list-entry/1",
        "envmgr.stage-image/1",
        "envmgr.build-again/1",
        "envmgr.build-item/1",
        "envmgr.export-lock/1",
        "envmgr.schemas/1",
        "envmgr.test-nodes/1",
    }
    assert found["user update"] == "envmgr.user/1"
    assert schema(["error"]).name == schema(["envmgr.error/1"]).name == ERROR
    assert {*NAMES} == {ERROR, CATALOG, *result_classes()}


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_one_of_its_draft_and_has_its_own_name(name: str) -> None:
    form = schema_of(name)
    assert (form["$schema"], form["$id"]) == ("https://json-schema.org/draft/2020-12/schema", name)
    Draft202012Validator.check_schema(form)
    assert form["required"] == [key for key in form["properties"] if key not in ("failed", "written")]
    assert len(form["properties"]) > 1


def test_a_word_that_is_no_verb_has_a_hint() -> None:
    with pytest.raises(InputError) as told:
        schema(["user", "renam"])
    assert (told.value.reference, told.value.message) == ("unknown-schema", "there is no form of JSON for `user renam`")
    assert "user" in told.value.hint


def test_later_keys_are_allowed_and_missing_ones_and_other_values_are_not() -> None:
    rollback = {"schema": "envmgr.rollback/1", "before": 2, "after": 1, "dry_run": False}
    check = Draft202012Validator(schema_of("envmgr.rollback/1"))
    names = [key for key in schema_of("envmgr.rollback/1")["properties"] if key != "schema"]
    assert {*names} == {*rollback} - {"schema"}
    assert check.is_valid(rollback | {"later": 1})
    assert not check.is_valid({key: value for key, value in rollback.items() if key != names[0]})
    assert not check.is_valid(rollback | {names[0]: "x"})
    assert not check.is_valid(rollback | {"schema": "envmgr.rollback/2"})
    assert faults(rollback) == []
    assert faults(rollback | {"later": 1}) != []
    assert closed({"properties": {"properties": {"type": "string"}}})["properties"]["properties"] == {"type": "string"}


def test_an_entry_in_a_result_is_text() -> None:
    form = schema_of("envmgr.build/2")
    entry = {"$ref": "#/$defs/PlannedEntry/properties/entry", "$defs": form["$defs"]}
    assert Draft202012Validator(entry).is_valid("hello/1.0")
    assert not Draft202012Validator(entry).is_valid(["hello", "1.0"])
