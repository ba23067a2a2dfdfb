"""The files of flips: written before `current` changes, in force by it, withdrawn where it never did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.errors import EnvmgrError
from envmgr.publish.flipfile import OvertakenError, in_force, pending_link, read_flip, sequences, withdraw
from envmgr.publish.flips import flip, flips, settle
from envmgr.publish.records import RECORD, complete_numbers, current_number
from envmgr.publish.signature import Signed
from envmgr.publish.staging import abandon
from envmgr.report import SilentReporter
from envmgr.store.prefix import Prefix
from envmgr.system import safe_paths
from tests.helpers.forked import forked
from tests.helpers.kept_reporter import Told


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    """Three complete generations, as far as flips look at them; none is current."""
    made = Prefix(tmp_path / "prefix")
    (made.root / "var").mkdir(parents=True)
    for number in (1, 2, 3):
        made.generation(number).mkdir(parents=True)
        (made.generation(number) / RECORD).write_text(json.dumps({"number": number}))
    return made


def go(prefix: Prefix, number: int) -> int:
    before = current_number(prefix)
    return flip(prefix, number, before, "a test", SilentReporter(), action="publish", signer=None)


def names(prefix: Prefix) -> list[str]:
    return sorted(path.name for path in prefix.flips.iterdir())


def came(prefix: Prefix) -> list[tuple[int, int]]:
    return [(row["sequence"], row["to"]) for row in flips(prefix)]


def test_each_flip_has_a_number_that_only_grows_and_in_force_is_the_highest_of_what_is_current(prefix: Prefix) -> None:
    assert [go(prefix, number) for number in (1, 2, 1)] == [1, 2, 3]
    force = in_force(prefix, 1)
    assert force is not None
    assert (force.record.sequence, force.record.before, force.path.name) == (3, 2, "000003.json")
    assert force.path.stat().st_mode & 0o777 == 0o444
    assert came(prefix) == [(1, 1), (2, 2), (3, 1)]


def test_a_flip_that_never_came_is_withdrawn_and_its_number_stays_taken(prefix: Prefix) -> None:
    go(prefix, 1)
    kept = prefix.current.readlink()
    go(prefix, 2)
    (prefix.flips / "000002.json.sig").write_text("signed")
    prefix.current.unlink()
    prefix.current.symlink_to(kept)
    lines = prefix.history.read_text().splitlines(keepends=True)
    prefix.history.write_text(lines[0])  # as if killed before the rename
    pending_link(prefix, 2).symlink_to("generations/0002")
    settle(prefix, SilentReporter())
    assert names(prefix) == ["000001.json", "000002.withdrawn"]
    assert not [*prefix.root.glob(".current.*")]
    assert came(prefix) == [(1, 1)]
    assert go(prefix, 2) == 3


def test_current_that_something_else_moved_is_told_and_no_flip_is_withdrawn(prefix: Prefix) -> None:
    go(prefix, 1)
    go(prefix, 2)
    prefix.current.unlink()
    prefix.current.symlink_to("generations/0001")
    told = Told()
    settle(prefix, told)
    assert told.said == [
        "warning: `current` names generation 1, and flip 2 made 2 current: something else than envmgr moved it"
    ]
    assert sequences(prefix) == [1, 2]
    assert go(prefix, 3) == 3


def test_a_signed_flip_that_left_no_link_is_not_withdrawn(prefix: Prefix) -> None:
    """It came, and who moved `current` back took its line out of the history."""
    for number in (1, 2):
        flip(prefix, number, current_number(prefix), "a test", SilentReporter(), action="publish", signer=Signs())
    prefix.current.unlink()
    prefix.current.symlink_to("generations/0001")
    prefix.history.write_text(prefix.history.read_text().splitlines(keepends=True)[0])
    told = Told()
    assert settle(prefix, told) == {1, 2}
    assert told.said == [
        "warning: `current` names generation 1, and flip 2 is newer and signed: something else than envmgr moved `current`, or wrote the flip"
    ]
    assert names(prefix) == [f"00000{number}.json{end}" for number in (1, 2) for end in ("", ".sig")]


def test_a_planted_link_withdraws_no_flip_that_followed_another_generation(prefix: Prefix) -> None:
    for number in (1, 2, 3):
        flip(prefix, number, current_number(prefix), "a test", SilentReporter(), action="publish", signer=Signs())
    prefix.current.unlink()
    prefix.current.symlink_to("generations/0001")
    prefix.history.unlink()
    for number in (2, 3):
        pending_link(prefix, number).symlink_to(f"generations/{number:04d}")
    settle(prefix, SilentReporter())
    assert [name for name in names(prefix) if name > "000003"] == ["000003.json", "000003.json.sig"]


@pytest.mark.parametrize("before", [None, 1])
def test_a_flip_that_never_came_is_withdrawn_also_where_current_is_not_there(
    prefix: Prefix, before: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first publish was killed, or somebody took `current` away since."""
    if before is not None:
        go(prefix, before)
    monkeypatch.setattr("envmgr.publish.flips._rename", lambda *_: os._exit(0))
    assert forked(lambda: flip(prefix, 2, before, "a test", SilentReporter(), action="publish", signer=Signs())) == 0
    monkeypatch.undo()
    prefix.current.unlink(missing_ok=True)
    settle(prefix, SilentReporter())
    assert not [name for name in names(prefix) if name.endswith(".sig")]
    assert not [*prefix.root.glob(".current.*")]
    go(prefix, 2)
    assert [to for _, to in came(prefix)] == [*([] if before is None else [1]), 2]


