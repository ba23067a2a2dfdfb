"""The flip in force, looked at while others publish, and after a kill: a replay is told where there is one, and never else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envmgr.audit.checks import signature
from envmgr.audit.controller import Controller
from envmgr.catalog.site import load_site
from envmgr.nodes.sets import NodeSets
from envmgr.publish import flip_checks, flip_guards, flipfile, records
from envmgr.publish.flipfile import sequences, withdraw
from envmgr.publish.flips import settle
from envmgr.publish.records import read_current
from envmgr.publish.signature import KeySigner
from envmgr.publish.staging import abandon
from envmgr.report import SilentReporter
from envmgr.steps import Context
from envmgr.steps.verify import VerifyWhat, look
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner
from envmgr.verbs.sign import sign
from tests.helpers.evidence import evidence
from tests.helpers.forked import forked
from tests.helpers.signed import SignedPrefix, make_key


@pytest.fixture
def made(tmp_path: Path) -> SignedPrefix:
    """Generation 2 is current, after 1; 3 is complete."""
    made = SignedPrefix(tmp_path)
    for number in (1, 2, 3):
        made.generation(number)
    for number in (1, 2):
        made.flip(number)
    return made


def context(made: SignedPrefix, *, signs: bool = False) -> Context:
    site = made.folder / "site.yaml"
    site.write_text(f"prefix: {made.prefix.root}\nsigning: {{key: admin, allowed_signers: allowed_signers}}\n")
    return Context(
        load_site(site, {}), Runner(), SilentReporter(), {}, KeySigner(made.signing, Runner()) if signs else None
    )


def verified(made: SignedPrefix) -> list[str]:
    return [each.found for each in look(context(made), VerifyWhat()).result().findings if each.check == "flip"]


def signed(made: SignedPrefix) -> list[str]:
    return [each.found for each in sign(context(made, signs=True), dry_run=True).faults]


def audited(made: SignedPrefix) -> list[str]:
    seen = replace(evidence({}), site=context(made).site)
    controller = Controller(Runner(), NodeSets(seen.site, Runner()), jobs=False, end=0.0)
    return [fault.found for fault in signature.ask_controller(controller, seen).faults]


LOOKS = [verified, signed, audited]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("step", ["in_force", "came"])
@pytest.mark.parametrize("to", [1, 3])
def test_a_publish_beside_a_look_is_no_replay(
    made: SignedPrefix, look: Callable[[SignedPrefix], list[str]], step: str, to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between `current`, the flip and the history, each of them read once."""
    modules = [m for m in (flipfile, flip_checks, flip_guards) if hasattr(m, step)]
    real = getattr(modules[0], step)

    def beside(*args: object) -> object:
        for module in modules:
            monkeypatch.setattr(module, step, real)
        found = real(*args) if step == "in_force" else None
        made.flip(to)
        return found if step == "in_force" else real(*args)

    for module in modules:
        monkeypatch.setattr(module, step, beside)
    assert look(made) == []


@pytest.mark.parametrize("look", LOOKS)
def test_a_replay_is_told(made: SignedPrefix, look: Callable[[SignedPrefix], list[str]]) -> None:
    made.move(1)
    assert [words.removeprefix("replayed: ") for words in look(made)] == [
        "flip 1 is in force, and flip 2 came after it"
    ]


def words(found: list[str]) -> list[str]:
    return [text.removeprefix("replayed: ").removeprefix("gap: ") for text in found]


@pytest.mark.parametrize("look", LOOKS)
def test_a_replay_is_told_by_the_newest_signed_flip_where_nothing_else_remembers_it(
    made: SignedPrefix, look: Callable[[SignedPrefix], list[str]]
) -> None:
    made.move(1)
    made.prefix.history.unlink()
    assert words(look(made)) == ["flip 1 is in force, and flip 2 of generation 2 is signed"]


@pytest.mark.parametrize("look", LOOKS)
def test_a_planted_link_hides_no_replay(made: SignedPrefix, look: Callable[[SignedPrefix], list[str]]) -> None:
    """As if a run were about to make the newest flip current; which says itself what it was to follow."""
    made.flip(3)
    made.move(1)
    made.prefix.history.unlink()
    (made.prefix.root / ".current.000003.tmp").symlink_to("generations/0003")
    assert words(look(made)) == ["flip 1 is in force, and flip 3 of generation 3 is signed"]


@pytest.mark.parametrize("look", LOOKS)
def test_a_number_without_a_good_signature_makes_no_replay(
    made: SignedPrefix, look: Callable[[SignedPrefix], list[str]]
) -> None:
    planted = made.prefix.flips / "000003.json"
    second = (made.prefix.flips / "000002.json").read_text()
    planted.write_text(second.replace('"sequence": 2', '"sequence": 3').replace('"generation": 2', '"generation": 3'))
    assert look(made) == []


