"""Nodes check what is current, and logins read what they found: the real files of node-setup, ssh-keygen and shells."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from envmgr.modules.node_paths import CHECK_FLIP, FLIP_CRON, FLIP_LINK, SIGNERS
from envmgr.modules.nodesetup import NodeFiles, node_files
from envmgr.publish import flipfile, flips
from envmgr.report import SilentReporter
from envmgr.system.files import sha256_file
from tests.helpers.node_scene import Scene
from tests.helpers.signed import SignedPrefix, make_key
from tests.helpers.waiting import wait_for


@dataclass
class Node(Scene):
    signed: SignedPrefix | None = None
    floor: int = 0

    @property
    def made(self) -> SignedPrefix:
        assert self.signed is not None
        return self.signed

    @property
    def files(self) -> NodeFiles:
        return node_files(self.site, self.made.signers.read_text(), self.floor)

    def check(self, *before: str) -> tuple[str, str]:
        """(state and numbers, the last that were signed) after a look."""
        done = self.run(*before, "sh", CHECK_FLIP, "0")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        lines = self.stamp.read_text().splitlines()
        return " ".join(lines[0].split()[:3]), lines[1]

    @property
    def stamp(self) -> Path:
        return self.folder / "lib/envmgr/flip"

    def login(self, *before: str) -> tuple[str, str]:
        """(the generation that a login gets, what it is told)."""
        done = self.run(*before, "/etc/envmgr/node/pin", "sh", "bash", "i")
        assert done.returncode == 0
        pins = [line for line in done.stdout.splitlines() if line.startswith("\\export ENVMGR_PIN=")]
        return (pins[0].rstrip("'")[-4:] if pins else "", done.stderr.replace(str(self.prefix), "SW").strip())


def make(folder: Path, policy: str = "note") -> Node:
    signed = SignedPrefix(folder)
    text = f"signing: {{key: {folder}/admin, allowed_signers: {folder}/allowed_signers}}\npolicies: {{unsigned: {policy}}}\n"
    (folder / "lib").mkdir()
    node = Node(folder, text, [f"mount --bind {folder}/lib /var/lib"], signed)
    signed.generation(1)
    signed.flip(1)
    for path, status in node.do("apply").items():
        assert status in ("written", "skipped"), path
    return node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return make(tmp_path)


@pytest.fixture
def strict(tmp_path: Path) -> Node:
    return make(tmp_path, "refuse")


def settle_down(node: Node) -> None:
    """The look that `apply` began in the background holds the lock until it ends."""
    wait_for(node.stamp.exists, what="the look that node-setup began")
    node.run("flock", "/var/lib/envmgr/lock", "true")


def test_what_is_signed_loads_without_a_word(node: Node) -> None:
    settle_down(node)
    assert node.check() == ("signed 1 1", "1 1")
    assert node.login() == ("0001", "")
    node.made.generation(2)
    node.made.flip(2)
    assert node.login() == ("0002", "envmgr: generation 2 of SW was not checked yet")
    assert node.check() == ("signed 2 2", "2 2")
    assert node.login() == ("0002", "")
    assert "by anna@example.org" in node.stamp.read_text()


def no_signature(made: SignedPrefix) -> None:
    (made.prefix.flips / "000002.json.sig").unlink()


def no_signature_of(made: SignedPrefix, sequence: int) -> None:
    (made.prefix.flips / f"{sequence:06d}.json.sig").unlink()


def no_flip(made: SignedPrefix) -> None:
    for path in made.prefix.flips.glob("000002*"):
        path.unlink()


def a_strangers(made: SignedPrefix) -> None:
    made.sign(2, key="stranger")


def for_something_else(made: SignedPrefix) -> None:
    made.sign(2, namespace="git")


def flip_rewritten(made: SignedPrefix) -> None:
    made.move(2)
    text = (made.prefix.flips / "000001.json").read_text()
    made.change("flips/000002.json", text.replace('"generation": 1', '"generation": 2').replace("1,", "2,"))


def module_changed(made: SignedPrefix) -> None:
    made.change("generations/0002/modules/hello/1.0.lua", 'os.execute("id")\n')


def module_added(made: SignedPrefix) -> None:
    made.change("generations/0002/modules/hello/2.0.lua", 'os.execute("id")\n')


def record_changed(made: SignedPrefix) -> None:
    module_changed(made)
    folder = made.prefix.generation(2)
    record = json.loads((folder / "generation.json").read_text())
    record["files"]["modules/hello/1.0.lua"] = sha256_file(folder / "modules/hello/1.0.lua")
    made.change("generations/0002/generation.json", json.dumps(record, indent=1))


def module_is_a_link(made: SignedPrefix) -> None:
    module = made.prefix.generation(2) / "modules/hello/1.0.lua"
    (made.folder / "elsewhere.lua").write_text(module.read_text())
    module.unlink()
    module.symlink_to(made.folder / "elsewhere.lua")


def flip_is_a_pipe(made: SignedPrefix) -> None:
    os.mkfifo(made.prefix.flips / "000003.json")
    (made.prefix.flips / "000002.json").unlink()
    os.mkfifo(made.prefix.flips / "000002.json")


def signature_is_a_link(made: SignedPrefix) -> None:
    (made.prefix.flips / "000002.json.sig").unlink()
    (made.prefix.flips / "000002.json.sig").symlink_to("/etc/shadow")


WRONG = "envmgr: what is current in SW is not what was signed"
UNSIGNED = "envmgr: nobody signed that generation 2 of SW is the current one"


@pytest.mark.parametrize(
    ("harm", "state", "told"),
    [
        (no_signature, "unsigned 2 2", UNSIGNED),
        (no_flip, "unsigned 2 0", UNSIGNED),
        (a_strangers, "wrong 2 2", WRONG),
        (for_something_else, "wrong 2 2", WRONG),
        (flip_rewritten, "wrong 2 2", WRONG),
        (module_changed, "wrong 2 2", WRONG),
        (module_added, "wrong 2 2", WRONG),
        (record_changed, "wrong 2 2", WRONG),
        (module_is_a_link, "wrong 2 2", WRONG),
        (flip_is_a_pipe, "unsigned 2 0", UNSIGNED),
        (signature_is_a_link, "unsigned 2 2", UNSIGNED),
    ],
)
def test_what_is_not_signed_is_kept_out_or_told(
    strict: Node, harm: Callable[[SignedPrefix], None], state: str, told: str
) -> None:
    settle_down(strict)
    strict.check()
    strict.made.generation(2)
    strict.made.flip(2)
    harm(strict.made)
    assert strict.check() == (state, "1 1")
    assert strict.login() == ("0001", f"{told}: generation 1 is kept")
    settings = strict.etc / "envmgr/node/settings"
    settings.write_text(
        settings.read_text().replace("signed='refuse'", "signed='note'").replace("signed=refuse", "signed=note")
    )
    assert strict.login() == ("0002", told)


@pytest.mark.parametrize("harm", [module_changed, module_added, record_changed, module_is_a_link])
def test_the_last_one_that_was_signed_is_not_kept_when_it_was_changed(
    strict: Node, harm: Callable[[SignedPrefix], None]
) -> None:
    settle_down(strict)
    strict.made.generation(2)
    strict.made.flip(2)
    assert strict.check() == ("signed 2 2", "2 2")
    harm(strict.made)
    assert strict.check() == ("wrong 2 2", "0 0")
    assert strict.login() == ("", f"{WRONG}: its modules are not in this shell.")
    strict.made.generation(3)
    strict.made.flip(3)
    no_signature_of(strict.made, 3)
    assert strict.check() == ("unsigned 3 3", "0 0")
    assert strict.login()[0] == ""


def test_one_that_was_changed_is_not_gone_back_to(strict: Node) -> None:
    settle_down(strict)
    strict.made.generation(2)
    strict.made.flip(2)
    strict.check()
    strict.made.generation(3)
    strict.made.flip(3)
    no_signature_of(strict.made, 3)
    module_changed(strict.made)
    assert strict.check() == ("unsigned 3 3", "0 0")
    assert strict.login()[0] == ""


def test_a_generation_has_one_name(strict: Node) -> None:
    settle_down(strict)
    strict.check()
    generations = strict.prefix / "generations"
    shutil.copytree(generations / "0001", generations / "00001")
    strict.made.prefix.current.unlink()
    strict.made.prefix.current.symlink_to("generations/00001")
    assert strict.check()[0].startswith("wrong ")


def test_numbers_that_no_shell_can_count_are_no_numbers(strict: Node) -> None:
    settle_down(strict)
    strict.made.generation(2)
    strict.made.flip(2)
    text = (strict.made.prefix.flips / "000002.json").read_text()
    strict.made.change(
        "flips/9223372036854775807.json", text.replace('"sequence": 2', '"sequence": 9223372036854775807')
    )
    assert strict.check()[0].split()[0] in ("wrong", "signed")
    assert strict.stamp.read_text().splitlines()[2] in ("1", "2")


def test_nobody_else_can_hold_the_check(node: Node) -> None:
    settle_down(node)
    lock = node.stamp.with_name("lock")
    lock.chmod(0o644)
    node.check()
    assert lock.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("forget", [False, True])
def test_an_earlier_generation_comes_back_by_a_signed_flip_alone(strict: Node, forget: bool) -> None:
    settle_down(strict)
    strict.made.generation(2)
    strict.made.flip(2)
    assert strict.check() == ("signed 2 2", "2 2")
    strict.made.move(1)
    if forget:
        for path in strict.made.prefix.flips.glob("000002*"):
            path.unlink()
    assert strict.check() == ("replayed 1 1", "2 2")
    words = "envmgr: generation 1 of SW was current before, and is again without a new signature: generation 2 is kept"
    assert strict.login() == ("0002", words)
    strict.made.flip(1)
    assert strict.check() == ("signed 1 3", "1 3")
    assert strict.login() == ("0001", "")


def forget(node: Node, how: str) -> None:
    """As a node that is new, was installed again, or whose file was damaged."""
    settle_down(node)
    if how == "no file":
        node.stamp.unlink()
        node.stamp.with_name("good").unlink(missing_ok=True)
    elif how == "folder":
        for file in (node.stamp, node.stamp.with_name("good")):
            file.unlink(missing_ok=True)
            file.mkdir()
            (file / "x").touch()
    else:
        node.stamp.write_text({"empty": "", "garbage": "\0\1x\n%s $(id)\n9999999999999999\n"}[how])


@pytest.mark.parametrize("how", ["no file", "empty", "garbage", "folder"])
def test_a_node_without_memory_takes_no_earlier_generation(strict: Node, how: str) -> None:
    """The newest flip that was signed counts, and what is planted without a signature does not."""
    strict.made.generation(2)
    strict.made.flip(2)
    forget(strict, how)
    strict.made.move(1)
    text = (strict.made.prefix.flips / "000002.json").read_text()
    strict.made.change("flips/999999999999.json", text.replace('"sequence": 2', '"sequence": 999999999999'))
    strict.made.change("flips/999999999999.json.sig", "nothing\n")
    assert strict.check() == ("replayed 1 1", "0 0")
    assert strict.login()[0] == ""
    for path in strict.made.prefix.flips.glob("000002*"):
        path.unlink()
    assert strict.check() == ("replayed 1 1", "0 0"), "it remembers what it saw"
    for path in strict.made.prefix.flips.glob("999999999999*"):
        path.unlink()
    strict.made.flip(1)
    assert strict.check()[0].startswith("signed 1 ")


@pytest.mark.parametrize("how", ["remembers", "no file"])
@pytest.mark.parametrize("to", [1, 2])
def test_a_run_that_is_killed_when_it_has_signed_makes_no_replay(strict: Node, how: str, to: int) -> None:
    settle_down(strict)
    strict.made.generation(2)
    strict.made.flip(2)
    strict.made.flip(1)
    if how == "remembers":
        assert strict.check() == ("signed 1 3", "1 3")
    else:
        forget(strict, how)
    strict.made.killed_flip(to)
    assert strict.check() == ("signed 1 3", "1 3")
    assert strict.login() == ("0001", "")
    assert strict.stamp.read_text().splitlines()[2] == "3", "it may be withdrawn"
    strict.made.flip(2)
    assert strict.check() == ("signed 2 5", "2 5")


@pytest.mark.parametrize("how", ["remembers", "no file"])
def test_a_run_that_is_killed_as_it_settles_a_kill_makes_no_replay(strict: Node, how: str) -> None:
    settle_down(strict)
    strict.made.generation(2)
    if how == "no file":
        forget(strict, how)
    strict.made.killed_flip(2)
    for step in ("withdraw", "clear_stopped"):  # killed when the link is stopped; when the flip is withdrawn, too
        with mock.patch.object(flipfile, step, side_effect=KeyboardInterrupt), suppress(KeyboardInterrupt):
            flips.settle(strict.made.prefix, SilentReporter())
        assert strict.check() == ("signed 1 1", "1 1")
        assert strict.login() == ("0001", "")
        assert strict.stamp.read_text().splitlines()[2] == "1"
    flips.settle(strict.made.prefix, SilentReporter())
    assert strict.check() == ("signed 1 1", "1 1")
    strict.made.flip(2)
    assert strict.check() == ("signed 2 3", "2 3")


@pytest.mark.parametrize("back_to", [1, 2])
def test_a_planted_link_hides_no_replay_from_a_node_that_remembers_and_one_flip_from_another(
    strict: Node, back_to: int
) -> None:
    """No more than who takes the newest flip away."""
    settle_down(strict)
    for number in (2, 3):
        strict.made.generation(number)
        strict.made.flip(number)
    assert strict.check() == ("signed 3 3", "3 3")
    strict.made.move(back_to)
    (strict.prefix / ".current.000003.tmp").symlink_to("generations/0003")
    assert strict.check()[0] == f"replayed {back_to} {back_to}"
    forget(strict, "no file")
    state = "signed" if back_to == 2 else "replayed"
    assert strict.check()[0] == f"{state} {back_to} {back_to}"


def test_a_memory_that_nobody_may_read_gives_no_modules_until_the_next_look(strict: Node) -> None:
    settle_down(strict)
    strict.made.generation(2)
    strict.made.flip(2)
    strict.check()
    strict.stamp.chmod(0)
    powerless = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    words = (
        "envmgr: nothing on this machine has checked who signed generation 2 of SW: its modules are not in this shell."
    )
    assert strict.login(*powerless) == ("", words)
    strict.made.move(1)
    assert strict.check(*powerless) == ("replayed 1 1", "0 0"), "the newest signed flip counts"
    strict.made.move(2)
    assert strict.check() == ("signed 2 2", "2 2")
    assert strict.login() == ("0002", "")
    assert strict.stamp.stat().st_mode & 0o777 == 0o644


def test_a_flip_of_the_same_generation_without_a_signature_takes_nothing_away(strict: Node) -> None:
    settle_down(strict)
    text = (strict.made.prefix.flips / "000001.json").read_text()
    strict.made.change("flips/000009.json", text.replace('"sequence": 1', '"sequence": 9'))
    strict.made.change("flips/000009.json.sig", "nothing\n")
    assert strict.check() == ("signed 1 1", "1 1")


@pytest.mark.parametrize("how", ["no file", "empty", "garbage"])
def test_node_setup_leaves_a_floor(strict: Node, how: str) -> None:
    """Also where the newer flip was deleted, and the node remembers nothing."""
    strict.made.generation(2)
    strict.made.flip(2)
    strict.floor = 2
    (strict.etc / "envmgr/node/settings").write_text(strict.files.files[0].text)
    forget(strict, how)
    strict.made.move(1)
    for path in strict.made.prefix.flips.glob("000002*"):
        path.unlink()
    assert strict.check() == ("replayed 1 1", "0 0")
    strict.made.flip(1)
    strict.made.flip(1)
    assert strict.check()[0].startswith("signed 1 ")


@pytest.mark.parametrize("date", ["2025-01-01", "2125-01-01"])
def test_an_old_signature_is_not_taken_by_a_node_that_sees_it_first(tmp_path: Path, date: str) -> None:
    """As TUF's timestamp: it cannot tell whether a newer one is kept from it. One that knows the flip keeps it."""
    node = make(tmp_path, "refuse")
    settle_down(node)
    assert node.check() == ("signed 1 1", "1 1")
    settings = node.etc / "envmgr/node/settings"
    settings.write_text(f"{settings.read_text()}signed_days=30\n")
    flip = node.made.prefix.flips / "000001.json"
    node.made.change("flips/000001.json", re.sub(r'"date": "[-0-9]+', f'"date": "{date}', flip.read_text()))
    node.made.sign(1)
    assert node.check() == ("expired 1 1", "1 1")
    assert node.login() == ("0001", "")
    forget(node, "no file")
    assert node.check() == ("stale 1 1", "0 0")
    words = (
        "envmgr: the signature of generation 1 of SW is older than this site allows: its modules are not in this shell."
    )
    assert node.login() == ("", words)
    node.made.flip(1)
    assert node.check() == ("signed 1 2", "1 2")


