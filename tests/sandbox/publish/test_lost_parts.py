"""Each part of a prefix that may be lost: what is said then leads, hint by hint, to where all is well; no number is used twice."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.done import Done
from tests.helpers.marks import LATER, in_ci
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import locked
from tests.helpers.signed import allow, make_key
from tests.helpers.standin.channel import Channel

ONE, TWO = "one/1.0", "two/1.0"
VERBS: list[tuple[str, ...]] = [
    ("verify",),
    ("verify", "--all"),
    ("build", "--again", ONE),
    ("build", ONE),
    ("rollback", "1"),
    ("gc",),
    ("publish",),
]


def two_generations(folder: Path, channel: Channel, **settings: object) -> Iterator[Sandbox]:
    """Of two entries, kept as a copy beside the prefix."""
    made = Sandbox(folder, str(channel.folder))
    made.settings |= settings
    made.write_site()
    for entry in (ONE, TWO):
        locked(made, entry, ["hello-prefix"])
        made.ok("build", entry)
    subprocess.run(["cp", "-a", made.prefix, made.root / "kept"], check=True)
    yield made
    made.clear()
    remove_tree(made.root / "kept")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Sandbox]:
    yield from two_generations(tmp_path_factory.mktemp("losses"), channel)


@pytest.fixture(scope="module")
def signed_scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Sandbox]:
    folder = tmp_path_factory.mktemp("signed-losses")
    allow(folder, make_key(folder, "admin"))
    yield from two_generations(folder, channel, signing={"key": "admin", "allowed_signers": "allowed_signers"})


@pytest.fixture
def signed_box(signed_scene: Sandbox) -> Sandbox:
    return brought_back(signed_scene)


@pytest.fixture
def box(scene: Sandbox) -> Sandbox:
    return brought_back(scene)


def brought_back(scene: Sandbox) -> Sandbox:
    remove_tree(scene.prefix)
    subprocess.run(["cp", "-a", scene.root / "kept", scene.prefix], check=True)
    return scene


def gone(*patterns: str) -> Callable[[Sandbox], None]:
    def lose(box: Sandbox) -> None:
        for pattern in patterns:
            link = box.prefix / pattern  # glob does not see one that leads nowhere
            for path in [link] if link.is_symlink() else box.prefix.glob(pattern):
                if path.is_symlink() or path.is_file():
                    path.unlink()
                else:
                    remove_tree(path)

    return lose


def emptied(path: str) -> Callable[[Sandbox], None]:
    def lose(box: Sandbox) -> None:
        file = box.prefix / path
        if not file.exists():
            return  # another loss took it
        file.parent.chmod(0o755)
        file.chmod(0o644)
        file.write_bytes(b"")

    return lose


def in_the_way(box: Sandbox) -> None:
    gone("current")(box)
    (box.prefix / "current").mkdir()


LOST: dict[str, Callable[[Sandbox], object]] = {
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
    "a manifest of zero length": lambda box: [
        emptied(str(path.relative_to(box.prefix)))(box) for path in box.prefix.glob("store/one/*.json")
    ],
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
    found = [c.replace("build ENTRY", f"build {ONE} {TWO}") for c in found]
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
            if said.code and words != ["verify"]:  # which only looks
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
    assert {1, 2, 3, 4} >= {int(path.name) for path in (box.prefix / "generations").iterdir()}
    box.ok("build", ONE, TWO)
    assert box.shell(f"module load {ONE} {TWO} && hello-prefix").returncode == 0, typed


BROKEN = ["all generations", "the current generation", "current", "a folder as current", "var"]
TYPED = [("verify", "--all"), ("build", "--again", ONE), ("build", ONE), ("rollback", "1"), ("gc",)]


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


PAIRS = {" + ".join(pair): pair for pair in itertools.combinations(LOST, 2)}
HERE = {
    "the record of the current generation + an older record",
    "the record of the current generation + an install",
    "current + the manifests",
    "all generations + the store",
}


def all_is_well_by_hints(box: Sandbox, *first: str) -> None:
    """Each finding's hints are typed, then those of what is left; three times are enough for two losses."""
    told = [box.run(*first)]
    typed = []
    for _ in range(3):
        typed += [*follow(box, told[-1]), "; "]
        told.append(box.run("verify"))
        if told[-1].code == 0:
            break
    said = [each.stdout + each.stderr for each in told]
    assert told[-1].code == 0, (typed, said)
    box.ok("build", ONE, TWO)
    assert box.shell(f"module load {ONE} {TWO} && hello-prefix").returncode == 0, (typed, said)


