"""A site that signs: what an administrator sees, and what stops them from signing what is not theirs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from envmgr.publish.flips import flips
from envmgr.store.prefix import Prefix
from envmgr.system.files import sha256_file
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, complete, data, error_of, locked
from tests.helpers.signed import allow, make_key


def signs(box: Sandbox, key: str = "admin", **settings: object) -> None:
    box.settings["signing"] = {"key": key, "allowed_signers": "allowed_signers", **settings}
    box.write_site()


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    """`hello` is published as generation 1, by a site that does not sign yet; keys are there."""
    locked(sandbox, "hello/1.0", HELLO)
    locked(sandbox, "other/1.0", HELLO)
    allow(sandbox.root, make_key(sandbox.root, "admin"))
    make_key(sandbox.root, "stranger")
    sandbox.ok("build", "hello/1.0")
    return sandbox


def names(box: Sandbox) -> list[str]:
    return sorted(path.name for path in (box.prefix / "flips").iterdir())


def faults(box: Sandbox) -> list[str]:
    return [f"{f['severity']} {f['found'].partition(':')[0]}" for f in data_of_verify(box) if f["check"] == "flip"]


def data_of_verify(box: Sandbox) -> list[dict[str, str]]:
    found = box.run("verify", "--format", "json").data["findings"]
    assert isinstance(found, list)
    return found


def change(path: Path, old: str, new: str) -> None:
    path.parent.chmod(0o755)
    path.chmod(0o644)
    path.write_text(path.read_text().replace(old, new))
    path.chmod(0o444)
    path.parent.chmod(0o555)


def test_a_site_begins_to_sign_and_each_publish_and_rollback_is_a_signed_flip(box: Sandbox) -> None:
    assert box.run("sign").code == 2
    assert error_of(box.run("sign"), box).startswith(
        "error[signs-nothing]: this site does not sign what it publishes\n"
    )
    signs(box)
    assert faults(box) == ["error unsigned"]
    before = names(box)
    dry = box.ok("sign", "--dry-run")
    assert dry.stdout == ("is unsigned: flips/000001.json.sig: it is not there\nwould sign generation 1\n")
    assert names(box) == before
    done = box.ok("sign")  # what the finding's hint says
    assert done.stdout.splitlines()[-1] == "signed generation 1: flip 2; nodes take it at their next check"
    assert box.ok("verify").stdout.splitlines()[0] == "flip 2, signed by anna"
    box.ok("build", "other/1.0")
    box.ok("rollback")
    assert names(box) == ["000001.json", *(f"00000{n}.json{end}" for n in (2, 3, 4) for end in ("", ".sig"))]
    assert [(row["sequence"], row["to"], row["reason"]) for row in flips(Prefix(box.prefix))] == [
        (1, 1, "build hello/1.0"),
        (2, 1, "sign"),
        (3, 2, "build other/1.0"),
        (4, 1, "rollback to 1"),
    ]
    assert data(box, "verify")["flip"] == "flip 4, signed by anna"
    box.ok("gc")
    box.ok("publish", "--remove", "hello/1.0")
    assert data(box, "verify")["flip"] == "flip 5, signed by anna"
    assert faults(box) == []


UNTRUSTED = "error[flip-untrusted]: generation 1 is current by a flip that is unchecked: nothing is made from it"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key": "gone"}, "error[not-signed]: the flip could not be signed with ROOT/gone"),
        ({"key": None}, "error[not-signed]: this site signs its flips, and names no key"),
        ({"key": "stranger"}, "error[not-signed]: the key that signed is not among those that the site allows"),
        (
            {"allowed_signers": "empty"},
            "error[not-signed]: the key that signed is not among those that the site allows",
        ),
    ],
)
def test_what_cannot_be_signed_is_not_published(box: Sandbox, settings: dict[str, object], message: str) -> None:
    (box.root / "empty").write_text("# nobody\n")
    signs(box)
    box.ok("sign")
    box.settings["signing"] |= settings
    box.write_site()
    for argv in (["build", "other/1.0"], ["sign"]):
        done = box.run(*argv)
        assert done.code == 3
        said = UNTRUSTED if argv[0] == "build" and "allowed_signers" in settings else message
        assert error_of(done, box).splitlines()[0] == said
        complete(box, 1)
        assert settings.get("allowed_signers") or names(box) == ["000001.json", "000002.json", "000002.json.sig"]
    signs(box)
    assert faults(box) == []  # what failed took nothing's place
    assert not list(box.prefix.glob("generations/0002/generation.json"))
    box.ok("publish", "other/1.0")
    assert faults(box) == []
    assert not [name for name in names(box) if name.endswith(".sig") and name.removesuffix(".sig") not in names(box)]


def test_what_was_changed_is_not_signed_again_and_nothing_is_made_from_it(box: Sandbox) -> None:
    signs(box)
    box.ok("sign")
    box.ok("build", "other/1.0")
    module = box.prefix / "generations/0001/modules/hello/1.0.lua"
    change(module, "help", "--help")
    done = box.run("rollback", "1")
    assert done.code == 3
    assert error_of(done, box).startswith(
        "error[generation-changed]: generation 1 is not what was published: it is not signed again\n"
        "  generations/0001/modules/hello/1.0.lua: sha256 changed\n"
    )
    complete(box, 2)
    change(box.prefix / "generations/0002/modules.json", '"hello"', '"hello "')
    words = error_of(box.run("sign"), box)
    assert words.startswith("error[generation-changed]: generation 2 ")
    assert words.endswith("; or `rm ROOT/prefix/current`; `envmgr publish` makes one of all that is built")
    done = box.run("publish", "--remove", "hello/1.0")
    assert (done.code, done.stderr.count("generation-changed")) == (3, 1)
    (box.prefix / "current").unlink()  # what the hint says
    box.ok("publish")
    assert faults(box) == []
    box.ok("publish", "--remove", "hello/1.0")


def test_publish_signs_a_generation_made_from_what_was_not_changed_of_a_damaged_one(box: Sandbox) -> None:
    """Its modules are written anew; the data that they are made from is what was signed."""
    signs(box)
    box.ok("sign")
    box.ok("build", "other/1.0")
    for number in (1, 2):
        change(box.prefix / f"generations/000{number}/modules/hello/1.0.lua", "help", "--help")
    done = box.run("sign")
    assert done.stderr.endswith(
        "hint: find out who changed it; `envmgr publish` makes a new one with the same entries\n"
    )
    box.ok("publish")
    assert (box.current(), faults(box)) == (3, [])
    assert data(box, "verify")["findings"] == []
    done = box.run("rollback", "1")
    assert done.stderr.endswith(
        "hint: find out who changed it; `envmgr rollback 3`, the newest generation that is whole; then `envmgr publish` "
        "adds what is built and not in it\n"
    )


def test_verify_says_what_is_wrong_with_the_flip_and_its_hint_mends_it(box: Sandbox) -> None:
    signs(box)
    box.ok("sign")
    box.ok("build", "other/1.0")
    mended = 3

    def told(state: str) -> None:
        nonlocal mended
        (finding,) = [f for f in data_of_verify(box) if f["check"] == "flip"]
        assert finding["found"].startswith(f"{state}: "), finding
        assert "`envmgr sign`" in finding["hint"] or state == "replayed"
        box.ok(*(["rollback", "2"] if state == "replayed" else ["sign"]))
        mended += 1
        assert data(box, "verify")["flip"] == f"flip {mended}, signed by anna"

    folder = box.prefix / "flips"
    (folder / "000003.json.sig").unlink()
    told("unsigned")
    (folder / "000004.json").chmod(0o644)
    (folder / "000004.json").write_text((folder / "000004.json").read_text().replace('"date": "20', '"date": "21'))
    told("wrong")
    current = box.prefix / "current"
    current.unlink()
    current.symlink_to("generations/0001")
    told("replayed")
    allow(box.root, box.root / "admin", 'valid-before="20200101"')
    (found,) = [f["found"] for f in data_of_verify(box) if f["check"] == "flip"]
    assert found.startswith("wrong: ")  # it never was a key of the site's, by this list
    allow(box.root, box.root / "admin")
    signs(box, expires_days=1)
    last = folder / "000006.json"
    last.chmod(0o644)
    last.write_text(re.sub(r'"date": "\d+', '"date": "2020', last.read_text()))
    (folder / "000006.json.sig").unlink()
    done = subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-n", "envmgr-flip", "-f", box.root / "admin"],
        input=last.read_bytes(),
        capture_output=True,
        check=True,
    )
    (folder / "000006.json.sig").write_bytes(done.stdout)
    told("expired")


def test_nothing_is_made_from_what_nodes_refuse(box: Sandbox) -> None:
    """A build the day after would make right what somebody moved, or of which somebody took every trace."""
    signs(box)
    box.ok("sign")
    box.ok("build", "other/1.0")
    current = box.prefix / "current"
    current.unlink()
    current.symlink_to("generations/0001")
    for argv in (["publish", "--remove", "hello/1.0"], ["publish", "other/1.0"]):
        done = box.run(*argv)
        assert done.code == 3
        assert error_of(done, box).startswith(
            "error[flip-untrusted]: generation 1 is current by a flip that is replayed: nothing is made from it\n"
        )
    box.ok("rollback", "2")  # what the hint says
    change(box.prefix / "generations/0002/modules/hello/1.0.lua", "help", "--help")
    forge(box.prefix / "generations/0002")
    for path in (*(box.prefix / "flips").glob("00000[34].json*"), box.prefix / "var/history.jsonl"):
        path.unlink()
    assert error_of(box.run("publish", "--remove", "hello/1.0"), box).startswith(
        "error[flip-untrusted]: generation 2 is current by "
    )
    current.unlink()
    current.symlink_to("generations/0001")
    words = (
        "warning: nothing tells that generation 2 is what was published: there is no signed flip of it, and no history"
    )
    assert words in box.ok("rollback", "2").stderr


def move_back(box: Sandbox) -> None:
    """To 1, as who may write the prefix, and takes the last line out of the history; generation 2 is what was signed last."""
    history = box.prefix / "var/history.jsonl"
    history.write_text("".join(history.read_text().splitlines(keepends=True)[:-1]))
    (box.prefix / "current").unlink()
    (box.prefix / "current").symlink_to("generations/0001")


MOVED = """\
error[flip-untrusted]: generation 1 is current by a flip that is replayed: {}
  flips/000002.json: flip 2 is in force, and flip 3 of generation 2 is signed