def test_a_key_that_is_not_valid_any_more_keeps_nothing_out(strict: Node) -> None:
    settle_down(strict)
    signers = strict.etc / SIGNERS.removeprefix("/etc/")
    signers.write_text(strict.made.signers.read_text().replace("namespaces", 'valid-before="20260101",namespaces'))
    flip = strict.made.prefix.flips / "000001.json"
    strict.made.change("flips/000001.json", re.sub(r'"date": "\d+', '"date": "2025', flip.read_text()))
    strict.made.sign(1)
    assert strict.check() == ("expired 1 1", "1 1")
    assert strict.login() == ("0001", "")


def test_a_site_that_changes_its_key(strict: Node) -> None:
    """The list comes to nodes by node-setup. What a key signed that is out of it counts for nothing, as newest flip, too."""
    settle_down(strict)
    made, on_node = strict.made, strict.etc / SIGNERS.removeprefix("/etc/")
    old, new = made.signers.read_text(), f"ben {make_key(strict.folder, 'new').with_suffix('.pub').read_text()}"
    made.signers.write_text(f"{old}{new}")
    made.generation(2)
    made.flip(2, key="new")
    assert strict.check() == ("wrong 2 2", "1 1"), "it has the list of before"
    assert strict.login() == ("0001", f"{WRONG}: generation 1 is kept")
    on_node.write_text(f"{old}{new}")
    assert strict.check() == ("signed 2 2", "2 2")
    made.flip(1)
    assert strict.check() == ("signed 1 3", "1 3"), "both may sign"
    on_node.write_text(new)
    assert strict.check() == ("wrong 1 3", "1 3")
    made.move(2)
    assert strict.check() == ("replayed 2 2", "1 3")
    forget(strict, "no file")
    assert strict.check() == ("signed 2 2", "2 2"), "the key of flip 3 counts for nothing"
    made.flip(1, key="new")
    assert strict.check() == ("signed 1 4", "1 4")


