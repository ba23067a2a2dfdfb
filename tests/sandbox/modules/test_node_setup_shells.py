"""What a node's shells get from node-setup: real shells and real Lmod, on a copy of this machine's /etc."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.lmod_shell import avail_lines, on_stdout, with_packages
from tests.helpers.node_scene import SHELLS, Scene
from tests.helpers.tab import offered

PIN = "/etc/envmgr/node/pin"
PROFILE = "/etc/profile.d/zz-envmgr.sh"
# The program that finds the generation has one answer for the Bourne family, one for csh and one for fish.
DIALECTS = ("bash by ssh", "dash login", "csh", "fish")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    made.generation(1)
    made.do("apply")
    yield made
    remove_tree(tmp_path / "sw")


@pytest.mark.parametrize("shell", SHELLS)
def test_module_loads_in_every_shell_with_one_path(scene: Scene, shell: str) -> None:
    script = 'module load hello; echo "$HELLO $ENVMGR_PIN $LMOD_RC $LMOD_CACHED_LOADS"; echo "$MODULEPATH"'
    pin = f"{scene.prefix}/generations/0001"
    first, path = scene.said(*SHELLS[shell], script)
    assert first == f"1 {pin} {pin}/lmodrc.lua yes"
    assert path.split(":")[0] == f"{pin}/modules"
    login = scene.said("bash", "-lc", 'module load hello; echo "$MODULEPATH"')
    assert [path] == login


@pytest.mark.parametrize("shell", SHELLS)
def test_avail_shows_entries_and_headings_and_spider_finds_the_packages(scene: Scene, shell: str) -> None:
    with_packages(scene.prefix / "generations/0001/modules/hello/1.0.lua")
    argv = SHELLS[shell]
    lines = scene.said(*argv, on_stdout(shell, "avail"), env={"MODULEPATH": f"{scene.prefix}/none"})
    ours, *system = "\n".join(avail_lines(lines)).split("\n/usr/")  # a login shell has the system's modules, too
    assert ours == f"{scene.prefix}/generations/0001/modules\nhello/1.0"
    assert "(E)" not in "".join(system)
    found = scene.said(*argv, on_stdout(shell, "spider numpy"))
    assert "numpy/1.26.4 (E)" in "".join(found)


@pytest.mark.parametrize("shell", DIALECTS)
@pytest.mark.parametrize("value", ["yes", ""])
def test_own_word_on_avail_stays(scene: Scene, shell: str, value: str) -> None:
    """Inherited, or set by a start-up file before ours; empty is a word, too, which Lmod takes for `no`."""
    said = scene.said(*SHELLS[shell], 'echo "[$LMOD_AVAIL_EXTENSIONS]"', env={"LMOD_AVAIL_EXTENSIONS": value})
    assert said == [f"[{value}]"]
    for name, line in {
        "aa-site.sh": f"export LMOD_AVAIL_EXTENSIONS='{value}'",
        "aa-site.csh": f"setenv LMOD_AVAIL_EXTENSIONS '{value}'",
    }.items():
        (scene.etc / "profile.d" / name).write_text(f"{line}\n")
    if "login" in shell:
        assert scene.said(*SHELLS[shell], 'echo "[$LMOD_AVAIL_EXTENSIONS]"') == [f"[{value}]"]


def test_undo_takes_our_word_on_avail_away(scene: Scene) -> None:
    assert scene.said("bash", "-lc", "echo ${LMOD_AVAIL_EXTENSIONS-none}") == ["no"]
    scene.do("undo")
    assert scene.said("bash", "-lc", "echo ${LMOD_AVAIL_EXTENSIONS-none}") == ["none"]


@pytest.mark.parametrize("shell", DIALECTS)
def test_inherited_generation_is_kept_and_a_new_login_has_the_new_one(scene: Scene, shell: str) -> None:
    old, new = f"{scene.prefix}/generations/0001", str(scene.generation(2))
    env = {"ENVMGR_PIN": old, "MODULEPATH": f"{old}/modules:/own"}
    assert scene.said(*SHELLS[shell], "module load hello; echo $HELLO $ENVMGR_PIN", env=env) == [f"1 {old}"]
    assert scene.said(*SHELLS[shell], "module load hello; echo $HELLO $ENVMGR_PIN") == [f"2 {new}"]


@pytest.mark.parametrize("shell", DIALECTS)
def test_generation_is_kept_where_another_prefix_has_the_pin(scene: Scene, shell: str) -> None:
    """A user's own prefix, whose lines come after: MODULEPATH says what this one has."""
    first, second = (f"{scene.prefix}/generations/{number:04d}" for number in (1, 2))
    scene.generation(2)
    shown = 'echo "$ENVMGR_PIN"; echo "$MODULEPATH"'
    env = {"ENVMGR_PIN": "/home/al/sw/generations/0007"}
    mine = f"/home/al/sw/generations/0007/modules:{first}/modules:/x"
    pin, path = scene.said(*SHELLS[shell], shown, env={**env, "MODULEPATH": mine})
    assert pin == first
    assert path.split(":")[:2] == mine.split(":")[:2]
    for other in (
        "/home/al/sw/generations/0007/modules",
        f"{scene.prefix}/generations/0009/modules",
        f"{first}x/modules",
    ):
        pin, _ = scene.said(*SHELLS[shell], shown, env={**env, "MODULEPATH": other})
        assert pin == second


