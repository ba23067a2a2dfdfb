from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envmgr.catalog.names import Entry, clash_of, fault_in_part, nearest, parse_entry, variable_name
from envmgr.errors import InputError
from envmgr.modules.lmod import lua_quote

PARTS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,80}", fullmatch=True)
KNOWN = ["gcc/13.2", "pytorch/2.1-cuda11.8", "pytorch/2.7-cuda12.9", "python/3.10", "python/3.12", "tensorflow/2.15"]


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_entry(text)
    assert caught.value.exit_code == 2
    return caught.value.render()


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [
        ("pytorch/2.1-cuda11.8", "pytorch", "2.1-cuda11.8"),
        ("7zip/9", "7zip", "9"),
        ("gtk+/3.0_rc1", "gtk+", "3.0_rc1"),
        ("R/4.4.1", "R", "4.4.1"),
        ("a" * 64 + "/1", "a" * 64, "1"),
    ],
)
def test_parse_entry_splits_name_and_version(text: str, name: str, version: str) -> None:
    entry = parse_entry(text)
    assert entry == Entry(name, version)
    assert str(entry) == text


def test_parse_entry_refuses_a_bare_name() -> None:
    assert refusal("pytorch") == (
        "error[entry-syntax]: `pytorch` is not an entry\n\nhint: entries are written name/version: pytorch/2.1-cuda11.8"
    )


ALPHABET = "letters, digits and . _ + - are allowed, and the first must be a letter or digit"


@pytest.mark.parametrize(
    ("text", "which", "why"),
    [
        ("a/", "version ``", ALPHABET),
        ("a/b/c", "version `b/c`", ALPHABET),
        ("../1.0", "name `..`", ALPHABET),
        ("-rf/1", "name `-rf`", ALPHABET),
        ("a/1\n", "version `1\n`", ALPHABET),
        ("a/$(id)", "version `$(id)`", ALPHABET),
        ("a/１", "version `１`", ALPHABET),  # noqa: RUF001 - a digit to Unicode, not to us
        ("a/1..2", "version `1..2`", "`..`, a final dot and `.lua` are not allowed"),
        ("a/1.lua", "version `1.lua`", "`..`, a final dot and `.lua` are not allowed"),
        ("a/default", "version `default`", "`default` has a meaning of its own in Lmod"),
        ("modulerc/1", "name `modulerc`", "`modulerc` has a meaning of its own in Lmod"),
        ("a/" + "1" * 65, "version `" + "1" * 65 + "`", "longer than 64 characters"),
    ],
)
def test_parse_entry_names_the_bad_part_and_why(text: str, which: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_entry(text)
    assert caught.value.reference == "entry-syntax"
    assert caught.value.message == f"`{text}` is not an entry: bad {which}"
    assert caught.value.context == (why,)


@given(st.text(max_size=40) | st.builds("{}/{}".format, PARTS, PARTS) | st.builds("{}/{}".format, st.text(), PARTS))
@example("a/1\n")
@example("a/b\0c")
def test_parse_entry_accepts_only_what_is_safe_everywhere_and_round_trips(text: str) -> None:
    try:
        entry = parse_entry(text)
    except InputError:
        return
    assert str(entry) == text
    assert parse_entry(str(entry)) == entry
    for part in entry:
        assert shlex.quote(part) == part, "a shell word without quotes"
        assert lua_quote(part) == f'"{part}"', "a Lua string without escapes"
        assert part.isascii()
        assert part.isprintable()
        assert not set(part) & set("/\\ \t\"'`$&|;<>()[]{}*?!#~%:=,@^")
        assert ".." not in part
        assert part[0].isalnum(), "no option, no hidden file"
        assert not part.endswith(".lua"), "no module file's name"
    assert re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable_name(entry.name))


@given(PARTS)
def test_fault_in_part_is_empty_exactly_when_parse_entry_accepts_it(part: str) -> None:
    if fault := fault_in_part(part):
        assert fault in refusal(f"{part}/1")
    else:
        assert parse_entry(f"{part}/1").name == part


def test_nearest_puts_versions_of_the_same_name_first() -> None:
    assert nearest("pytorch/2.1", KNOWN, count=2) == ["pytorch/2.1-cuda11.8", "pytorch/2.7-cuda12.9"]
    assert nearest("PyTorch/2.7-cuda12.9", KNOWN)[0] == "pytorch/2.7-cuda12.9"


def test_nearest_finds_a_mistyped_name() -> None:
    assert nearest("pyhton/3.12", KNOWN) == ["python/3.12", "python/3.10"]
    assert nearest("tensorflo/2.15", KNOWN) == ["tensorflow/2.15"]


def test_nearest_is_empty_when_nothing_is_alike() -> None:
    assert nearest("zzz/9", KNOWN) == []
    assert nearest("python/3.12", []) == []


def test_nearest_gives_at_most_count() -> None:
    assert len(nearest("gcc/1", [f"gcc/{n}" for n in range(9)], count=2)) == 2
    assert len(nearest("gcc/1", [f"gcc/{n}" for n in range(9)])) == 3


@pytest.mark.parametrize(
    ("name", "variable"),
    [("pytorch", "PYTORCH"), ("open-mpi", "OPEN_MPI"), ("gtk+", "GTK_"), ("7zip", "_7ZIP"), ("a.b_c", "A_B_C")],
)
def test_variable_name_is_a_shell_variable(name: str, variable: str) -> None:
    assert variable_name(name) == variable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("user/1", "`user/` is for the environments of users"),
        ("Gcc/1", "gcc and Gcc set the same variables"),
        ("pytorch/2.1-CUDA11.8", "pytorch/2.1-cuda11.8 differs only by case"),
        ("gcc/13.2", ""),
        ("gcc/14", ""),
    ],
)
def test_clash_of_names_that_cannot_stand_beside_others(text: str, said: str) -> None:
    assert clash_of(parse_entry(text), map(parse_entry, KNOWN)) == said