@pytest.mark.parametrize("lost", ["taken away", "of zero length"])
def test_a_lost_flip_is_no_move_where_the_history_tells_that_it_came(prefix: Prefix, lost: str) -> None:
    for number in (1, 2):
        go(prefix, number)
    newest = prefix.flips / "000002.json"
    newest.unlink()
    if lost == "of zero length":
        newest.write_bytes(b"")
    told = Told()
    stay = settle(prefix, told)
    assert told.said == []
    assert stay == ({1} if lost == "taken away" else {1, 2})
    assert go(prefix, 3) == 3


def test_the_history_is_mended_by_the_flips(prefix: Prefix) -> None:
    """A kill between the rename and the history's line: `gc` must know when the generation before was left."""
    go(prefix, 1)
    go(prefix, 2)
    prefix.history.write_text(prefix.history.read_text().splitlines(keepends=True)[0])
    rows = flips(prefix)
    assert [(row["from"], row["to"]) for row in rows] == [(None, 1), (1, 2)]
    assert rows[1]["time"] == read_flip(prefix, 2).record.date
    settle(prefix, SilentReporter())
    assert prefix.history.read_text().count("\n") == 2
    assert flips(prefix) == rows


def test_nothing_is_settled_or_made_current_beside_a_history_of_another_format(prefix: Prefix) -> None:
    go(prefix, 1)
    other = prefix.history.read_text().replace('"schema": 1', '"schema": 2')
    prefix.history.write_text(other)
    for act in (lambda: settle(prefix, SilentReporter()), lambda: go(prefix, 2)):
        with pytest.raises(EnvmgrError, match="format-unknown"):
            act()
    assert (prefix.history.read_text(), current_number(prefix), names(prefix)) == (other, 1, ["000001.json"])


def test_a_damaged_flip_harms_only_itself(prefix: Prefix) -> None:
    go(prefix, 1)
    go(prefix, 1)
    broken = prefix.flips / "000002.json"
    broken.chmod(0o644)
    broken.write_text('{"schema_version": 1')
    with pytest.raises(EnvmgrError, match="flip-damaged"):
        read_flip(prefix, 2)
    force = in_force(prefix, 1)
    assert force is not None
    assert force.record.sequence == 1
    assert go(prefix, 2) == 3


@pytest.mark.parametrize("text", ['{"schema_version": 2}', "[]", "x" * 70_000, '{"schema_version": 1, "sequence": 9}'])
def test_what_is_no_flip_is_told(prefix: Prefix, text: str) -> None:
    prefix.flips.mkdir()
    (prefix.flips / "000001.json").write_text(text)
    with pytest.raises(EnvmgrError, match=r"flip-damaged|format-unknown"):
        read_flip(prefix, 1)


def test_a_pipe_in_the_place_of_a_flip_is_not_waited_for(prefix: Prefix) -> None:
    go(prefix, 1)
    os.mkfifo(prefix.flips / "000002.json")
    assert in_force(prefix, 2) is None
    assert go(prefix, 2) == 3


