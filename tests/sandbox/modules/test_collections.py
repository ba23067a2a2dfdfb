"""Saved collections after publishes, rollbacks and a gc: in every shell, as node-setup and as shell-init set it up, by real Lmod."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.modules.node_paths import HOOK
from envmgr.system.files import remove_tree, shipped
from tests.helpers.collections_scene import SETUPS, Collections
from tests.helpers.lmod_shell import LMOD

SYSTEM = "/etc/lmod/modules:/usr/share/lmod/lmod/modulefiles"
BOTH = ("node-setup", "shell-init")
FIRST = {"app/1.0": ["lib/1.0"], "lib/1.0": [], "tool/1.0": []}
SAVE = "module load app tool; module save work; module save; show"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Collections]:
    made = Collections(tmp_path)
    made.publish(1, FIRST)
    yield made
    remove_tree(tmp_path / "sw")


def path(scene: Collections, number: int, setup: str = "node-setup") -> str:
    """MODULEPATH of a shell; shell-init's has no other folder here."""
    ours = f"{scene.prefix}/generations/{number:04d}/modules"
    return f"{ours}:{SYSTEM}" if setup == "node-setup" else ours


@pytest.mark.parametrize(("setup", "shell"), SETUPS)
def test_collection_restores_in_the_next_generation_when_its_own_is_gone(
    scene: Collections, setup: str, shell: str
) -> None:
    saved = scene.shell(setup, shell, SAVE)
    assert saved.out == ["lib/1.0:app/1.0:tool/1.0", "1", path(scene, 1, setup)], saved.err
    scene.publish(2, FIRST)
    scene.gc(1)
    for command, name in (("module restore work", "work"), ("module restore", "default")):
        said = scene.shell(setup, shell, f"{command}; status; show")
        assert said.out == ["0", "lib/1.0:app/1.0:tool/1.0", "2", path(scene, 2, setup)], said.err
        assert said.err == [f"Restoring modules from user's {name}"]


@pytest.mark.parametrize(("saved", "restored"), [BOTH, BOTH[::-1]])
def test_collection_of_one_set_up_restores_in_the_other(scene: Collections, saved: str, restored: str) -> None:
    env = {"MODULEPATH": SYSTEM}
    scene.shell(saved, "bash", SAVE, **env)
    scene.publish(2, FIRST)
    said = scene.shell(restored, "bash", "module restore work; status; show", **env)
    assert said.out == ["0", "lib/1.0:app/1.0:tool/1.0", "2", path(scene, 2)], said.err


@pytest.mark.parametrize("setup", BOTH)
def test_default_collection_is_restored_at_login_and_reset_keeps_the_generation(scene: Collections, setup: str) -> None:
    env = {"LMOD_SYSTEM_DEFAULT_MODULES": "tool"}
    scene.shell(setup, "bash", SAVE)
    scene.publish(2, FIRST)
    said = scene.shell(setup, "bash", "module --initial_load restore; status; show", **env)
    assert (said.out, said.err) == (["0", "lib/1.0:app/1.0:tool/1.0", "2", path(scene, 2, setup)], [])
    said = scene.shell(setup, "bash", "module load app; module reset; status; show", **env)
    assert said.out == ["0", "tool/1.0", "2", path(scene, 2, setup)], said.err
    scene.publish(3, {"tool/1.0": []})
    (scene.folder / "home/.lmod.d/work").replace(scene.folder / "home/.lmod.d/other")
    scene.publish(4, {"other/1.0": []})
    said = scene.shell(setup, "bash", "module --initial_load restore; show", LMOD_SYSTEM_DEFAULT_MODULES="other")
    assert said.out == ["other/1.0", "4", path(scene, 4, setup)], said.err