def test_without_a_check_it_loads_with_a_note_or_not_at_all(strict: Node) -> None:
    settle_down(strict)
    strict.stamp.unlink()
    words = "envmgr: nothing on this machine has checked who signed generation 1 of SW"
    assert strict.login() == ("", f"{words}: its modules are not in this shell.")
    settings = strict.etc / "envmgr/node/settings"
    settings.write_text(settings.read_text().replace("refuse", "note"))
    assert strict.login() == ("0001", words)


@pytest.mark.parametrize("why", ["another boot", "long ago"])
def test_a_check_that_is_old_is_told(node: Node, why: str) -> None:
    """After a reboot, or when the timer does not run."""
    settle_down(node)
    node.check()
    if why == "another boot":
        first, *others = node.stamp.read_text().splitlines()
        words = first.split()
        node.stamp.write_text("\n".join([" ".join([*words[:3], "another-boot", words[4]]), *others]) + "\n")
    else:
        script = node.etc / "envmgr/node/signed.sh"
        script.write_text(script.read_text().replace("LATE=1200", "LATE=-1"))
    assert node.login() == ("0001", "envmgr: the signature of generation 1 of SW was not checked lately")


def test_what_another_prefix_had_does_not_count(node: Node) -> None:
    settle_down(node)
    node.check()
    lines = node.stamp.read_text().splitlines()
    node.stamp.write_text("\n".join([lines[0], "7 99", "99", "/elsewhere", lines[4]]) + "\n")
    assert node.login()[1] == "envmgr: nothing on this machine has checked who signed generation 1 of SW"
    assert node.check() == ("signed 1 1", "1 1")