@pytest.mark.parametrize("look", LOOKS)
def test_a_flip_that_is_gone_between_two_others_is_told(
    made: SignedPrefix, look: Callable[[SignedPrefix], list[str]]
) -> None:
    made.flip(3)
    for path in made.prefix.flips.glob("000002.json*"):
        path.unlink()
    assert words(look(made)) == ["there is no flip 2"]


def sign_again(made: SignedPrefix, *, accept_gap: bool = False) -> int | None:
    """As `envmgr sign`, which looks at modes, too."""
    for path in made.prefix.generations.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return sign(context(made, signs=True), accept_gap=accept_gap).sequence


def lose_flip(made: SignedPrefix, sequence: int) -> None:
    for path in made.prefix.flips.glob(f"{sequence:06d}.json*"):
        path.unlink()


def test_a_gap_is_ended_by_a_signed_flip_that_says_so_and_a_later_one_is_told(made: SignedPrefix) -> None:
    made.flip(3)
    lose_flip(made, 2)
    sign_again(made)
    assert words(verified(made)) == ["there is no flip 2"], "a plain signature, as cron makes it, accepts nothing"
    assert sign_again(made, accept_gap=True) == 5
    assert verified(made) == []
    made.flip(1)
    lose_flip(made, 3)
    assert words(verified(made)) == ["there is no flip 2 to 3"]
    sign_again(made, accept_gap=True)
    assert verified(made) == []
    lose_flip(made, 7)
    made.flip(3)
    assert words(verified(made)) == ["there is no flip 2 to 3, 7"], "with the flip goes what it accepted"


def test_nobody_else_accepts_a_gap(made: SignedPrefix) -> None:
    made.flip(3)
    lose_flip(made, 2)
    sign_again(made, accept_gap=True)
    assert verified(made) == []
    made.flip(3)
    made.sign(4, key="stranger")
    assert words(verified(made)) == ["there is no flip 2"]
    for act in ("publish", "rollback"):
        made.change("flips/000004.json", (made.prefix.flips / "000004.json").read_text().replace('"sign"', f'"{act}"'))
        made.sign(4)
        assert words(verified(made)) == ["there is no flip 2"], "by its words alone, which are of others"


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("to", [1, 3])
def test_a_kill_between_flip_and_rename_is_no_replay_and_the_next_command_settles_it(
    made: SignedPrefix, look: Callable[[SignedPrefix], list[str]], to: int
) -> None:
    made.killed_flip(to)
    assert sequences(made.prefix) == [1, 2, 3]
    assert look(made) == []
    made.flip(3)
    assert sequences(made.prefix) == [1, 2, 4]
    assert look(made) == []


CALLS = ("open", "os.rename", "os.remove", "os.symlink", "os.link", "os.chmod")


def in_another_process(made: SignedPrefix, call: Callable[[], object], before_each: Callable[[int], None]) -> int:
    """Its exit code; `before_each` gets how many calls that change the prefix, or open a file of it, there were so far."""

    def hooked() -> None:
        state = {"count": 0, "busy": 0}

        def hook(event: str, args: tuple[object, ...]) -> None:
            if state["busy"] or event not in CALLS or not any(str(made.prefix.root) in str(each) for each in args):
                return
            state["busy"] = 1
            before_each(state["count"])
            state["count"] += 1
            state["busy"] = 0

        sys.addaudithook(hook)
        call()

    return forked(hooked)


@pytest.mark.parametrize("to", [1, 2, 3])
def test_a_look_at_any_moment_of_settling_a_kill_is_no_replay(made: SignedPrefix, to: int) -> None:
    """The flip is pending, or withdrawn, and nothing between."""
    made.killed_flip(to)
    seen = made.folder / "seen"

    def look(count: int) -> None:
        with seen.open("a") as file:
            file.write(f"{count} {[*map(str, verified(made))]}\n")

    assert in_another_process(made, lambda: settle(made.prefix, SilentReporter()), look) == 0
    lines = seen.read_text().splitlines()
    assert len(lines) > 5
    assert [line for line in lines if not line.endswith(" []")] == []
    assert verified(made) == []


