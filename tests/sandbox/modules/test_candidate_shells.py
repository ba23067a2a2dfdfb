"""What a volunteer's shells get with ENVMGR_USE=candidate: real shells and real Lmod, on a copy of this machine's /etc."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.node_scene import SHELLS, Scene

USE = {"ENVMGR_USE": "candidate"}
LOAD = "module load hello; echo $HELLO $ENVMGR_CANDIDATE"
LINE = "envmgr: modules of candidate 2; generation 1 is current"
PIN = "/etc/envmgr/node/pin"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Generation 1 is current, and 2 is the candidate."""
    made = Scene(tmp_path)
    made.generation(2)
    made.generation(1)
    (made.prefix / "candidate").symlink_to("generations/0002")
    made.do("apply")
    yield made
    remove_tree(tmp_path / "sw")


@pytest.mark.always
@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_the_candidate_and_says_so_at_a_load(scene: Scene, shell: str) -> None:
    done = scene.run(*SHELLS[shell], LOAD, env=USE)
    assert (done.returncode, done.stdout.split()) == (0, ["2", "0002"])
    assert done.stderr.splitlines() == [LINE]
    assert scene.said(*SHELLS[shell], "module load hello; echo $HELLO") == ["1"]


def test_a_job_of_a_shell_with_the_current_one_gets_the_candidate(scene: Scene) -> None:
    pinned = {
        "ENVMGR_PIN": f"{scene.prefix}/generations/0001",
        "MODULEPATH": f"{scene.prefix}/generations/0001/modules",
    }
    lines = scene.said("sh", PIN, "task", env=USE | pinned)
    assert f"export ENVMGR_PIN={scene.prefix}/generations/0002" in lines
    assert "export ENVMGR_CANDIDATE=0002" in lines
    assert "generations/0001" not in "\n".join(lines)


def test_a_shell_stays_with_its_candidate_and_a_new_one_gets_the_newest(scene: Scene) -> None:
    scene.generation(3)
    scene.flip(1)
    (scene.prefix / "candidate").unlink()
    (scene.prefix / "candidate").symlink_to("generations/0003")
    mine = USE | {"ENVMGR_PIN": f"{scene.prefix}/generations/0002", "ENVMGR_CANDIDATE": "0002"}
    assert f"export ENVMGR_PIN={scene.prefix}/generations/0002" in scene.said("sh", PIN, "task", env=mine)
    assert f"export ENVMGR_PIN={scene.prefix}/generations/0003" in scene.said("sh", PIN, "task", env=USE)
    scene.remove(2)  # by gc
    assert f"export ENVMGR_PIN={scene.prefix}/generations/0003" in scene.said("sh", PIN, "task", env=mine)


def test_who_goes_back_has_the_current_one_again(scene: Scene) -> None:
    mine = {"ENVMGR_PIN": f"{scene.prefix}/generations/0002", "ENVMGR_CANDIDATE": "0002"}
    lines = scene.said("sh", PIN, "task", env=mine)
    assert f"export ENVMGR_PIN={scene.prefix}/generations/0001" in lines
    assert "unset ENVMGR_CANDIDATE" in lines


def test_no_candidate_is_said_and_the_current_one_is_used(scene: Scene) -> None:
    (scene.prefix / "candidate").unlink()
    done = scene.run("bash", "-lic", LOAD, env=USE)
    assert done.stdout.split() == ["1"]
    assert f"ENVMGR_USE=candidate, and {scene.prefix} has no candidate that this shell may use" in done.stderr


def test_after_the_promote_nothing_is_said(scene: Scene) -> None:
    mine = USE | {"ENVMGR_PIN": f"{scene.prefix}/generations/0002", "ENVMGR_CANDIDATE": "0002"}
    scene.flip(2)
    (scene.prefix / "candidate").unlink()
    assert scene.said("bash", "-lc", LOAD, env=mine) == ["2 0002"]


@pytest.mark.parametrize("words", ["avail", "list", "show hello", "whatis hello", "is-loaded hello"])
def test_other_commands_say_nothing(scene: Scene, words: str) -> None:
    done = scene.run("bash", "-lc", f"module {words}", env=USE)
    assert "candidate" not in done.stderr