@pytest.mark.parametrize("shell", DIALECTS)
def test_inherited_generation_that_is_gone_makes_place_for_the_current_one(scene: Scene, shell: str) -> None:
    old, new = f"{scene.prefix}/generations/0001", str(scene.generation(2))
    scene.remove(1)
    env = {"ENVMGR_PIN": old, "MODULEPATH": f"/own:{old}/modules", "LMOD_RC": f"{old}/lmodrc.lua:/site.lua"}
    said = scene.said(*SHELLS[shell], 'echo $ENVMGR_PIN; echo "$MODULEPATH"; echo $LMOD_RC', env=env)
    assert said[0] == new
    assert said[1].startswith(f"{new}/modules:/own")
    assert old not in said[1]
    assert said[2] == f"{new}/lmodrc.lua:/site.lua"


@pytest.mark.parametrize(
    "pin",
    [
        "/elsewhere/generations/0001",
        "PREFIX/generations/0001/",
        "PREFIX/generations/../generations/0001",
        "PREFIX/current",
        "PREFIX/generations/0001; echo x",
        "PREFIX/generations/",
        "$(echo x)",
        "PREFIX/generations/9999",
    ],
)
def test_inherited_nonsense_is_no_pin(scene: Scene, pin: str) -> None:
    env = {"ENVMGR_PIN": pin.replace("PREFIX", str(scene.prefix))}
    assert scene.said("bash", "-lc", "echo $ENVMGR_PIN", env=env) == [f"{scene.prefix}/generations/0001"]


def test_path_that_is_there_stays_behind_ours_byte_for_byte(scene: Scene) -> None:
    own = "/a b:/it's:/x!y:/$HOME/`id`:/back\\slash:/tail/"
    modules = f"{scene.prefix}/generations/0001/modules"
    for dialect, shell in (("sh", "bash"), ("sh", "dash"), ("sh", "zsh"), ("csh", "tcsh")):
        line = f'eval "$({PIN} sh)"' if dialect == "sh" else f'eval "`{PIN} csh`"'
        flags = ["-f"] if shell in ("zsh", "tcsh") else []
        done = scene.run(shell, *flags, "-c", f"{line}; printenv MODULEPATH", env={"MODULEPATH": own})
        assert done.stdout == f"{modules}:{own}\n", (shell, done.stderr)
    (said,) = scene.said("fish", "-c", "printenv MODULEPATH", env={"MODULEPATH": own})
    assert said == f"{modules}:{own}"
    assert f"export MODULEPATH={modules}:{own}" in scene.said(PIN, "task", env={"MODULEPATH": own})


def test_position_that_the_user_chose_is_left(scene: Scene) -> None:
    modules = f"{scene.prefix}/generations/0001/modules"
    env = {"MODULEPATH": f"/mine:{modules}"}
    assert scene.said("zsh", "-c", "echo $MODULEPATH", env=env) == [f"/mine:{modules}"]


def test_purge_reset_and_restore_keep_the_path(scene: Scene) -> None:
    modules = f"{scene.prefix}/generations/0001/modules"
    script = "; ".join(
        f"module -q {verb} >/dev/null 2>&1; echo ${{MODULEPATH%%:*}}"
        for verb in ("load hello", "purge", "reset", "restore")
    )
    for start in (
        "",
        "module --initial_load restore 2>/dev/null; ",
    ):  # also where the system's start-up ran Lmod before
        text = f". /etc/profile.d/lmod.sh; {start}. {PROFILE}; {script}"
        assert scene.said("bash", "--norc", "-c", text) == [modules] * 4