hint: someone moved `current` back: find out who; `envmgr rollback 2` makes the right one current, signed
"""


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        ("gc", "nothing is removed"),
        ("gc --now", "nothing is removed"),
        ("gc --dry-run", "nothing is removed"),
        ("publish other/1.0", "nothing is made from it"),
        ("publish --remove hello/1.0", "nothing is made from it"),
        ("build third/1.0", "nothing is made from it"),
        ("rollback 1", "fix that before you make another generation current"),
        ("rollback 3", "fix that before you make another generation current"),
        ("sign", "it is not signed"),
    ],
)
def test_no_verb_makes_a_replay_right_or_takes_away_what_tells_it(box: Sandbox, argv: str, what: str) -> None:
    signs(box)
    box.ok("sign")
    box.ok("build", "other/1.0")
    locked(box, "third/1.0", HELLO)
    if argv == "rollback 3":
        shutil.copytree(box.prefix / "generations/0002", box.prefix / "generations/0003")
        change(box.prefix / "generations/0003/generation.json", '"number": 2', '"number": 3')
    move_back(box)
    kept = {name: (box.prefix / "flips" / name).read_bytes() for name in names(box)}
    assert faults(box) == ["error replayed"]
    done = box.run(*argv.split())
    assert (done.code, box.current()) == (3, 1)
    assert MOVED.format(what).strip() in error_of(done, box).replace("  log: LOG\n", "")
    assert {name: (box.prefix / "flips" / name).read_bytes() for name in names(box)} == kept
    assert faults(box) == ["error replayed"]
    box.ok("rollback", "2")  # what the hint says
    assert (box.current(), faults(box)) == (2, [])
    assert box.ok("verify").stdout.splitlines()[0] == "flip 4, signed by anna"


def test_what_is_damaged_makes_no_replay_right(box: Sandbox) -> None:
    """Neither by a new generation of it, nor by a history written again."""
    signs(box)
    box.ok("sign")
    box.ok("build", "other/1.0")
    move_back(box)
    change(box.prefix / "generations/0001/modules/hello/1.0.lua", "help", "--help")
    words = error_of(box.run("publish"), box).replace("  log: LOG\n", "")
    assert MOVED.format("nothing is made from it").strip() in words
    for path in (box.prefix / "flips").glob("00000[12].*"):
        path.unlink()
    (box.prefix / "var/history.jsonl").unlink()
    for argv in (["publish"], ["rollback", "1"]):
        assert box.run(*argv).code != 0
    assert [name for name in names(box) if name > "000004"] == []
    box.ok("rollback", "2")
    assert (box.current(), faults(box)) == (2, [])


def test_hint_follows_no_history_that_a_newer_signed_flip_contradicts(box: Sandbox) -> None:
    """As who takes the last line away, and `current`, too, so that what is typed then moves it back."""
    signs(box)
    box.ok("sign")
    box.ok("build", "other/1.0")
    move_back(box)
    (box.prefix / "current").unlink()
    done = box.run("verify")
    assert "\nhint: `envmgr rollback 2`, the newest generation that is whole; " in done.stdout
    box.ok("rollback", "2")
    assert (box.current(), faults(box)) == (2, [])


def test_a_replay_to_what_no_flip_made_current_is_not_signed(box: Sandbox) -> None:
    signs(box)
    box.ok("sign")
    box.ok("build", "other/1.0")
    move_back(box)
    for path in (box.prefix / "flips").glob("00000[12].*"):
        path.unlink()
    words = "current: no flip made generation 1 current (was its flip lost?), and flip 3 of generation 2 is signed"
    assert words in error_of(box.run("sign"), box)
    assert faults(box) == ["error replayed"]
    box.ok("rollback", "2")
    assert faults(box) == []


@pytest.mark.parametrize("to", ["1", "3"])
def test_where_the_right_generation_is_lost_a_rollback_leads_out_of_a_replay(box: Sandbox, to: str) -> None:
    signs(box)
    box.ok("sign")
    for entry in ("other/1.0", "third/1.0"):
        if entry == "third/1.0":
            locked(box, entry, HELLO)
        box.ok("build", entry)
    box.ok("rollback", "2")
    move_back(box)
    subprocess.run(["rm", "-r", box.prefix / "generations/0002"], check=True)
    done = box.run("sign")
    assert "`envmgr rollback NUMBER`" in error_of(done, box)
    box.ok("rollback", to)
    assert (box.current(), faults(box)) == (int(to), [])
    box.ok("sign")


def forge(folder: Path) -> None:
    """The record says what lies there."""
    path = folder / "generation.json"
    record = json.loads(path.read_text())
    record["files"] = {name: sha256_file(folder / name) for name in record["files"]}
    folder.chmod(0o755)
    path.chmod(0o644)
    path.write_text(json.dumps(record, indent=1) + "\n")
    path.chmod(0o444)
    folder.chmod(0o555)


def test_an_agent_signs_with_the_key_of_which_the_site_names_the_public_part(box: Sandbox) -> None:
    box.ok("list")
    private = box.root / "admin"
    socket = box.root / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    try:
        environ = {"SSH_AUTH_SOCK": str(socket)}
        for _ in range(500):
            added = subprocess.run(
                ["ssh-add", "-q", private], env={**os.environ, **environ}, check=False, capture_output=True
            )
            if added.returncode == 0:
                break
        private.unlink()
        signs(box, "admin.pub")
        box.ok("sign", **environ)
        assert faults(box) == []
        assert box.run("sign", SSH_AUTH_SOCK=str(box.root / "nowhere")).code == 3
    finally:
        agent.kill()
        agent.wait()
    complete(box, 1)