def test_a_flip_that_could_not_be_signed_leaves_current_and_nothing_of_itself(prefix: Prefix) -> None:
    class Fails:
        def sign(self, content: bytes, reporter: object) -> bytes:  # noqa: ARG002
            raise EnvmgrError("not-signed", "no key")

        def judge(self, flip: object) -> object:  # noqa: ARG002
            raise AssertionError

    go(prefix, 1)
    with pytest.raises(EnvmgrError, match="not-signed"):
        flip(prefix, 2, 1, "a test", SilentReporter(), action="publish", signer=Fails())  # type: ignore[arg-type]
    assert current_number(prefix) == 1
    assert names(prefix) == ["000001.json"]
    assert go(prefix, 2) == 2


def test_a_flip_that_nobody_may_sign_is_never_seen(prefix: Prefix) -> None:
    class Stranger:
        def sign(self, content: bytes, reporter: object) -> bytes:  # noqa: ARG002
            return b"a stranger's"

        def judge(self, flip: object) -> Signed:  # noqa: ARG002
            return Signed("wrong", reason="no principal matched")

    go(prefix, 1)
    with pytest.raises(EnvmgrError, match="not-signed"):
        flip(prefix, 2, 1, "a test", SilentReporter(), action="publish", signer=Stranger())
    assert current_number(prefix) == 1
    with pytest.raises(EnvmgrError, match="not-signed"):
        flip(prefix, 1, 1, "sign", SilentReporter(), action="sign", signer=Stranger())
    assert names(prefix) == ["000001.json"]
    assert go(prefix, 2) == 2


KILLED = """
import os, signal, sys
from pathlib import Path
from envmgr.publish import flips
from envmgr.publish.flips import flip, settle
from envmgr.publish.signature import Signed
from envmgr.publish.staging import abandon
from envmgr.publish.signature import Signed
from envmgr.publish.staging import abandon
from envmgr.report import SilentReporter
from envmgr.store.prefix import Prefix
from envmgr.system import safe_paths

root, last = sys.argv[1], int(sys.argv[2])
count = 0

def hook(event, args):
    global count
    paths = [str(a) for a in args if isinstance(a, (str, bytes, os.PathLike))]
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.symlink", "os.chmod") and any(root in p for p in paths):
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)

class Signs:
    def sign(self, content, reporter):
        return b"signed"
    def judge(self, flip):
        return Signed("signed", "somebody")

prefix = Prefix(Path(root))
settle(prefix, SilentReporter())
sys.addaudithook(hook)
flip(prefix, 2, 1, "a test", SilentReporter(), action="publish", signer=Signs())
print(count)
"""


def kills(prefix: Prefix) -> Iterator[int]:
    """Kills at the first call, at the second, …, until it ran to its end."""
    for last in range(1, 200):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, prefix.root, str(last)], capture_output=True, text=True, check=False
        )
        yield last
        if done.returncode == 0:
            assert int(done.stdout) < last
            return
        assert done.returncode == -signal.SIGKILL, done.stderr
    raise AssertionError("it never ran to its end")


def test_killed_at_any_call_of_a_flip_what_is_current_is_in_force_and_no_number_is_used_twice(prefix: Prefix) -> None:
    go(prefix, 1)
    seen: dict[int, str] = {}
    both = set()
    for _ in kills(prefix):
        settle(prefix, SilentReporter())
        number = current_number(prefix)
        both.add(number)
        force = in_force(prefix, number)
        assert force is not None
        assert force.record.sequence == sequences(prefix)[-1]  # what is later was withdrawn
        assert [row for row in flips(prefix) if row["sequence"] == force.record.sequence][-1]["to"] == number
        for name in names(prefix):
            digits = int(name[:6]) if name[0] != "." else 0
            if name.endswith(".json"):
                text = (prefix.flips / name).read_text()
                assert seen.setdefault(digits, text) == text
        assert (prefix.flips / f"{force.record.sequence:06d}.json.sig").exists() == (number == 2)
        assert not [n for n in names(prefix) if n.endswith(".sig") and not (prefix.flips / n[:-4]).exists()]
        if number == 2:
            go(prefix, 1)
    assert both == {1, 2}
    rows = flips(prefix)
    assert [row["sequence"] for row in rows] == sorted(row["sequence"] for row in rows)