@pytest.mark.parametrize(
    ("shell", "before"),
    [
        ("bash", "set -eu -o noclobber -o noglob -o pipefail; IFS=:/; shopt -s nullglob failglob"),
        ("bash", "set -o posix; set -eu"),
        (
            "bash",
            "shopt -s expand_aliases; alias export=false unset=false eval=false type=false echo=false local=false read=false",
        ),
        ("bash", "PATH=/nonexistent"),
        ("bash", "cd() { false; }; read() { false; }; printf() { false; }; export -f cd read printf"),
        ("bash", "exec 0<&- 2>&-"),
        ("dash", "exec 2>&-"),
        ("dash", "set -euCf; IFS=e/"),
        ("zsh", "set -eu; setopt noclobber noglob sh_word_split ksh_arrays glob_subst; IFS=e/"),
    ],
)
def test_options_of_the_calling_shell_do_not_matter(scene: Scene, shell: str, before: str) -> None:
    flags = {"bash": ["--norc"], "zsh": ["-f"], "dash": []}[shell]
    text = f'{before}\n. {PROFILE}\n. {PROFILE}\nset +f; /bin/echo "$ENVMGR_PIN"'
    done = scene.run(shell, *flags, "-c", text)
    assert done.stdout == f"{scene.prefix}/generations/0001\n", done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "dash"])
def test_reading_it_twice_changes_nothing_and_leaves_no_variable_of_ours(scene: Scene, shell: str) -> None:
    flags = {"bash": ["--norc", "--posix"], "zsh": ["-f"], "dash": []}[shell]  # posix: `set` without functions
    text = f"set; echo CUT; . {PROFILE}; set; echo CUT; . {PROFILE}; set"
    done = scene.run(shell, *flags, "-c", text)
    names = []
    bare = subprocess.run([shell, "-c", "set"], env={"PATH": "/usr/bin"}, capture_output=True, text=True, check=True)
    for part in [bare.stdout, *done.stdout.split("CUT\n")[1:]]:
        pairs = dict(line.partition("=")[::2] for line in part.splitlines() if re.match(r"\w+=", line))
        drop = (
            "_ BASH_EXECUTION_STRING RANDOM SECONDS EPOCHREALTIME EPOCHSECONDS SRANDOM BASHPID PIPESTATUS pipestatus TTYIDLE ? status "
            "BASH_ARGV LINENO zsh_eval_context"
        ).split()
        names.append({key: value for key, value in pairs.items() if key not in drop})
    assert names[1] == names[2]
    new = {name for name in names[1].keys() - names[0].keys() if not re.match("_?LMOD_|MODULE|__LMOD", name)}
    assert new - {"HOME", "TERM", "POSIXLY_CORRECT"} == {"ENVMGR_PIN", "JUPYTER_PATH"}


@pytest.mark.parametrize("head", ["#!/usr/bin/fish", "#!/usr/bin/env fish"])
def test_script_of_fish_loads_a_module_and_purge_keeps_the_path(scene: Scene, head: str) -> None:
    (scene.folder / "job").write_text(f"{head}\nmodule load hello\necho $HELLO\nmodule purge\necho $MODULEPATH[1]\n")
    (scene.folder / "job").chmod(0o755)
    assert scene.said(str(scene.folder / "job")) == ["1", f"{scene.prefix}/generations/0001/modules"]


def test_fish_of_a_machine_without_lmod_for_it_starts(scene: Scene) -> None:
    (scene.etc / "envmgr/node/settings").write_text(f"prefix={scene.prefix}\nlmod_usual=/nowhere\n")
    assert scene.said("fish", "-c", "echo on; functions -q module; or echo none") == ["on", "none"]