def test_a_look_that_hangs_is_not_joined_by_others(node: Node) -> None:
    settle_down(node)
    before = node.check()
    stamp = node.stamp.read_text()
    done = node.run("sh", "-c", f"exec 8>/var/lib/envmgr/lock; flock 8; sh {CHECK_FLIP}")
    assert done.returncode == 0
    assert node.stamp.read_text() == stamp
    assert node.check() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be nobody to a file server")
def test_root_that_is_nobody_to_the_file_server_lets_the_owner_read(node: Node) -> None:
    settle_down(node)
    for path in (node.prefix, *node.prefix.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    node.prefix.chmod(0o750)
    for folder in (node.folder, *node.folder.parents):
        if (mode := folder.stat().st_mode & 0o7777) & 0o055 != 0o055:
            folder.chmod(mode | 0o055)
    squashed = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "sh", CHECK_FLIP, "0")
    for state, mode in (("signed 1 1", 0o755), ("unchecked 1 0", 0)):
        (node.prefix / "flips").chmod(mode)
        done = node.run(*squashed)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert node.stamp.read_text().startswith(f"{state} ")
    node.prefix.chmod(0o755)


def test_shells_that_have_a_generation_are_not_asked_again(strict: Node) -> None:
    settle_down(strict)
    strict.check()
    strict.made.move(1)
    no = strict.run("/etc/envmgr/node/pin", "sh", "bash", "i", env={"ENVMGR_PIN": f"{strict.prefix}/generations/0001"})
    assert no.stderr == ""