@pytest.mark.parametrize("setup", BOTH)
def test_shell_that_inherited_a_generation_that_is_gone_resets_to_the_new_one(scene: Collections, setup: str) -> None:
    scene.publish(2, {"tool/1.0": []})
    gone = f"{scene.prefix}/generations/0001"
    # As Lmod hands its table on:
    table = f'_ModuleTable_={{MTversion=3,mT={{}},mpathA={{"{gone}/modules"}},systemBaseMPATH="{gone}/modules:/x"}}'
    env = {"_ModuleTable001_": base64.b64encode(table.encode()).decode(), "_ModuleTable_Sz_": "1"}
    env |= {"MODULEPATH": f"{gone}/modules:/x", "ENVMGR_PIN": gone, "LMOD_SYSTEM_DEFAULT_MODULES": "tool"}
    scene.gc(1)
    said = scene.shell(setup, "bash", "module reset; status; show", **env)
    assert said.out == ["0", "tool/1.0", "2", f"{scene.prefix}/generations/0002/modules:/x"], said.err


@pytest.mark.parametrize("setup", BOTH)
def test_changed_dependency_is_the_new_one_and_told_and_the_state_can_be_saved_again(
    scene: Collections, setup: str
) -> None:
    scene.shell(setup, "bash", SAVE)
    scene.publish(2, {"app/1.0": ["lib/1.1"], "lib/1.1": ["base/1"], "base/1": [], "lib/1.0": [], "tool/1.0": []})
    told = "envmgr: since `work` was saved, dependencies have changed: base/1 is new; lib/1.1 instead of lib/1.0"
    said = scene.shell(setup, "bash", "module restore work; status; show; module save work; module unload app; show")
    assert said.out[:3] == ["0", "base/1:lib/1.1:app/1.0:tool/1.0", "2"]
    assert said.out[4] == "tool/1.0"  # what nobody asked for went with app
    assert said.err[0] == told
    assert "restore" not in " ".join(said.err[1:3]), said.err
    scene.publish(3, {"app/1.0": [], "lib/1.1": ["base/1"], "base/1": [], "tool/1.0": []})
    said = scene.shell(setup, "bash", "module describe work; module -t savelist; module restore work; status; show")
    assert said.out[:3] == ["0", "app/1.0:tool/1.0", "3"]
    idle = "is not needed any more"
    assert said.err[-2:] == [
        f"envmgr: since `work` was saved, dependencies have changed: base/1 {idle}; lib/1.1 {idle}",
        "Restoring modules from user's work",
    ]
    assert {"1) base/1    2) lib/1.1    3) app    4) tool", "work"} <= {line.strip() for line in said.err}


def test_dependency_that_the_user_asked_for_stays(scene: Collections) -> None:
    """Also where nothing else asks for it now; loaded before or after what depends on it."""
    scene.shell("node-setup", "bash", "module load lib/1.0 app; module save before")
    scene.shell("node-setup", "bash", "module load app; module load lib/1.0; module save after")
    scene.publish(2, {"app/1.0": [], "lib/1.0": [], "tool/1.0": []})
    for name, loaded in (("before", "lib/1.0:app/1.0"), ("after", "app/1.0:lib/1.0")):
        said = scene.shell("node-setup", "bash", f"module restore {name}; status; show")
        assert (said.out[:2], len(said.err)) == (["0", loaded], 1), said.err
    scene.publish(3, {"app/1.0": ["lib/2.0"], "lib/1.0": [], "lib/2.0": []})
    said = scene.shell("node-setup", "bash", "module restore before; status; show")
    assert said.out[:2] == ["0", "lib/2.0:app/1.0"]
    assert said.err[0] == "envmgr: since `before` was saved, dependencies have changed: lib/2.0 instead of lib/1.0"