@pytest.mark.parametrize("to", [2, 3])
def test_a_second_kill_at_any_call_of_settling_is_no_replay_and_the_next_command_settles_it(
    made: SignedPrefix, to: int
) -> None:
    for last in range(200):
        made.killed_flip(to)

        def kill(count: int, last: int = last) -> None:
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)

        done = in_another_process(made, lambda: settle(made.prefix, SilentReporter()), kill)
        assert verified(made) == []
        settle(made.prefix, SilentReporter())
        assert verified(made) == []
        assert not [*made.prefix.root.glob(".current.*")]
        if to == 3:
            assert sequences(made.prefix) == [1, 2]
        if done == 0:
            assert last > 5
            return
        assert done == -signal.SIGKILL
    raise AssertionError("it never ran to its end")


def test_a_look_at_any_moment_of_withdrawing_a_signature_of_what_is_current_finds_nothing(made: SignedPrefix) -> None:
    """`envmgr sign` was overtaken: its flip names what is current, and is for a moment there without its signature."""
    made.killed_flip(2)
    seen = made.folder / "seen"

    def look(count: int) -> None:
        with seen.open("a") as file:
            file.write(f"{count} {[*map(str, verified(made))]}\n")

    assert in_another_process(made, lambda: withdraw(made.prefix, 3), look) == 0
    assert [line for line in seen.read_text().splitlines() if not line.endswith(" []")] == []
    assert verified(made) == []


def test_a_flip_that_is_written_and_withdrawn_as_it_is_looked_for_is_no_replay(
    made: SignedPrefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = flip_checks.newest_signed

    def beside(*args: Any, **options: Any) -> object:
        monkeypatch.setattr(flip_checks, "newest_signed", real)
        made.killed_flip(3)
        found = real(*args, **options)
        settle(made.prefix, SilentReporter())
        return found

    monkeypatch.setattr(flip_checks, "newest_signed", beside)
    assert verified(made) == []
    assert sequences(made.prefix) == [1, 2]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("stamp", ["", "\0\n\n", "signed 2 2 boot 1\n2 2\n-7\nSW\nx\n", "\xff", None])
def test_a_memory_that_cannot_be_read_is_told(
    made: SignedPrefix, look: Callable[[SignedPrefix], list[str]], stamp: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of root's own check on this host: else a look would say less than it seems to."""
    memory = made.folder / "flip"
    for module in ("flips", "flip_checks"):
        monkeypatch.setattr(f"envmgr.publish.{module}.FLIP_STAMP", str(memory))
    assert look(made) == []
    if stamp is None:
        memory.mkdir()
    else:
        memory.write_bytes(stamp.replace("SW", str(made.prefix.root)).encode("latin-1"))
    (said,) = look(made)
    assert said.removeprefix("unchecked: ").startswith("what this host has seen cannot be read: ")
    made.move(1)
    assert len(look(made)) == 2, "and the replay, by the history"


@pytest.mark.parametrize("look", LOOKS)
def test_a_site_that_changes_its_key_signs_again(made: SignedPrefix, look: Callable[[SignedPrefix], list[str]]) -> None:
    added = f"ben {make_key(made.folder, 'new').with_suffix('.pub').read_text()}"
    made.signers.write_text(made.signers.read_text() + added)
    made.flip(3, key="new")
    assert look(made) == []
    made.flip(1)
    assert look(made) == [], "both may sign"
    made.signers.write_text(added)
    (said,) = look(made)
    assert said.removeprefix("wrong: ").startswith(f"nobody of {made.signers} signed it: ")
    made.flip(1, key="new")
    assert look(made) == []
    made.move(3)
    assert words(look(made)) == ["flip 3 is in force, and flip 5 came after it"]


def test_a_generation_that_goes_as_it_is_read_is_not_current_any_more(
    made: SignedPrefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publish and a `gc` beside `list`: what was current when it began is removed."""

    real = records.read_record

    def late(prefix: Prefix, number: int) -> object:
        monkeypatch.setattr(records, "read_record", real)
        made.flip(3)
        abandon(prefix, number, "removed by gc")
        return real(prefix, number)

    monkeypatch.setattr(records, "read_record", late)
    found = read_current(made.prefix)
    assert found is not None
    assert found.number == 3


@pytest.mark.parametrize("everything", [True, False])
def test_a_generation_that_gc_takes_as_it_is_verified_is_no_finding(
    made: SignedPrefix, everything: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envmgr.steps import verify

    real = verify.verify_generation

    def late(prefix: Prefix, number: int, *args: Any) -> object:
        if number == 2:
            monkeypatch.setattr(verify, "verify_generation", real)
            made.flip(3)
            abandon(prefix, number, "removed by gc")
        return real(prefix, number, *args)

    monkeypatch.setattr(verify, "verify_generation", late)
    found = look(context(made), VerifyWhat(everything=everything)).result()
    assert 2 not in found.generations
    assert not [each.found for each in found.findings if "generations/0002" in each.where]
