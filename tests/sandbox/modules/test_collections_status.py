"""The status of `module restore`: not 0 whenever the shell did not get all of the collection, in every shell, by real Lmod."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.collections_scene import SETUPS, Collections
from tests.helpers.lmod_shell import LMOD

FIRST = {"app/1.0": ["lib/1.0"], "lib/1.0": [], "tool/1.0": [], "more/1.0": [], "other/1.0": []}
SAVE = "module load app tool more; module save work; module save; show"
BEFORE = ("true", "module load other", "module load tool more")
RESTORES = ("module restore work", "module -q restore work", "module restore", "ml restore work", "ml -q restore")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Collections]:
    made = Collections(tmp_path)
    made.publish(1, FIRST)
    yield made
    remove_tree(tmp_path / "sw")


@pytest.mark.parametrize(("setup", "shell"), SETUPS)
@pytest.mark.parametrize("removed", [("app/1.0",), ("app/1.0", "more/1.0")])
def test_restore_of_a_collection_with_removed_entries_is_1_whatever_is_loaded(
    scene: Collections, setup: str, shell: str, removed: tuple[str, ...]
) -> None:
    scene.shell(setup, shell, SAVE)
    scene.publish(2, {name: [] for name in FIRST if name not in removed})
    left = ":".join(name for name in ("tool/1.0", "more/1.0") if name not in removed)
    for before in BEFORE:
        for restore in RESTORES:
            said = scene.shell(setup, shell, f"{before}; {restore}; status; show")
            assert said.out[:3] == ["1", left, "2"], (before, restore, said)
            told = [line for line in said.err if line.startswith("envmgr: ")]
            name = "work" if "work" in restore else "default"
            assert told == (
                []
                if "-q" in restore
                else [
                    *(f"envmgr: {entry} of `{name}` was removed; no other version is there" for entry in removed),
                    f"envmgr: not all of `{name}` is restored. Loaded now: {left.replace(':', ', ')}",
                ]
            )
        said = scene.shell(setup, shell, f"{before}; module restore work || echo no")
        assert said.out == ["no"], before


@pytest.mark.parametrize("shell", ["bash", "csh"])
@pytest.mark.parametrize("before", BEFORE)
def test_restore_of_all_of_a_collection_is_0(scene: Collections, shell: str, before: str) -> None:
    scene.shell("node-setup", shell, SAVE)
    scene.publish(2, FIRST)
    for restore in RESTORES:
        said = scene.shell("node-setup", shell, f"{before}; {restore}; status; show")
        assert said.out[:2] == ["0", "lib/1.0:app/1.0:tool/1.0:more/1.0"], said.err


@pytest.mark.parametrize("before", BEFORE)
def test_fish_too(scene: Collections, before: str) -> None:
    scene.shell("shell-init", "bash", SAVE)
    scene.publish(2, {name: [] for name in FIRST if name != "app/1.0"})
    for restore in RESTORES:
        script = (
            f"{scene._lines('fish')}\n{before}\n{restore}\necho $status $LOADEDMODULES\n{restore}; or exit\necho on"
        )
        done = scene.run("fish", "--no-config", "-c", script)
        assert done.stdout.splitlines() == ["1 tool/1.0:more/1.0"], (restore, done.stderr)


@pytest.mark.parametrize("value", ["LMOD_QUIET", "LMOD_EXPERT"])
def test_quiet_by_the_environment_hides_no_failure(scene: Collections, value: str) -> None:
    scene.shell("node-setup", "bash", SAVE)
    scene.publish(2, {"tool/1.0": [], "other/1.0": []})
    said = scene.shell("node-setup", "bash", "module load other; module restore work; status; show", **{value: "1"})
    assert said.out[:2] == ["1", "tool/1.0"]


@pytest.mark.parametrize("before", ["true", "module load other"])
@pytest.mark.parametrize("quiet", ["", "-q "])
def test_module_of_another_tool_that_is_gone_counts_too(scene: Collections, before: str, quiet: str) -> None:
    mine = scene.folder / "mine"
    (mine / "my").mkdir(parents=True)
    (mine / "my/1.0.lua").write_text('setenv("MY", "1")\n')
    env = {"MODULEPATH": str(mine)}
    scene.shell("node-setup", "bash", "module load my tool; module save work", **env)
    (mine / "my/1.0.lua").rename(mine / "my/.gone")
    said = scene.shell("node-setup", "bash", f"{before}; module {quiet}restore work; status; show", **env)
    assert said.out[0] == "1", said
    assert said.out[1] in ("tool/1.0", "other/1.0", "-"), said


@pytest.mark.parametrize("loaded", ["true", "module load other"])
def test_default_that_lmod_gives_up_for_the_systems_modules_is_1(scene: Collections, loaded: str) -> None:
    """Another tool's module has other dependencies now: Lmod then loads the system's modules instead."""
    mine = scene.folder / "mine"
    (mine / "my").mkdir(parents=True)
    (mine / "my/1.0.lua").write_text('setenv("MY", "1")\n')
    env = {"MODULEPATH": str(mine), "LMOD_SYSTEM_DEFAULT_MODULES": "tool"}
    scene.shell("node-setup", "bash", "module load my app; module save", **env)
    (mine / "my/1.0.lua").write_text('depends_on("other")\nsetenv("MY", "1")\n')
    said = scene.shell("node-setup", "bash", f"{loaded}; module restore; status; show", **env)
    assert said.out[:2] == ["1", "tool/1.0"], said
    assert said.err[-1] == "envmgr: not all of `default` is restored. Loaded now: tool/1.0"


def test_login_whose_default_collection_lost_an_entry_is_1_and_goes_on(scene: Collections) -> None:
    scene.shell("node-setup", "bash", SAVE)
    scene.publish(2, {"tool/1.0": [], "other/1.0": []})
    said = scene.shell("node-setup", "bash", "module --initial_load restore; status; show")
    assert said.out[:2] == ["1", "tool/1.0"]
    scene.publish(3, {"other/1.0": []})
    env = {"LMOD_SYSTEM_DEFAULT_MODULES": "other"}
    said = scene.shell("node-setup", "bash", "module --initial_load restore; status; show", **env)
    assert said.out[:2] == ["1", "other/1.0"], said


@pytest.mark.parametrize("saved", ["bash", "csh"])
def test_collection_of_one_shell_restores_in_another_without_other_folders(scene: Collections, saved: str) -> None:
    """csh gives Lmod a blank for a MODULEPATH that was empty."""
    scene.shell("shell-init", saved, SAVE)
    scene.publish(2, FIRST)
    said = scene.shell("shell-init", "csh" if saved == "bash" else "bash", "module restore work; status; show")
    assert said.out[:3] == ["0", "lib/1.0:app/1.0:tool/1.0:more/1.0", "2"], said.err


@pytest.mark.parametrize("restore", RESTORES[:2])
def test_lmod_8_7_and_later_has_another_flag(scene: Collections, restore: str) -> None:
    """There `setStatusFlag` is what `setWarningFlag` was, and no warning sets it."""
    shutil.copytree(LMOD.package, scene.folder / "lmod", symlinks=False)
    for file in (scene.folder / "lmod/libexec").iterdir():
        text = file.read_bytes().replace(b"etWarningFlag", b"etStatusFlag")
        text = text.replace(b"(getStatusFlag() and not quiet() )", b"(getStatusFlag())")
        file.write_bytes(text.replace(b"clearWarningFlag()\n   s_warning = false", b"clearWarningFlag()"))
    lmod = f"{scene.folder}/lmod/libexec/lmod"
    scene.shell("node-setup", "bash", SAVE)
    scene.publish(2, {"tool/1.0": [], "other/1.0": []})
    words = restore.removeprefix("module ")
    for before in ("true", f'eval "$({lmod} bash load other)"'):
        said = scene.shell("node-setup", "bash", f'{before}; eval "$({lmod} bash {words})"; status; show')
        assert said.out[:2] == ["1", "tool/1.0"], said