@pytest.mark.parametrize("whose", [".modulerc.lua", "rc.lua"])
def test_defaults_of_the_user_and_the_site_decide_the_dependencies_too(scene: Collections, whose: str) -> None:
    """Lmod loads what they name; with the dependencies of another version it would not work."""
    entries = {"app/1.0": ["lib/1.0"], "app/1.1": ["lib/1.1"], "lib/1.0": [], "lib/1.1": []}
    scene.publish(2, entries)
    rc = scene.folder / "home" / whose
    rc.write_text('module_version("app/1.0", "default")\n')
    env = {"LMOD_MODULERCFILE": str(rc)} if whose == "rc.lua" else {}
    scene.shell("node-setup", "bash", "module load app; module save work", **env)
    scene.publish(3, entries)
    said = scene.shell("node-setup", "bash", "module restore work; status; show", **env)
    assert said.out[:3] == ["0", "lib/1.0:app/1.0", "3"], said.err
    assert said.err == ["Restoring modules from user's work"]


@pytest.mark.parametrize("setup", BOTH)
def test_removed_entry_costs_itself_and_what_came_with_it(scene: Collections, setup: str) -> None:
    scene.shell(setup, "bash", SAVE)
    scene.publish(2, {"app/1.1": [], "app/2.0": [], "tool/1.0": []}, "app/1.1")
    scene.shell(setup, "bash", "module load app/2.0 tool; module save exact")
    scene.publish(3, {"app/1.1": [], "app/10.0": [], "tool/1.0": []})
    said = scene.shell(setup, "bash", "module restore exact; status; show")
    assert said.out[:3] == ["1", "tool/1.0", "3"]
    assert said.err == [
        "envmgr: app/2.0 of `exact` was removed; there is app/1.1, app/10.0",
        "Restoring modules from user's exact",
        "envmgr: not all of `exact` is restored. Loaded now: tool/1.0",
    ]
    scene.publish(4, {"tool/1.0": []})
    said = scene.shell(setup, "bash", "module restore work; status; show")
    assert said.out[:3] == ["1", "tool/1.0", "4"]
    assert said.err[0] == "envmgr: app/1.0 of `work` was removed; no other version is there"


def test_entries_that_became_one_family_lose_the_earlier_one_alone(scene: Collections) -> None:
    """By itself Lmod unloads both."""
    scene.shell("node-setup", "bash", SAVE)
    scene.publish(2, FIRST)
    for name in ("app", "tool"):
        module = scene.prefix / f"generations/0002/modules/{name}/1.0.lua"
        module.write_text(f'family("python")\n{module.read_text()}')
    said = scene.shell("node-setup", "bash", "module restore work; status; show")
    assert said.out[:3] == ["1", "tool/1.0", "2"]
    assert said.err == [
        "envmgr: app/1.0 of `work` is left out: tool/1.0 is of the family python, too",
        "Restoring modules from user's work",
        "envmgr: not all of `work` is restored. Loaded now: tool/1.0",
    ]


@pytest.mark.parametrize(("setup", "name"), [("node-setup", "work"), ("shell-init", "default")])
def test_collection_of_which_nothing_is_there_takes_nothing_away(scene: Collections, setup: str, name: str) -> None:
    scene.shell(setup, "bash", SAVE)
    scene.publish(2, {"other/1.0": []})
    restore = "module restore" if name == "default" else f"module restore {name}"
    said = scene.shell(setup, "bash", f"module load other; {restore}; status; show")
    assert said.out == ["1", "other/1.0", "2", path(scene, 2, setup)]
    assert said.err == [
        f"envmgr: app/1.0 of `{name}` was removed; no other version is there",
        f"envmgr: tool/1.0 of `{name}` was removed; no other version is there",
        f"envmgr: nothing of `{name}` can be loaded: what was loaded stays as it is",
    ]