TABS = {"envmgr rol": ["rollback"], "envmgr job hel": ["hello/1.0"], "envmgr build --ver": []}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("there", [True, False])
def test_tab_completes_where_envmgr_is_and_else_costs_nothing(scene: Scene, shell: str, there: bool) -> None:
    program = Path(sys.executable).with_name("envmgr") if there else "/bin/false"
    (scene.folder / "bin").mkdir()
    (scene.folder / "bin/envmgr").symlink_to(program)
    env = {"PATH": f"{scene.folder}/bin:/usr/bin:/bin", "ENVMGR_SITE": str(scene.folder / "site.yaml")}
    lines = "autoload -Uz compinit && compinit -u -D" if shell == "zsh" else ""
    (scene.folder / "empty").mkdir()
    found = offered(shell, lines, TABS, scene.folder / "empty", env, begin=scene.inside)
    assert found == (TABS if there else {line: [] for line in TABS})
    scene.do("undo")
    assert offered(shell, lines, TABS, scene.folder / "empty", env, begin=scene.inside) == {line: [] for line in TABS}


def test_csh_has_no_variable_of_ours_after(scene: Scene) -> None:
    assert scene.run("tcsh", "-c", "set; setenv").stdout.count("envmgr_") == 0


def test_lmod_that_was_inherited_from_another_node_is_replaced(scene: Scene) -> None:
    env = {"LMOD_CMD": "/nowhere/lmod", "BASH_FUNC_module%%": '() { eval "$($LMOD_CMD bash "$@")"; }'}
    assert scene.said("bash", "--norc", "-c", f". {PROFILE}; module load hello; echo $HELLO", env=env) == ["1"]


def test_task_prolog_gives_a_sh_job_what_it_needs(scene: Scene) -> None:
    lines = scene.said("/etc/envmgr/node/task-prolog")
    assert all(re.match(r"export [A-Z_]+=\S+$", line) for line in lines)
    env = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    assert (
        sorted(env)
        == (
            "BASH_ENV ENVMGR_PIN JUPYTER_PATH LMOD_AVAIL_EXTENSIONS LMOD_CACHED_LOADS LMOD_CMD LMOD_DIR LMOD_PACKAGE_PATH LMOD_PKG LMOD_RC "
            "LMOD_SITEPACKAGE_PREPEND MODULEPATH MODULESHOME PATH"
        ).split()
    )
    assert scene.said("dash", "-c", '. "$LMOD_PKG/init/sh"; module load hello; echo $HELLO', env=env) == ["1"]
    assert scene.said("bash", "-c", "module load hello; echo $HELLO", env=env) == ["1"]


@pytest.mark.parametrize("shell", SHELLS)
def test_jupyter_finds_one_generation_behind_the_users_own_folders(scene: Scene, shell: str) -> None:
    """The folder with the kernels of the shell's own generation; once, in nested shells and jobs, too."""
    show, old, new = "printenv JUPYTER_PATH", f"{scene.prefix}/generations/0001", str(scene.generation(2))
    assert scene.said(*SHELLS[shell], show) == [new]
    for before, after in {
        "/mine:/more": f"/mine:/more:{new}",
        f"/mine:{old}:/more:{scene.prefix}/current": f"/mine:/more:{new}",
        f"{new}:/mine:{new}::": f"/mine:{new}",
        "/other/generations/0001": f"/other/generations/0001:{new}",
    }.items():
        assert scene.said(*SHELLS[shell], show, env={"JUPYTER_PATH": before}) == [after]
    pinned = {"ENVMGR_PIN": old, "JUPYTER_PATH": f"/mine:{old}"}
    assert scene.said(*SHELLS[shell], show, env=pinned) == [f"/mine:{old}"]
    loaded = f"module load hello; {show}; module unload hello; {show}; module purge; {show}"
    assert scene.said(*SHELLS[shell], loaded, env={"JUPYTER_PATH": "/a b:/mine"}) == [f"/a b:/mine:{new}"] * 3
    (scene.etc / "profile.d/aa-own.sh").write_text("JUPYTER_PATH=/unexported\n")
    if shell in ("bash login", "dash login"):
        assert scene.said(*SHELLS[shell], show) == [f"/unexported:{new}"]


def test_what_a_shell_inherited_goes_when_the_prefix_is_not_there(scene: Scene) -> None:
    pin = f"{scene.prefix}/generations/0001"
    remove_tree(scene.prefix)
    env = {"ENVMGR_PIN": pin, "MODULEPATH": f"{pin}/modules:/own", "LMOD_RC": f"{pin}/lmodrc.lua", "JUPYTER_PATH": pin}
    text = f'. {PROFILE}; echo "${{ENVMGR_PIN-none}} $MODULEPATH ${{LMOD_RC-none}} ${{JUPYTER_PATH-none}}"'
    assert scene.said("dash", "-c", text, env=env) == ["none /own none none"]
