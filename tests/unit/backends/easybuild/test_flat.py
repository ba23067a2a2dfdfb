"""One flat module out of EasyBuild's chain: what is read, and what it comes to."""

from __future__ import annotations

import pytest

from envmgr.backends.easybuild.flat import Shown, flatten, read_shown
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import SHOWN_HOME, SHOWN_USER
from envmgr.modules.spec import EnvOp


def steps(text: str) -> list[str | EnvOp]:
    return list(read_shown(("toy/1.0", text)).steps)


def op(kind: str, name: str, value: str = "", separator: str = ":") -> EnvOp:
    return EnvOp.model_validate({"kind": kind, "name": name, "value": value, "separator": separator})


def test_changes_loads_and_talk_are_told_apart_in_their_order() -> None:
    text = """\
help([[
setenv("NOT","a change")
prepend_path("PATH","nor this")
]])
whatis("Description: toy (the
one) and more (or less)
load("nothing")")
conflict("toy")
depends_on("base/1.0-01234567")
prepend_path("PATH","/p/bin")
append_path("MANPATH","")
load("other/1.0-89abcdef","third/2.0-89abcdef")
setenv("EBROOTTOY","/p")
unsetenv("TOY_OLD")
pushenv("CC","gcc")
"""
    assert steps(text) == [
        "base/1.0-01234567",
        op("prepend", "PATH", "/p/bin"),
        op("append", "MANPATH", ""),
        "other/1.0-89abcdef",
        "third/2.0-89abcdef",
        op("set", "EBROOTTOY", "/p"),
        op("unset", "TOY_OLD"),
        op("set", "CC", "gcc"),
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ('prepend_path{"LIST","a;b",delim=";",priority="0"}', op("prepend", "LIST", "a;b", ";")),
        ('append_path{"LIST","x y",delim=" "}', op("append", "LIST", "x y", " ")),
        ('setenv("QUOTED","say "hi", and "bye"")', op("set", "QUOTED", 'say "hi", and "bye"')),
        ('setenv("BRACKETS","f(x) and g{y}")', op("set", "BRACKETS", "f(x) and g{y}")),
        ('setenv("BACK","a\\b")', op("set", "BACK", "a\\b")),
        ('setenv("EMPTY","")', op("set", "EMPTY", "")),
        ('setenv("LINES","one\ntwo")', op("set", "LINES", "one\ntwo")),
        ('setenv("LINES","one)\ntwo")', op("set", "LINES", "one)\ntwo")),
        ('unsetenv("GONE","was")', op("unset", "GONE")),
    ],
)
def test_values_are_what_lmod_says_to_the_byte(statement: str, expected: EnvOp) -> None:
    after = op("set", "NEXT", "1")
    assert steps(f'{statement}\nsetenv("NEXT","1")\n') == [expected, after]


def test_who_loads_it_is_only_known_at_load() -> None:
    text = f'setenv("A","{SHOWN_HOME}/$x/{SHOWN_USER}")\nprepend_path("PATH","{SHOWN_HOME}/bin")\nprepend_path("PATH","/x")\n'
    a, path, x = steps(text)
    assert a == op("set", "A", "${HOME}/$$x/${USER}").model_copy(update={"at_load": True})
    assert path == op("prepend", "PATH", "${HOME}/bin").model_copy(update={"at_load": True})
    assert flatten("top", {"top": Shown("top", (a, path, x))})[1] == (a, path, x)


@pytest.mark.parametrize(
    "statement",
    [
        'set_alias("t","toy")',
        'execute{cmd="echo hi",modeA={"load"}}',
        'remove_path("PATH","/x")',
        'source_sh("bash","x")',
        'set_shell_function("f","echo","echo")',
    ],
)
def test_what_a_flat_module_cannot_repeat_is_an_error(statement: str) -> None:
    with pytest.raises(EnvmgrError) as caught:
        steps(f'setenv("A","1")\n{statement}\n')
    assert str(caught.value) == (
        "error[module-unreadable]: EasyBuild's module toy/1.0 does what a flat module cannot repeat\n"
        f"  {statement}\n"
        "\n"
        "hint: leave it out of the easyconfig (modaliases, modluafooter), or say it in the recipe's environment"
    )


def modules(**made: list[str | EnvOp]) -> dict[str, Shown]:
    return {name: Shown(name, tuple(steps)) for name, steps in made.items()}


def test_what_several_load_does_its_work_once_and_first() -> None:
    order, ops = flatten(
        "top",
        modules(
            top=["left", "right", op("set", "TOP", "1")],
            left=["base", op("set", "LEFT", "1")],
            right=["base", op("set", "RIGHT", "1")],
            base=[op("set", "BASE", "1")],
        ),
    )
    assert order == ["base", "left", "right", "top"]
    assert [o.name for o in ops] == ["BASE", "LEFT", "RIGHT", "TOP"]


def test_the_last_value_of_a_variable_wins_whether_it_is_set_or_taken_away() -> None:
    _, ops = flatten(
        "top",
        modules(
            top=["base", op("set", "A", "top"), op("unset", "B"), op("set", "C", "top")],
            base=[op("set", "A", "base"), op("set", "B", "base"), op("unset", "C")],
        ),
    )
    assert ops == (op("set", "A", "top"), op("unset", "B"), op("set", "C", "top"))


def test_lists_come_to_what_the_chain_makes_of_them() -> None:
    _, ops = flatten(
        "top",
        modules(
            top=[
                "base",
                op("prepend", "PATH", "/top"),
                op("append", "MANPATH", "/top"),
                op("prepend", "PATH", "/base"),
            ],
            base=[op("prepend", "PATH", "/base"), op("append", "MANPATH", "/base"), op("prepend", "PATH", "/deep")],
        ),
    )
    assert ops == (op("prepend", "PATH", "/base:/top:/deep"), op("append", "MANPATH", "/base:/top"))


def test_other_separators_are_left_as_they_are() -> None:
    _, ops = flatten("top", modules(top=[op("prepend", "L", "a", " "), op("prepend", "L", "b", " ")]))
    assert ops == (op("prepend", "L", "a", " "), op("prepend", "L", "b", " "))


def test_easybuild_s_development_files_are_not_named() -> None:
    _, ops = flatten("top", modules(top=[op("set", "EBDEVELTOP", "/x"), op("set", "EBROOTTOP", "/x")]))
    assert ops == (op("set", "EBROOTTOP", "/x"),)


def test_a_module_that_is_loaded_and_not_there_is_an_error() -> None:
    with pytest.raises(EnvmgrError) as caught:
        flatten("top", modules(top=["base"], base=["nowhere/1.0"]))
    assert str(caught.value) == "error[module-unreadable]: the module base loads nowhere/1.0, which is not in its lock"