@pytest.mark.parametrize("name", ["work", ""])
def test_other_system_paths_are_refused_by_lmods_own_check_before_anything_is_purged(
    scene: Collections, name: str
) -> None:
    scene.shell("node-setup", "bash", SAVE, MODULEPATH="/site:/more")
    scene.publish(2, FIRST)
    for system in ("/site", "/more:/site", "/site:/more:/x"):
        script = f"module load tool; module restore {name}; status; show"
        said = scene.shell("node-setup", "bash", script, MODULEPATH=system)
        assert said.out[:3] == ["1", "tool/1.0", "2"]
        assert said.err == ["Lmod Warning: The system MODULEPATH has changed: please rebuild your saved collection."]
    said = scene.shell("node-setup", "bash", f"module restore {name}; status", MODULEPATH="/site:/more")
    assert said.out == ["0"]


def test_modules_of_others_keep_lmods_check_and_what_they_depend_on(scene: Collections) -> None:
    mine = scene.folder / "mine"
    (mine / "my").mkdir(parents=True)
    (mine / "my/1.0.lua").write_text('depends_on("lib")\nsetenv("MY", "1")\n')
    env = {"MODULEPATH": str(mine)}
    scene.shell("node-setup", "bash", "module load my app; module save work", **env)
    scene.publish(2, {"app/1.0": [], "lib/1.0": []})
    said = scene.shell("node-setup", "bash", "module restore work; status; show; module unload my; show", **env)
    assert said.out[:3] == ["0", "lib/1.0:my/1.0:app/1.0", "2"], said.err
    assert said.out[4] == "app/1.0"
    (mine / "my/1.0.lua").write_text('depends_on("app")\nsetenv("MY", "1")\n')
    said = scene.shell("node-setup", "bash", "module restore work; status", **env)
    assert said.out == ["1"]
    assert any(line.endswith('have changed: "my".') for line in said.err), said.err


def test_collection_from_before_envmgr_restores_and_one_of_another_prefix_is_not_ours(scene: Collections) -> None:
    mine = scene.folder / "mine"
    (mine / "my").mkdir(parents=True)
    (mine / "my/1.0.lua").write_text('setenv("MY", "1")\n')
    init = LMOD.init_script("bash")
    bare = ("bash", "--norc", "-c", f". {init}; module load my && module save $NAME")
    scene.run(*bare, env={"MODULEPATH": f"{mine}:/x", "NAME": "before"})
    said = scene.shell("node-setup", "bash", "module restore before; status; show", MODULEPATH=f"{mine}:/x")
    ours = f"{scene.prefix}/generations/0001/modules"
    assert said.out == ["0", "my/1.0", "-", f"{mine}:/x:{ours}"], said.err
    other = scene.folder / "other/generations/0007/modules/my"
    other.mkdir(parents=True)
    shutil.copy(mine / "my/1.0.lua", other)
    scene.run(*bare, env={"MODULEPATH": str(other.parent), "NAME": "foreign"})
    said = scene.shell("shell-init", "bash", "module restore foreign; show", MODULEPATH=str(other.parent))
    assert said.out == ["my/1.0", "-", str(other.parent)], said.err


def test_shell_without_the_prefix_says_so_and_loads_the_rest(scene: Collections) -> None:
    mine = scene.folder / "mine"
    (mine / "my").mkdir(parents=True)
    (mine / "my/1.0.lua").write_text('setenv("MY", "1")\n')
    env = {"MODULEPATH": str(mine)}
    scene.shell("node-setup", "bash", "module load app; module save ours; module load my; module save both", **env)
    away = scene.prefix.rename(scene.prefix.with_name("away"))
    why = f"envmgr: this shell has no modules of {scene.prefix}: app/1.0 of"
    said = scene.shell("node-setup", "bash", "module restore both; status; show", **env)
    assert (said.out, said.err[0]) == (["1", "my/1.0", "-", str(mine)], f"{why} `both` cannot be loaded")
    said = scene.shell("node-setup", "bash", "module load my; module restore ours; status; show", **env)
    assert said.out == ["1", "my/1.0", "-", str(mine)]
    assert said.err == [
        f"{why} `ours` cannot be loaded",
        "envmgr: nothing of `ours` can be loaded: what was loaded stays as it is",
    ]
    away.rename(scene.prefix)
    scene.publish(2, FIRST)
    script = f"rm -rf {scene.prefix}/generations/0002; module restore ours; status"
    said = scene.shell("node-setup", "bash", script, **env)
    assert said.err[0] == (
        "envmgr: generation 2, which this shell has, is gone; a new login has the current one: app/1.0 of `ours` cannot be loaded"
    )


