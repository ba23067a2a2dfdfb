from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from envmgr.cli.render import to_data
from envmgr.errors import Bug, CommandError, EnvmgrError, ErrorData, InputError, Interrupted

TEXT = st.text(st.characters(codec="utf-8"))


class Answer(BaseModel):
    """As the models of jobs and child processes have it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    error: ErrorData | None = None


ERRORS = [
    EnvmgrError("a-b", "the fact", context=["one", "two\nlines"], hint="do it", log="/l"),
    EnvmgrError("a-b", "the fact"),
    InputError("bad-word", "ä \N{SNOWMAN}", context="one"),
    Bug("not expected", hint="report it"),
    CommandError(["false", "x"], 1, "out", "err\n"),
    Interrupted(log="/l"),
]


def subclasses(kind: type[EnvmgrError]) -> set[type[EnvmgrError]]:
    found = {kind}
    for each in kind.__subclasses__():
        found |= subclasses(each)
    return found


def test_every_kind_of_error_goes_through_the_round_trip() -> None:
    assert {type(error) for error in ERRORS} == {k for k in subclasses(EnvmgrError) if k.__module__ == "envmgr.errors"}


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_error_comes_back_from_json_as_it_was(error: EnvmgrError) -> None:
    text = Answer(error=ErrorData.of(error)).model_dump_json()
    data = Answer.model_validate_json(text).error
    assert data == ErrorData.of(error)
    again = data.as_error()
    assert type(again) is (EnvmgrError if isinstance(error, CommandError) else type(error))
    assert (again.exit_code, again.reference, again.render()) == (error.exit_code, error.reference, error.render())
    assert json.loads(text)["error"] == to_data(ErrorData.of(error))


@given(TEXT, TEXT, st.lists(TEXT).map(tuple), TEXT, TEXT, st.integers(0, 255))
def test_any_error_data_is_the_same_after_a_round_trip(
    reference: str, message: str, context: tuple[str, ...], hint: str, log: str, code: int
) -> None:
    data = ErrorData(reference, message, context, hint, log, code)
    assert ErrorData.of(data.as_error()) == data


def test_more_context_and_a_log_are_added() -> None:
    data = ErrorData.of(InputError("bad-word", "fact", context="one", hint="mend it"))
    assert data.as_error("two", log="/var/log/job").render() == (
        "error[bad-word]: fact\n  one\n  two\n  log: /var/log/job\n\nhint: mend it"
    )
    assert ErrorData.of(Interrupted(log="/own")).as_error(log="/other").log == "/own"


@pytest.mark.parametrize(
    "error",
    [
        {"reference": "a-b"},
        {"reference": "a", "message": "b", "context": [], "hint": "", "log": "", "exit_code": 3, "more": 1},
        {"reference": "a", "message": "b", "context": "c", "hint": "", "log": "", "exit_code": 3},
    ],
    ids=["missing keys", "unknown key", "text for lines"],
)
def test_other_data_is_refused(error: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Answer.model_validate_json(json.dumps({"error": error}))