@pytest.mark.parametrize("pair", in_ci(PAIRS, HERE))
def test_hints_lead_to_where_all_is_well_after_two_losses(box: Sandbox, pair: str) -> None:
    for lost in PAIRS[pair]:
        LOST[lost](box)
    all_is_well_by_hints(box, "verify")


@pytest.mark.parametrize("verb", in_ci(map(" ".join, VERBS), {"build one/1.0"}))
@pytest.mark.parametrize("pair", sorted(HERE))
def test_each_verb_leads_there_after_two_losses(box: Sandbox, pair: str, verb: str) -> None:
    for lost in PAIRS[pair]:
        LOST[lost](box)
    all_is_well_by_hints(box, *verb.split())


@pytest.mark.parametrize("lost", ["the manifests + current", "all generations + the store"])
def test_the_first_hint_of_a_build_can_be_done(box: Sandbox, lost: str) -> None:
    """It named a rollback that was refused for what had gone with `current`."""
    for each in lost.split(" + "):
        LOST[each](box)
    for _ in range(3):
        done = box.run("build", ONE)
        if done.code == 0:
            return
        command = commands(done.stderr)[0]
        subprocess.run(shlex.split(command), check=True) if command.startswith("rm ") else box.ok(
            *shlex.split(command)[1:]
        )
    pytest.fail(done.stderr)


def test_publish_does_not_say_that_all_is_well_where_all_is_lost(box: Sandbox) -> None:
    for lost in ("current", "all generations", "the store"):
        LOST[lost](box)
    said = "error[nothing-published]: no generation is left, and nothing is built that the catalog has\n"
    assert said in box.run("publish").stderr


FOLDERS = ("store", "generations", "flips", "cache", "var", "var/log", "var/lock", "var/jobs", "var/jobs/holds")
PLACES = (*FOLDERS, "var/history.jsonl", "prefix.json")


@pytest.mark.parametrize("path", in_ci(PLACES, {"flips", "var", "var/history.jsonl"}))
def test_what_lies_in_the_place_of_a_folder_or_file_is_named_and_the_hints_lead_on(box: Sandbox, path: str) -> None:
    place = box.prefix / path
    gone(path)(box)
    if path in FOLDERS:
        place.write_text("")
    else:
        place.mkdir()
    fact = "is no folder, where a folder" if path in FOLDERS else "is a folder, where a file"
    for verb in VERBS:
        assert f"error[path-unusable]: {place} {fact} must be\n" in box.run(*verb).stderr, verb
    box.run("list")  # what changes nothing ends without a traceback, too
    box.run("history")
    all_is_well_by_hints(box, "verify")


SIGNED = {
    "the newest flip": gone("flips/000002.json*"),
    "the newest flip, of zero length": emptied("flips/000002.json"),
    "the newest flip, without its signature": gone("flips/000002.json"),
    "its signature": gone("flips/000002.json.sig"),
    "the newest flip and its generation": gone("flips/000002.json*", "generations/0002"),
    "the newest flip and the history": gone("flips/000002.json*", "var/history.jsonl"),
    "the current generation and an older one's modules": gone("generations/0002", "generations/0001/modules"),
    **LOST,
}


@pytest.mark.parametrize("lost", in_ci(SIGNED, {"the newest flip", "the newest flip, of zero length"}))
def test_hints_lead_to_where_all_is_well_on_a_site_that_signs(signed_box: Sandbox, lost: str) -> None:
    SIGNED[lost](signed_box)
    all_is_well_by_hints(signed_box, "verify")