# -- the site's own SitePackage.lua, and other Lmods --------------------------------------------------------------------


def site_package(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "SitePackage.lua").write_text(text)
    return folder


SITE = """
local neighbour = require("neighbour")
function told() return neighbour end
sandbox_registration({ told = told })
require("Hook").register("load", function(t) io.stderr:write("loaded ", t.modFullName, "\\n") end)
"""


@pytest.mark.parametrize("setup", BOTH)
def test_site_package_of_the_site_comes_after_the_hook(scene: Collections, setup: str) -> None:
    site = site_package(scene.folder / "site", SITE)
    (site / "neighbour.lua").write_text('return "as ever"\n')
    mine = scene.folder / "mine/my"
    mine.mkdir(parents=True)
    (mine / "1.0.lua").write_text('setenv("TOLD", told())\n')
    env = {"LMOD_PACKAGE_PATH": str(site), "MODULEPATH": str(mine.parent)}
    scene.shell(setup, "bash", SAVE, **env)
    scene.publish(2, FIRST)
    said = scene.shell(setup, "bash", "module load my; echo $TOLD; module restore work; status; show", **env)
    assert said.out[:4] == ["as ever", "0", "lib/1.0:app/1.0:tool/1.0", "2"], said.err
    assert said.err[-3:] == ["loaded lib/1.0", "loaded app/1.0", "loaded tool/1.0"]
    config = scene.shell(setup, "bash", "module --config 2>&1 | grep -i 'site *pkg'", **env)
    assert str(site) in config.out[0]


@pytest.mark.parametrize("text", ["require('no-such-file')", "return {", ""])
def test_fault_of_the_sites_own_file_is_told_as_without_us(scene: Collections, text: str) -> None:
    site = site_package(scene.folder / "site", text)
    script = '. /usr/share/lmod/lmod/init/bash; module load tool; echo "$LOADEDMODULES"'
    texts = []
    scene.do("apply")
    for folders in (str(site), f"{site}:{HOOK}"):
        env = {"LMOD_PACKAGE_PATH": folders, "MODULEPATH": f"{scene.prefix}/generations/0001/modules"}
        done = scene.run("bash", "--norc", "-c", script, env=env)
        texts.append((done.stdout, re.sub(r"stack traceback:.*", "", done.stderr, flags=re.DOTALL)))
    assert texts[0] == texts[1]
    assert ("tool/1.0" in texts[0][0]) == (text == "")


@pytest.mark.parametrize("shell", ["zsh", "csh"])  # one text for bash, zsh and sh; another for csh
@pytest.mark.parametrize("setup", BOTH)
def test_hook_is_named_once_and_last_however_often_a_shell_starts(scene: Collections, setup: str, shell: str) -> None:
    """Lmod takes the last folder of LMOD_PACKAGE_PATH first: what the environment names behind ours would hide it."""
    script = "printenv LMOD_PACKAGE_PATH; printenv LMOD_SITEPACKAGE_PREPEND"
    hook, file = scene.shell(setup, shell, script).out
    assert hook == (HOOK if setup == "node-setup" else str(shipped("nodesetup") / "lmod"))
    assert file == f"{hook}/prepend.lua"
    for before in (hook, f"{hook}:/site a", f"/site a:{hook}", f"{hook}:/site a:{hook}"):
        env = {"LMOD_PACKAGE_PATH": before, "LMOD_SITEPACKAGE_PREPEND": before.replace(hook, file)}
        expected = f"/site a:{hook}" if "site" in before else hook
        said = scene.shell(setup, shell, script, **env).out
        assert said == [expected, expected.replace(hook, file)], before


