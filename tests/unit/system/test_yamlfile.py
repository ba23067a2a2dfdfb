from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, field_validator

from envmgr.errors import InputError
from envmgr.system.untrusted_files import Kind, read_file_text
from envmgr.system.yamlfile import load_model, parse_yaml
from tests.helpers.wording import one_of, pydantic_says, yaml_says

THING = Kind("thing", 1 << 20)


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    run: str
    kind: Literal["a", "b"] = "a"

    @field_validator("run")
    @classmethod
    def _run(cls, value: str) -> str:
        if not value:
            raise ValueError("must not be empty")
        return value


class Thing(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    size: int = 0
    parts: list[Part] = []
    table: dict[str, Part] = {}


def syntax_error(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "f.yaml")
    assert (caught.value.reference, caught.value.exit_code) == ("yaml-syntax", 2)
    return caught.value.message


def load(tmp_path: Path, text: str | bytes) -> Thing:
    path = tmp_path / "thing.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_model(path, Thing, kind=THING, reference="thing-invalid")


def faults(tmp_path: Path, text: str) -> list[str]:
    """The error's lines, without the path in front."""
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    path, error = tmp_path / "thing.yaml", caught.value
    count = len(error.context)
    assert error.reference == "thing-invalid"
    assert error.message == f"{path} has {count} fault{'s' if count > 1 else ''}"
    assert all(line.startswith(f"{path}:") for line in error.context)
    return [line.removeprefix(f"{path}:") for line in error.context]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: [a\nsize: 1\n", "2:5"),
        ("a:\n\tb: 1\n", "2:1"),
        ("a: *nowhere\n", "1:4"),
        ("a: 1\n---\nb: 2\n", "2:1"),
        ("a: !!python/object/apply:os.system [id]\n", "1:4"),
    ],
)
def test_parse_yaml_tells_line_and_column_and_what_pyyaml_says(text: str, place: str) -> None:
    assert syntax_error(text) == f"f.yaml:{place}: {yaml_says(text)}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("when: 2024-13-45\n", "f.yaml:1:7: `2024-13-45` is no timestamp"),
        ("a:\n- b: !!int x\n", "f.yaml:2:6: `x` is no int"),
        ("a: !!map foo\n", "f.yaml:1:4: `foo` is no map"),
        ("a: !!seq {b: 1}\n", "f.yaml:1:4: `{…}` is no seq"),
        ("a: 2001-12-14t21:59:43-99:00\n", "f.yaml:1:4: `2001-12-14t21:59:43-99:00` is no timestamp"),
        ("a: " + "9" * 5000, f"f.yaml:1:4: `{'9' * 60}` is no int"),
        ("? [1, 2]\n: x\n", "f.yaml:1:3: a list or mapping cannot be a key"),
    ],
)
def test_parse_yaml_tells_line_and_column_of_a_syntax_error(text: str, message: str) -> None:
    assert syntax_error(text) == message


def test_parse_yaml_refuses_a_list_that_holds_itself() -> None:
    assert syntax_error("a: &a [*a]\n").startswith("f.yaml:1:4: ")


def test_parse_yaml_tells_a_control_character() -> None:
    text = 'a: "x\0"\n'
    assert syntax_error(text) == f"f.yaml: {yaml_says(text)}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: the key `a` is given twice"),
        ("x:\n  - {k: 1, l: 2, k: 3}\n", "f.yaml:2:18: the key `k` is given twice"),
        ("2024-01-01: a\n2024-01-01: b\n", "f.yaml:2:1: the key `2024-01-01` is given twice"),
        ("b: &b {x: 1}\nc:\n  <<: *b\n  <<: *b\n", "f.yaml:4:3: the key `<<` is given twice"),
    ],
)
def test_parse_yaml_refuses_a_key_that_is_given_twice(text: str, message: str) -> None:
    assert syntax_error(text) == message


def test_parse_yaml_merges_keys_and_own_ones_win() -> None:
    text = "b: &b {x: 1, y: 1}\nd: &d {y: 2, z: 2}\nc:\n  <<: [*b, *d]\n  x: 3\n"
    assert parse_yaml(text, "f.yaml")["c"] == {"x": 3, "y": 1, "z": 2}


def test_parse_yaml_repeats_what_an_alias_names() -> None:
    assert parse_yaml("a: &x [1, {b: 2}]\nc: *x\n", "f.yaml") == {"a": [1, {"b": 2}], "c": [1, {"b": 2}]}


def test_parse_yaml_reads_yaml_1_1_scalars() -> None:
    text = "a: 1\nb: 1.5\nc: yes\nd: ~\ne: 2024-02-29\nf: '1.10'\n"
    assert parse_yaml(text, "f") == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": datetime.date(2024, 2, 29),
        "f": "1.10",
    }


LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))


def test_parse_yaml_refuses_aliases_that_expand_without_end() -> None:
    assert syntax_error(LAUGHS) == "f.yaml: more than 2,000,000 values"


@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")], ids=["flow", "map", "dash", "key"]
)
@pytest.mark.parametrize("depth", [900, 100_000])
def test_parse_yaml_refuses_deep_nesting(opening: str, closing: str, depth: int) -> None:
    """Python cannot build the first, and libyaml has a limit of its own."""
    said = syntax_error(opening * depth + "x" + closing * depth)
    assert said == "f.yaml: nested too deep" if depth < 1000 else said.endswith(": exceeded maximum nesting depth")