def test_everything_goes_again(node: Node) -> None:
    settle_down(node)
    found = node.do("undo")
    assert found[SIGNERS] == found[CHECK_FLIP] == "removed"
    assert {found[FLIP_LINK], found[FLIP_CRON]} <= {"removed", "skipped"}
    assert not (node.folder / "lib/envmgr").exists()


@pytest.mark.parametrize("installed", [True, False])
def test_cron_runs_the_check_wherever_systemd_does_not_run(node: Node, installed: bool) -> None:
    """systemd may be installed where it never runs, as in a container, or where it runs later, as in an image."""
    settle_down(node)
    node.do("undo")
    (node.etc / "cron.d").mkdir(exist_ok=True)
    shutil.rmtree(node.etc / "systemd", ignore_errors=True)
    if installed:
        for name in ("multi-user", "timers"):
            (node.etc / f"systemd/system/{name}.target.wants").mkdir(parents=True)
    cron, link = node.etc / FLIP_CRON.removeprefix("/etc/"), node.etc / FLIP_LINK.removeprefix("/etc/")
    assert node.do("check")[FLIP_CRON] == "would-write"
    assert node.do("apply")[FLIP_CRON] == "written"
    settle_down(node)
    assert link.is_symlink() == installed
    assert node.do("check")[FLIP_CRON] == "same"

    # The line itself, as cron's shell runs it: it does nothing where systemd runs.
    line = next(line for line in cron.read_text().splitlines() if line.startswith("*/5 "))
    command = line.split(None, 6)[6]
    stamp = node.folder / "lib/envmgr/flip"
    stamp.unlink()
    done = node.run("sh", "-c", command)
    assert (done.returncode, done.stderr, stamp.exists()) == (0, "", True)
    stamp.unlink()
    (node.folder / "run/systemd/system").mkdir(parents=True)
    assert node.run("sh", "-c", command).returncode == 0
    assert not stamp.exists()

    # systemd runs from now on: what is there stays as it should be, and goes with the rest.
    assert node.do("check")[FLIP_CRON] == "same"
    assert node.do("undo")[FLIP_CRON] == "removed"
    assert not cron.exists()
    assert node.do("check")[FLIP_CRON] == "skipped"


