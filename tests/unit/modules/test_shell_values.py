"""Values and functions as every shell gets them from real Lmod: exactly these bytes, or they are refused before a module is made."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.catalog.shell_rules import fault_in_value
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp, ShellFunction
from envmgr.modules.statements import ModulePolicies, operations
from envmgr.system.run import clean_env
from tests.helpers.lmod_shell import LMOD, Tree, make_tree, op, spec
from tests.helpers.waiting import DEADLINE

SHELLS = {
    "bash": ["bash", "--noprofile", "--norc"],
    "sh": ["sh"],
    "zsh": ["zsh", "-f"],
    "tcsh": ["tcsh", "-f"],
    "fish": ["fish", "--no-config"],
}
SPECIAL = [chr(n) for n in range(1, 127) if not chr(n).isalnum()]
OTHER = "é 日 😀 $HOME `id` $(id) ~root ~/x && a*b -n %s \\n x 1 ${ =ls :=ls".split()
UNSEEN = ["\x7f", "\x85", "\x9b", "\xa0", "\u202e", "\u2028", "\u200b"]


def texts(seed: int, count: int) -> Iterator[str]:
    """What makes shells stumble, alone and together: each special character in every position, then words of them by chance."""
    for each in [*SPECIAL, *OTHER, *UNSEEN]:
        yield from (each, f"a{each}b", f"{each}b", f"a{each}", f"a{each}{each}b", f"a {each} b", f"/x/{each}")
    chance = random.Random(seed)
    for _ in range(count):
        yield "".join(chance.choice([*SPECIAL, *OTHER]) for _ in range(chance.randint(0, 7)))


def load(tree: Tree, shell: str, *, after: str = "", locale: str = "C.UTF-8") -> tuple[dict[str, bytes], bytes]:
    """The variables and all that was said, after `module load app` in a folder whose files are there to be matched by mistake."""
    folder = tree.folder / "here"
    folder.mkdir(exist_ok=True)
    for name in ("a*b", "axb", "a b", "[ab]", "?", "q", "\\*", "touch", "x"):
        (folder / name).touch()
    said = tree.folder / "variables"
    source = "source" if shell in ("tcsh", "fish") else "."
    script = tree.folder / f"script.{shell}"
    script.write_text(f"{source} {LMOD.init_script(shell)}\nmodule load app\nenv -0 > {said}\n{after}\n")
    env = clean_env(MODULEPATH=str(tree.modules), HOME=str(tree.folder), LANG=locale, LC_ALL=locale)
    done = subprocess.run(
        [*SHELLS[shell], str(script)], cwd=folder, env=env, capture_output=True, check=False, timeout=DEADLINE
    )
    rows = (row.partition(b"=") for row in said.read_bytes().split(b"\0"))
    return {name.decode(errors="replace"): value for name, _, value in rows}, done.stdout + done.stderr


def changes() -> list[EnvOp]:
    made: list[EnvOp] = []
    for number, text in enumerate(texts(27, 300)):
        kind = ("set", "set-default", "set", "append")[number % 4]
        if not fault_in_value(text, as_list=False) and not (kind == "append" and not text.strip()):
            made.append(op(kind, f"V{number:04}", text, " " if kind == "append" else ":"))
        element = f"/p/{text.replace('/', '')}"
        if ":" not in element and element[3:] not in ("", ".", "..") and not fault_in_value(element, as_list=True):
            made.append(op("prepend", f"L{number:04}", element))
    return made


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_exactly_these_bytes(tmp_path: Path, shell: str, locale: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is missing")
    ops = changes()
    assert len(ops) > 600
    tree = make_tree(tmp_path, spec("app/1", *ops))
    got, said = load(tree, shell, locale=locale)
    assert said == b""
    wrong = {op.value: got.get(op.name) for op in ops if got.get(op.name) != op.value.encode()}
    assert wrong == {}


@pytest.mark.parametrize(
    "value", ["{a,touch,x}", "wow!", "a\tb", "a\nb", "\x1b[2J", "\x9b2J", "=ls", "a:=ls", "é", "\u202ex", "a\x00b"]
)
@pytest.mark.parametrize("kind", ["set", "set-default", "prepend", "append"])
def test_what_some_shell_would_not_get_is_in_no_module(kind: str, value: str) -> None:
    with pytest.raises(EnvmgrError) as caught:
        operations(spec("app/1", op(kind, "V", value)), ModulePolicies())
    assert caught.value.head == "error[module-value]: the module of app/1 cannot change 'V'"


@pytest.mark.parametrize("value", ["~/x", "/a:~root/b", " /a", "/a :/b"])
def test_what_lmod_changes_in_a_list_is_in_no_module(value: str) -> None:
    with pytest.raises(EnvmgrError):
        operations(spec("app/1", op("prepend", "V", value)), ModulePolicies())


BODIES = [
    ":; }; touch evil; f2() { :",
    "echo a\n}\ntouch evil\nf2() {",
    "cat <<'}'\n}\ntouch evil",
    "echo 'it'\\''s' \\",
    'echo "$(',
    "# }; touch evil",
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("shell", ["bash", "sh", "zsh"])
def test_whatever_a_function_says_loading_it_runs_nothing(tmp_path: Path, shell: str, body: str) -> None:
    """Should such a text ever come past the door."""
    tree = make_tree(tmp_path, spec("app/1", op("set", "V", "1"), functions=(ShellFunction(name="app_f", bash=body),)))
    after = "command -v f2 >there 2>&1; command -v app_f >here"
    got, _ = load(tree, shell, after=after)
    assert got["V"] == b"1"
    folder = tree.folder / "here"
    assert not (folder / "evil").exists()
    assert (folder / "here").read_text().strip() == "app_f"
    assert "f2" not in (folder / "there").read_text().split(":")[0]


UNSHOWN = "\x1b]0;owned\x07 \x9b31m \u202egnp.exe\u2066 \x7f"


def test_what_a_recipe_tells_never_acts_on_a_terminal(tmp_path: Path) -> None:
    from datetime import date

    from envmgr.catalog.recipe_parts import Deprecated

    gone = Deprecated.model_construct(message=UNSHOWN, date=date(2030, 1, 1))
    tree = make_tree(
        tmp_path,
        spec(
            "app/1",
            description=UNSHOWN,
            help=UNSHOWN,
            homepage=UNSHOWN,
            licence=UNSHOWN,
            category=UNSHOWN,
            extensions=(f"{UNSHOWN}/1",),
            deprecated=gone,
        ),
    )
    done = tree.shell(
        "for v in help whatis show 'spider' 'keyword app'; do module $v app; done; module load app; module avail"
    )
    told = done.stdout + done.stderr
    assert "owned" in told
    unseen = {c for c in told if not c.isprintable() and c not in "\n\t"}
    assert unseen == set()