def test_hook_of_both_set_ups_at_once_and_in_nested_shells(scene: Collections) -> None:
    scene.shell("node-setup", "bash", SAVE)
    scene.publish(2, FIRST)
    both = {"LMOD_PACKAGE_PATH": HOOK}
    said = scene.shell("shell-init", "bash", "module restore work; status; show", **both, MODULEPATH=SYSTEM)
    assert said.out[:3] == ["0", "lib/1.0:app/1.0:tool/1.0", "2"], said.err
    said = scene.shell("node-setup", "bash", "bash -lc 'module restore work; echo $? $LOADEDMODULES'")
    assert said.out == ["0 lib/1.0:app/1.0:tool/1.0"], said.err


def test_lmod_whose_function_is_another_behaves_as_without_us(scene: Collections) -> None:
    shutil.copytree(LMOD.package, scene.folder / "lmod", symlinks=False)
    table = scene.folder / "lmod/libexec/MT.lua"
    text = table.read_text()
    scene.shell("node-setup", "bash", SAVE)
    scene.publish(2, FIRST)
    ask = f"ENVMGR_COLLECTIONS=tell {scene.folder}/lmod/libexec/lmod bash --version >/dev/null"
    restore = f'eval "$({scene.folder}/lmod/libexec/lmod bash restore work)"; status'
    said = scene.shell("node-setup", "bash", f"{ask}; {restore}")
    assert (said.out, said.err[0]) == (["0"], "envmgr-collections: known")
    table.write_text(text.replace('io.open(tt.fn,"r")', 'io.open(tt.fn, "r")'))
    said = scene.shell("node-setup", "bash", f"{ask}; {restore}")
    assert said.out == ["1"]
    assert said.err[0] == 'envmgr-collections: MT.getMTfromFile lacks `io.open(tt.fn,"r")`'
    assert "Lmod Warning: The system MODULEPATH has changed: please rebuild your saved collection." in said.err
    for gone in ("getMTfromFile", "resetMPATH2system"):
        table.write_text(text.replace(gone, "another"))
        said = scene.shell("node-setup", "bash", f'eval "$({scene.folder}/lmod/libexec/lmod bash load tool)"; show')
        assert said.out[0] == "tool/1.0", said.err


@pytest.mark.parametrize("name", ["restore.lua", "closure.lua"])
def test_hook_of_which_a_file_is_missing_or_damaged_says_so_to_the_audit(scene: Collections, name: str) -> None:
    scene.shell("node-setup", "bash", "show")
    file = scene.etc / f"envmgr/node/lmod/{name}"
    ask = "ENVMGR_COLLECTIONS=tell $LMOD_CMD bash --version >/dev/null"
    file.write_text(f"{file.read_text()}\n(")
    assert scene.shell("node-setup", "bash", ask).err[0] == "envmgr-collections: broken"
    file.unlink()
    assert scene.shell("node-setup", "bash", ask).err[0] == "envmgr-collections: broken"
    scene.do("apply")
    assert scene.shell("node-setup", "bash", ask).err[0] == "envmgr-collections: known"


def test_collection_that_lmod_cannot_read_is_lmods_to_tell(scene: Collections) -> None:
    scene.shell("node-setup", "bash", SAVE)
    file = scene.folder / "home/.lmod.d/work"
    file.write_text("_ModuleTable_ = {\n")
    said = scene.shell("node-setup", "bash", "module load tool; module restore work; status; show")
    assert said.out[:2] == ["1", "tool/1.0"]
    assert f"{file}" in " ".join(said.err)
    said = scene.shell("node-setup", "bash", "module restore none; status")
    assert said.out == ["1"]
    assert "none" in " ".join(said.err)
