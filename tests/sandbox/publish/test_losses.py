"""Each part of a prefix that may be lost: what is said then leads, hint by hint, to where all is well; no number is used twice."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.done import Done
from tests.helpers.marks import LATER
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import locked
from tests.helpers.standin.channel import Channel

ONE, TWO = "one/1.0", "two/1.0"
VERBS: list[tuple[str, ...]] = [
    ("verify",),
    ("verify", "--all"),
    ("verify", "--repair"),
    ("build", ONE),
    ("rollback", "1"),
    ("gc",),
    ("publish",),
]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Sandbox]:
    """Two generations of two entries, kept as a copy beside the prefix."""
    made = Sandbox(tmp_path_factory.mktemp("losses"), str(channel.folder))
    made.write_site()
    for entry in (ONE, TWO):
        locked(made, entry, ["hello-prefix"])
        made.ok("build", entry)
    subprocess.run(["cp", "-a", made.prefix, made.root / "kept"], check=True)
    yield made
    made.clear()
    remove_tree(made.root / "kept")


@pytest.fixture
def box(scene: Sandbox) -> Sandbox:
    remove_tree(scene.prefix)
    subprocess.run(["cp", "-a", scene.root / "kept", scene.prefix], check=True)
    return scene


def gone(*patterns: str) -> Callable[[Sandbox], None]:
    def lose(box: Sandbox) -> None:
        for pattern in patterns:
            for path in box.prefix.glob(pattern):
                if path.is_symlink() or path.is_file():
                    path.unlink()
                else:
                    remove_tree(path)

    return lose


def emptied(path: str) -> Callable[[Sandbox], None]:
    def lose(box: Sandbox) -> None:
        file = box.prefix / path
        file.parent.chmod(0o755)
        file.chmod(0o644)
        file.write_bytes(b"")

    return lose


def in_the_way(box: Sandbox) -> None:
    gone("current")(box)
    (box.prefix / "current").mkdir()


LOST: dict[str, Callable[[Sandbox], None]] = {
    "all generations": gone("generations/*"),
    "the folder of generations": gone("generations"),
    "all generations and current": gone("generations", "current"),
    "all generations, current and flips": gone("generations", "current", "flips"),
    "the current generation": gone("generations/0002"),
    "the record of the current generation": gone("generations/0002/generation.json"),
    "its modules": gone("generations/0002/modules"),
    "a record of zero length": emptied("generations/0002/generation.json"),
    "specs of zero length": emptied("generations/0002/modules.json"),
    "an older generation": gone("generations/0001"),
    "an older record": emptied("generations/0001/generation.json"),
    "current": gone("current"),
    "a folder as current": in_the_way,
    "the store": gone("store"),
    "an install": gone("store/one/1.0-????????"),
    "the manifests": gone("store/*/*.manifest.json"),
    "a manifest of zero length": lambda box: emptied(
        str(next((box.prefix / "store/one").glob("*.json")).relative_to(box.prefix))
    )(box),
    "the flips": gone("flips"),
    "the history": gone("var/history.jsonl"),
    "a history of zero length": emptied("var/history.jsonl"),
    "the history and the flips": gone("var/history.jsonl", "flips"),
    "var": gone("var"),
    "the path of the prefix": gone("prefix.json"),
}
# Not told: `verify` looks at the current generation; what was done stands in the history too; each build writes the path again.
UNTOLD = {"an older generation", "an older record", "the flips", "the path of the prefix"}


def commands(text: str) -> list[str]:
    """What the first hint says to type, in its order: of several ways, which `or` and `;` part, one after the other."""
    hints = re.findall(r"^(?:hint|\s+hint): (.*(?:\n  .*)*)", text, re.MULTILINE)
    found = [c for hint in hints for c in re.findall(r"`((?:envmgr|rm|mv) [^`]*)`", hint)]
    return [c for c in dict.fromkeys(found) if not re.search(r"[A-Z]{4}", c)]


def follow(box: Sandbox, said: Done) -> list[str]:
    """Types what each hint says until nothing more is said; what was typed."""
    typed: list[str] = []
    for _ in range(8):
        todo = commands(said.stdout + said.stderr)
        if said.code == 0 or not todo:
            break
        for command in todo:
            typed.append(command)
            program, *words = shlex.split(command)
            if program != "envmgr":
                subprocess.run([program, *words], check=True)
                continue
            said = box.run(*words)
            if said.code:
                break
    return typed


@pytest.mark.parametrize("lost", LOST)
def test_hints_lead_to_where_all_is_well(box: Sandbox, lost: str) -> None:
    LOST[lost](box)
    first = box.run("verify")
    assert (first.code == 0) == (lost in UNTOLD), first.stdout + first.stderr
    typed = follow(box, first)
    well = box.run("verify")
    assert well.code == 0, (first.stdout + first.stderr, typed, well.stdout + well.stderr)
    assert {1, 2, 3} >= {int(path.name) for path in (box.prefix / "generations").iterdir()}
    box.ok("build", ONE, TWO)
    assert box.shell(f"module load {ONE} {TWO} && hello-prefix").returncode == 0, typed


BROKEN = ["all generations", "the current generation", "current", "a folder as current", "var"]
TYPED = [("verify", "--all"), ("verify", "--repair"), ("build", ONE), ("rollback", "1"), ("gc",)]


@pytest.mark.parametrize(
    ("lost", "verb"),
    [
        pytest.param(lost, verb, id=f"{lost}-{' '.join(verb)}", marks=() if of == at else LATER)
        for of, lost in enumerate(BROKEN)
        for at, verb in enumerate(TYPED)
    ],
)
def test_each_verb_says_what_leads_there(box: Sandbox, lost: str, verb: tuple[str, ...]) -> None:
    LOST[lost](box)
    first = box.run(*verb)
    typed = follow(box, first)
    typed += follow(box, box.run("verify"))
    well = box.run("verify")
    assert well.code == 0, (first.stdout + first.stderr, typed, well.stdout + well.stderr)
    assert len([*box.prefix.glob("store/*/*.manifest.json")]) == 2, "gc took what nothing names, as the names are lost"