def test_parse_yaml_accepts_many_items_and_many_short_lists() -> None:
    text = "".join(f"- {{name: p{n}, deps: [a, b], none: {{}}}}\n" for n in range(2000))
    data = parse_yaml(text, "f.yaml")
    assert len(data) == 2000
    assert data[-1] == {"name": "p1999", "deps": ["a", "b"], "none": {}}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz", min_size=1, max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_parse_yaml_reads_what_pyyaml_writes(value: Any) -> None:
    assert parse_yaml(yaml.safe_dump(value, allow_unicode=True), "f.yaml") == value


@given(st.text(st.sampled_from("ab:-?&*!|>%@`'\"[]{}#,<~ \n\t01.=\0\x85\u2028é"), max_size=60))
def test_parse_yaml_raises_nothing_but_input_errors(text: str) -> None:
    try:
        parse_yaml(text, "f.yaml")
    except InputError as caught:
        error = caught
    else:
        return
    assert error.reference in ("yaml-syntax", "text-invisible")
    assert error.message.startswith("f.yaml")


def test_load_model_reads_a_good_file(tmp_path: Path) -> None:
    thing = load(tmp_path, "name: ä\nparts:\n  - run: x\n    kind: b\n")
    assert thing == Thing(name="ä", parts=[Part(run="x", kind="b")])


def test_load_model_tells_each_fault_with_line_and_field_in_file_order(tmp_path: Path) -> None:
    text = (
        "name: x\n"
        "size: many\n"
        "parts:\n"
        "  - run: ok\n"
        "  - run: ''\n"
        "    kind: c\n"
        "  -\n"
        "    kind: a\n"
        "table:\n"
        "  first:\n"
        "    run: 3\n"
        "colour: red\n"
    )
    assert faults(tmp_path, text) == [
        f"2: size: {pydantic_says('int_parsing')}",
        "5: parts.1.run: must not be empty",
        f"6: parts.1.kind: {one_of('a', 'b')}",
        f"8: parts.2.run: {pydantic_says('missing')}",
        "11: table.first.run: must be text: put it in quotes",
        "12: colour: unknown field",
    ]


def test_load_model_tells_a_missing_field_at_its_parent(tmp_path: Path) -> None:
    assert faults(tmp_path, "# a comment\nsize: 1\n") == [f"2: name: {pydantic_says('missing')}"]


def test_load_model_tells_a_wrong_type_of_a_list(tmp_path: Path) -> None:
    assert faults(tmp_path, "name: x\nparts: one\n") == ["2: parts: must be a list: `[one]`"]


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "~\n"])
def test_load_model_treats_an_empty_file_as_one_without_fields(tmp_path: Path, text: str) -> None:
    assert [line.partition(": ")[2] for line in faults(tmp_path, text)] == [f"name: {pydantic_says('missing')}"]


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text\n", "3\n"])
def test_load_model_tells_a_document_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    assert faults(tmp_path, text) == ["1: (document): must be a mapping"]


def test_load_model_tells_keys_that_are_no_text(tmp_path: Path) -> None:
    assert faults(tmp_path, "name: x\ntable:\n  on: {run: x}\n") == ["2: table.1.[key]: must be text: put it in quotes"]


def test_load_model_follows_merge_keys(tmp_path: Path) -> None:
    thing = load(tmp_path, "name: x\nparts:\n  - &p {run: y, kind: b}\n  - {<<: *p, run: z}\n")
    assert thing.parts == [Part(run="y", kind="b"), Part(run="z", kind="b")]


def test_load_model_tells_a_fault_of_a_merged_mapping(tmp_path: Path) -> None:
    text = "name: x\nparts:\n  - &p {run: y, kind: b}\n  - <<: *p\n    kind: c\n"
    assert faults(tmp_path, text) == [f"5: parts.1.kind: {one_of('a', 'b')}"]


def test_read_text_tells_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_file_text(tmp_path / "no.yaml", THING)
    assert caught.value.render() == f"error[file-missing]: thing {tmp_path / 'no.yaml'} does not exist"


def test_read_text_tells_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_file_text(tmp_path, THING)
    assert caught.value.render() == (
        f"error[file-irregular]: thing {tmp_path} is a folder, and no regular file\n\nhint: put the file itself there"
    )


def test_of_many_faults_the_first_are_told_each_as_one_short_line(tmp_path: Path) -> None:
    text = "name: x\n" + "".join(f"wrong{n}: 1\n" for n in range(5000)) + f'"{"long" * 225}": 1\n"\U0010fffd": 1\n'
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    error = caught.value
    assert error.message == f"{tmp_path / 'thing.yaml'} has 5002 faults"
    assert [line.removeprefix(f"{tmp_path / 'thing.yaml'}:") for line in error.context] == [
        *(f"{n + 2}: wrong{n}: unknown field" for n in range(20)),
        "and 4982 more",
    ]
    assert faults(tmp_path, f'name: x\n"{"long" * 225}": 1\n"\U0010fffd": 1\n') == [
        f"2: {'long' * 15}… (900 characters): unknown field",
        "3: \\U0010fffd: unknown field",
    ]


def test_read_text_tells_the_first_byte_that_is_not_utf_8(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, b"name: B\xfccher\n")
    assert caught.value.render() == f"error[yaml-syntax]: {tmp_path / 'thing.yaml'}: not UTF-8 (byte 7)"