def candidate_of(node: Node, env: dict[str, str] | None = None) -> str:
    done = node.run("/etc/envmgr/node/pin", "sh", "bash", "i", env={"ENVMGR_USE": "candidate", **(env or {})})
    assert done.returncode == 0
    pins = [line for line in done.stdout.splitlines() if line.startswith("\\export ENVMGR_PIN=")]
    return pins[0].rstrip("'")[-4:]


@pytest.mark.parametrize("policy", ["note", "refuse"])
def test_candidate_is_used_where_its_marker_is_signed(tmp_path: Path, policy: str) -> None:
    node = make(tmp_path, policy)
    settle_down(node)
    node.check()
    node.made.candidate(2)
    assert candidate_of(node) == ("0002" if policy == "note" else "0001")  # nobody has looked at it yet
    assert node.check() == ("signed 1 1", "1 1")
    assert candidate_of(node) == "0002"
    node.made.change("generations/0002/modules/hello/1.0.lua", 'os.execute("id")\n')
    assert node.check() == ("signed 1 1", "1 1")
    assert candidate_of(node) == ("0002" if policy == "note" else "0001")


def test_signature_of_a_flip_is_none_of_a_candidate_and_the_other_way_round(tmp_path: Path) -> None:
    node = make(tmp_path, "refuse")
    settle_down(node)
    node.made.candidate(2)
    marker = node.made.prefix.candidates / "0002.json"
    flips_folder = node.made.prefix.flips
    for end in ("", ".sig"):  # a stranger puts the marker among the flips, and moves `current`
        shutil.copy(f"{marker}{end}", f"{flips_folder}/000002.json{end}")
    (node.made.prefix.current).unlink()
    node.made.prefix.current.symlink_to("generations/0002")
    state, good = node.check()
    assert state.split()[0] != "signed"
    assert good == "1 1"