def test_a_flip_that_finds_another_one_stops_and_leaves_nothing(prefix: Prefix) -> None:
    """Two hosts read one `current`, where locks stay on each client: the second stands on what is not current any more."""
    go(prefix, 1)
    known = sequences(prefix)  # as both read it
    assert flip(prefix, 2, 1, "a", SilentReporter(), action="publish", signer=None, known=known) == 2
    with pytest.raises(OvertakenError, match="flip 2 was made since this run looked"):
        flip(prefix, 3, 1, "b", SilentReporter(), action="publish", signer=None, known=known)
    assert current_number(prefix) == 2
    assert names(prefix) == ["000001.json", "000002.json", "000003.withdrawn"]
    assert not [*prefix.root.glob(".current.*")]
    assert go(prefix, 3) == 4


@pytest.mark.parametrize("taken", ["000002.json", "000002.json.sig", ".current"])
def test_a_flip_whose_number_is_taken_after_it_looked_stops(
    prefix: Prefix, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old list of the folder, as NFS may give for a minute, does not say that the number is taken: the server does."""
    go(prefix, 1)
    monkeypatch.setattr("envmgr.publish.flipfile.numbers_taken", lambda _: [1])
    if taken == ".current":
        pending_link(prefix, 2).symlink_to("generations/0002")
    else:
        (prefix.flips / taken).touch()
    with pytest.raises(OvertakenError, match="flip 2 is taken"):
        flip(prefix, 3, 1, "b", SilentReporter(), action="publish", signer=Signs())
    assert current_number(prefix) == 1
    assert names(prefix) == sorted({"000001.json", *([] if taken == ".current" else [taken])})
    assert pending_link(prefix, 2).is_symlink() == (taken == ".current")


class Signs:
    def sign(self, content: bytes, reporter: object) -> bytes:  # noqa: ARG002
        return b"signed"

    def judge(self, flip: object) -> Signed:  # noqa: ARG002
        return Signed("signed", "somebody")


@pytest.mark.parametrize("signer", [None, Signs()])
def test_a_run_that_stood_still_before_its_rename_makes_nothing_current_any_more(
    prefix: Prefix, signer: Signs | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host took it for dead, withdrew its flip and made one itself: its own rename finds no link."""
    go(prefix, 1)
    real = Path.replace

    def late(self: Path, target: Path) -> Path:
        if self == pending_link(prefix, 2):
            monkeypatch.setattr(Path, "replace", real)
            known = settle(prefix, SilentReporter())
            flip(prefix, 3, 1, "theirs", SilentReporter(), action="publish", signer=signer, known=known)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", late)
    with pytest.raises(OvertakenError, match="flip 2 was withdrawn, as this run stood still"):
        flip(prefix, 2, 1, "ours", SilentReporter(), action="publish", signer=signer)
    assert current_number(prefix) == 3
    signature = [] if signer is None else ["000003.json.sig"]
    assert names(prefix) == ["000001.json", "000002.withdrawn", "000003.json", *signature]
    assert came(prefix) == [(1, 1), (3, 3)]


def test_a_run_whose_link_is_just_taken_away_stops(prefix: Prefix, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host cleans up, and has not come to the flip itself yet."""
    go(prefix, 1)
    real = Path.replace

    def late(self: Path, target: Path) -> Path:
        self.unlink()
        return real(self, target)

    monkeypatch.setattr(Path, "replace", late)
    with pytest.raises(OvertakenError):
        go(prefix, 2)
    monkeypatch.undo()
    assert (current_number(prefix), names(prefix)) == (1, ["000001.json", "000002.withdrawn"])
    assert go(prefix, 2) == 3


def test_a_flip_whose_rename_was_answered_twice_has_come(prefix: Prefix, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's answer was lost, and the client asks again: it is told that the link is gone."""
    go(prefix, 1)
    real = Path.replace

    def twice(self: Path, target: Path) -> Path:
        real(self, target)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", twice)
    assert go(prefix, 2) == 2
    assert current_number(prefix) == 2
    assert came(prefix) == [(1, 1), (2, 2)]


def test_two_hosts_that_clean_up_at_once_withdraw_a_flip_once(prefix: Prefix, monkeypatch: pytest.MonkeyPatch) -> None:
    go(prefix, 1)
    monkeypatch.setattr("envmgr.publish.flips._rename", lambda *_: os._exit(0))
    assert forked(lambda: go(prefix, 2)) == 0
    monkeypatch.undo()
    assert (names(prefix), pending_link(prefix, 2).is_symlink()) == (["000001.json", "000002.json"], True)
    real = Path.rename

    def other_first(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", real)
        settle(prefix, SilentReporter())
        return real(self, target)

    monkeypatch.setattr(Path, "rename", other_first)
    assert settle(prefix, SilentReporter()) == {1}
    assert names(prefix) == ["000001.json", "000002.withdrawn"]
    assert go(prefix, 2) == 3


def test_a_generation_that_is_removed_as_it_is_made_current_does_not_become_it(prefix: Prefix) -> None:
    class Late(Signs):
        def judge(self, flip: object) -> Signed:
            abandon(prefix, 2, "removed by gc")
            return super().judge(flip)

    go(prefix, 1)
    with pytest.raises(OvertakenError, match="generation 2 was removed"):
        flip(prefix, 2, 1, "a test", SilentReporter(), action="rollback", signer=Late())
    assert current_number(prefix) == 1


def test_withdrawing_takes_the_signature_first(prefix: Prefix, monkeypatch: pytest.MonkeyPatch) -> None:
    go(prefix, 1)
    (prefix.flips / "000001.json.sig").write_text("signed")

    def fails(self: Path, target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(EnvmgrError, match="mount-lost"):
        withdraw(prefix, 1)
    assert names(prefix) == ["000001.json"]


def test_numbers_go_on_from_what_this_machine_saw(
    prefix: Prefix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restore from a backup: nodes would call each new flip a replay."""
    stamp = tmp_path / "flip"
    monkeypatch.setattr("envmgr.publish.flips.FLIP_STAMP", str(stamp))
    stamp.write_text(f"signed 1 118 boot 1\n1 118\n118\n{prefix.root}\nx\n")
    assert go(prefix, 1) == 119
    stamp.write_text(f"signed 1 118 boot 1\n1 118\n999999999999999\n{prefix.root}\nx\n")
    assert go(prefix, 2) == 120


def test_a_file_with_a_number_that_nobody_can_count_takes_none(prefix: Prefix) -> None:
    go(prefix, 1)
    (prefix.flips / "9223372036854775807.withdrawn").touch()
    with prefix.history.open("a") as history:
        history.write(
            '{"schema": 1, "to": 1, "sequence": 9223372036854775807, "time": "x", "from": [1], "reason": ""}\n'
        )
    assert go(prefix, 2) == 2


def test_a_generation_that_is_half_removed_is_not_complete(prefix: Prefix, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lmodrc.lua", "modules.json"):
        (prefix.generation(3) / name).touch()
    before = safe_paths._remove
    left = 1

    def killed(name: str, folder: int) -> None:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        before(name, folder)

    monkeypatch.setattr(safe_paths, "_remove", killed)
    with pytest.raises(KeyboardInterrupt):
        abandon(prefix, 3, "a test")
    assert complete_numbers(prefix) == [1, 2]
    assert (prefix.generation(3) / "lmodrc.lua").exists()


def test_a_flip_of_a_later_envmgr_is_refused_and_not_withdrawn(prefix: Prefix) -> None:
    go(prefix, 1)
    later = prefix.flips / "000002.json"
    later.write_text((prefix.flips / "000001.json").read_text().replace('"schema_version": 1', '"schema_version": 2'))
    for work in (lambda: settle(prefix, SilentReporter()), lambda: in_force(prefix, 1), lambda: flips(prefix)):
        with pytest.raises(EnvmgrError, match="format-unknown"):
            work()
    assert names(prefix) == ["000001.json", "000002.json"]


@pytest.mark.parametrize("call", ["close", "fsync"])
def test_a_flip_of_which_the_disk_says_late_that_it_failed_is_not_left(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A server tells of a lost write at the close, and of a lost name when the folder is synced."""
    go(prefix, 1)
    before = getattr(os, call)

    def fails(descriptor: int) -> None:
        where = Path(f"/proc/self/fd/{descriptor}").readlink()
        before(descriptor)
        if where in (prefix.flips, prefix.flips / "000002.json"):
            raise OSError(5, "Input/output error", str(where))

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(EnvmgrError, match="mount-lost"):
        go(prefix, 2)
    monkeypatch.undo()
    assert names(prefix) == ["000001.json"]
    assert current_number(prefix) == 1
