"""Shells of a node that cannot see the prefix: what each says, once, and where; by real shells and real Lmod."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.node_scene import SHELLS, Scene

PIN = "/etc/envmgr/node/pin"
PROFILE = "/etc/profile.d/zz-envmgr.sh"
HOST = os.uname().nodename
NO_SHELL = "This shell has none of its modules; a new one looks again."
NO_JOB = "This job has none of its modules; a new one looks again."
# A shell with a prompt, as a person starts one below another. csh takes `-i` only from a terminal.
BELOW = {"bash": "bash -ic", "bash login": "bash -lic", "zsh": "zsh -ic", "zsh login": "zsh -lic", "sh": "sh -lic"}
AWAY = ("not mounted", "no folder", "link to nowhere", "empty link", "no current", "dead")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    made.generation(1)
    made.do("apply")
    yield made
    remove_tree(tmp_path / "sw")


def told(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("envmgr: ")]


def take_away(scene: Scene, state: str) -> str:
    """Take the prefix away in this way; what a shell says of it."""
    prefix = scene.prefix
    match state:
        case "not mounted":
            remove_tree(prefix)
            prefix.mkdir()
            return f"{prefix} is empty on {HOST}: it is not mounted there, or nothing was published"
        case "no folder":
            remove_tree(prefix)
            return f"there is no {prefix} on {HOST}"
        case "link to nowhere":
            scene.flip(7)
        case "empty link":
            (prefix / "current").unlink()
            (prefix / "current").symlink_to(".")
        case "no current":
            (prefix / "current").unlink()
            return f"nothing was published in {prefix}, as {HOST} sees it"
        case "dead":
            scene.before = dead_mount(scene)
            return f"{prefix} cannot be read on {HOST} (Transport endpoint is not connected)"
    return f"{prefix}/current names no modules on {HOST}"


def dead_mount(scene: Scene) -> list[str]:
    """A FUSE mount whose process was killed: each call fails at once, as on a stale handle."""
    real, server = scene.folder / "real", scene.folder / "server"
    scene.prefix.rename(real)
    scene.prefix.mkdir()
    server.write_text(f"#!/bin/sh\necho $PPID >{scene.folder}/sshfs\nexec /usr/lib/openssh/sftp-server\n")
    server.chmod(0o755)
    return [
        f"sshfs -f -o ssh_command={server},allow_other x:{real} {scene.prefix} >/dev/null 2>&1 &",
        f"until mountpoint -q {scene.prefix}; do sleep 0.05; done; kill -KILL $!; wait $! 2>/dev/null",
        f"until ! ls {scene.prefix} >/dev/null 2>&1; do sleep 0.05; done",
    ]


@pytest.mark.parametrize("state", AWAY)
def test_shell_without_a_generation_says_so_at_a_prompt_only(scene: Scene, state: str) -> None:
    text = take_away(scene, state)
    for shell, argv in SHELLS.items():
        assert scene.said(*argv, "printenv ENVMGR_PIN; echo on") == ["on"], shell  # nothing on stderr
    for shell, command in BELOW.items():
        done = scene.run(*shlex.split(command), "true")  # `bash -li` reads two files of ours
        assert told(done.stderr) == [f"envmgr: {text}. {NO_SHELL}"], shell
        assert done.stdout == ""


def test_folder_that_the_user_may_not_read_says_so(scene: Scene) -> None:
    scene.folder.chmod(0o755)
    for parent in scene.folder.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    scene.prefix.chmod(0o700)
    done = scene.run("setpriv", "--reuid=65534", "--clear-groups", "bash", "-ic", "true")
    text = f"{scene.prefix} cannot be read on {HOST} (Permission denied)"
    assert told(done.stderr) == [f"envmgr: {text}. {NO_SHELL}"], done.stderr


@pytest.mark.parametrize("state", ["no settings", "no pin"])
def test_node_without_our_files_says_nothing(scene: Scene, state: str) -> None:
    (scene.etc / "envmgr/node" / state.removeprefix("no ")).unlink()
    for shell, argv in SHELLS.items():
        assert scene.said(*argv, "printenv ENVMGR_PIN; echo on") == ["on"], shell
    assert told(scene.run("bash", "-lic", "true").stderr) == []


def test_each_shell_below_another_says_it_again_and_finds_a_prefix_that_is_back(scene: Scene) -> None:
    current = scene.prefix / "current"
    current.rename(scene.prefix / "away")
    inner = f"mv {scene.prefix}/away {current}; zsh -ic 'module load hello; echo $HELLO ${{ENVMGR_AWAY-none}}'"
    done = scene.run("bash", "-ic", f"bash -ic {shlex.quote(f'zsh -ic true; {inner}')}; true")
    assert len(told(done.stderr)) == 3, done.stderr
    assert done.stdout.splitlines() == ["1 none"]


@pytest.mark.parametrize("shell", SHELLS)
def test_job_says_it_once_on_stderr_however_many_shells_it_starts(scene: Scene, shell: str) -> None:
    text = take_away(scene, "not mounted")
    argv = SHELLS[shell]
    child = shlex.join([*argv, "echo child"])
    done = scene.run(*argv, f"{child}; {child}", env={"SLURM_JOB_ID": "7", "BASH_ENV": ""})
    assert done.stdout.splitlines() == ["child", "child"]
    assert told(done.stderr) == [f"envmgr: {text}. {NO_JOB}"]
    done = scene.run(*argv, "true", env={"SLURM_JOB_ID": "7", "SLURM_LOCALID": "3"})
    assert told(done.stderr) == []


def test_batch_script_is_told_by_task_prolog_and_a_step_is_not(scene: Scene) -> None:
    text = take_away(scene, "not mounted")
    env = {"SLURM_JOB_ID": "7"}
    lines = scene.said("/etc/envmgr/node/task-prolog", env=env)
    assert [line for line in lines if line.startswith("print")] == [f"print envmgr: {text}. {NO_JOB}"]
    given = dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export"))
    assert re.fullmatch(rf"{HOST} \d+ gone - -,7 {re.escape(text)}", given["ENVMGR_AWAY"])
    assert scene.said("bash", "-lc", "echo on", env={**env, **given}) == ["on"]  # not again on stderr
    lines = scene.said("/etc/envmgr/node/task-prolog", env={**env, "SLURM_STEP_ID": "0"})
    assert [line for line in lines if line.startswith("print")] == []
    given = dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export"))
    done = scene.run("bash", "-ic", "true", env={**env, **given})  # srun --pty bash -i
    assert told(done.stderr) == [f"envmgr: {text}. {NO_SHELL}"]


def test_what_tools_run_over_ssh_reads_no_word_of_it(scene: Scene) -> None:
    """The far end of scp, rsync and sftp: on stdout and stderr is what they wrote, and nothing else."""
    take_away(scene, "not mounted")
    for shell in ("bash by ssh", "zsh", "tcsh", "csh"):
        assert scene.said(*SHELLS[shell], "printf data") == ["data"], shell


# -- what `module` says -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("verb", ["load", "show"])
def test_module_names_the_cause_and_not_the_spelling(scene: Scene, shell: str, verb: str) -> None:
    text = take_away(scene, "not mounted")
    done = scene.run(*SHELLS[shell], f"module {verb} hello/1.0")
    said = " ".join(done.stderr.split())
    if "Lmod" in said:
        assert f"this shell does not know hello/1.0. When it started, {text}: a new shell looks again" in said
        assert "spelling" not in said
        assert "ignore" not in said
    else:  # a shell without Lmod's function, which only our files give
        assert f"when it started: {text}" in said, (shell, said)
    assert "not found" not in said


def test_module_of_another_tool_still_loads(scene: Scene) -> None:
    take_away(scene, "not mounted")
    mine = scene.folder / "mine/my"
    mine.mkdir(parents=True)
    (mine / "1.0.lua").write_text('setenv("MY", "1")\n')
    said = scene.said("bash", "-lc", "module load my; echo $MY", env={"MODULEPATH": str(mine.parent)})
    assert said == ["1"]


def test_shell_that_sees_the_prefix_has_lmods_own_message(scene: Scene) -> None:
    said = " ".join(scene.run("bash", "-lc", "module load nothing").stderr.split())
    assert 'The following module(s) are unknown: "nothing"' in said
    assert "When it started" not in said


# -- a prefix that hangs: sshfs on a server that is stopped -------------------------------------------------------------


@pytest.fixture
def hanging(scene: Scene) -> Iterator[Scene]:
    """Every `run` finds the prefix on a file system whose server stands still from the start (until `wake` exists)."""
    if os.geteuid() or not shutil.which("sshfs") or not Path("/dev/fuse").exists():
        pytest.skip("needs root, sshfs and /dev/fuse")
    real, server = scene.folder / "real", scene.folder / "server"
    scene.prefix.rename(real)
    scene.prefix.mkdir()
    server.write_text(f"#!/bin/sh\necho $$ >{scene.folder}/pid\nexec /usr/lib/openssh/sftp-server\n")
    server.chmod(0o755)
    scene.before = [
        f"sshfs -o ssh_command={server},dir_cache=no,allow_other,attr_timeout=0,entry_timeout=0 x:{real} {scene.prefix}",
        f"kill -STOP $(cat {scene.folder}/pid)",
        f"{{ until [ -e {scene.folder}/wake ]; do sleep 0.05; done; kill -CONT $(cat {scene.folder}/pid); }} >/dev/null 2>&1 &",
    ]
    yield scene
    (scene.folder / "wake").touch()
    pid = int((scene.folder / "pid").read_text())
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGKILL)  # the connection is lost, and so is who waited for it


def test_hung_prefix_is_asked_once_and_told_by_each_shell_at_a_prompt(hanging: Scene) -> None:
    away = 'set -- $ENVMGR_AWAY; echo "${ENVMGR_PIN-none} $3 $4 $2"'
    below = f"bash -lc {shlex.quote(away)}; bash -ic {shlex.quote(away)}; zsh -ic true"
    done = hanging.run("bash", "-lic", f"{away}; module -q --version >/dev/null 2>&1 && echo module; {below}")
    first, module, *children = done.stdout.splitlines()
    assert (first.split()[:2], module) == (["none", "hung"], "module")
    assert children == [first, first]  # nobody asked again: the first question still waits
    assert told(done.stderr) == [f"envmgr: {hanging.prefix} does not answer on {HOST}. {NO_SHELL}"] * 3


def test_next_shell_finds_a_prefix_that_answers_again(hanging: Scene) -> None:
    """Also within the minute: the question that waited has its answer."""
    back = f"touch {hanging.folder}/wake; until ls {hanging.prefix}/current/ >/dev/null; do sleep 0.05; done"
    ended = "set -- $ENVMGR_AWAY; while [ -d /proc/$4 ]; do sleep 0.05; done"
    loads = "module load hello; echo $HELLO ${ENVMGR_AWAY-none}"
    done = hanging.run("bash", "-lc", f"echo $ENVMGR_AWAY; {back}; {ended}; bash -lc {shlex.quote(loads)}")
    first, second = done.stdout.splitlines()
    assert first.split()[2] == "hung"
    assert second == "1 none", done.stderr


def test_hung_prefix_leaves_an_inherited_environment_alone(hanging: Scene) -> None:
    pin = f"{hanging.prefix}/generations/0001"
    env = {"ENVMGR_PIN": pin, "MODULEPATH": f"{pin}/modules:/own", "LMOD_RC": f"{pin}/lmodrc.lua"}
    said = hanging.said("tcsh", "-c", "echo $ENVMGR_PIN $MODULEPATH $LMOD_RC", env=env)
    assert said == [f"{pin} {pin}/modules:/own {pin}/lmodrc.lua"]


def test_shell_with_an_inherited_generation_is_told_that_it_waits(hanging: Scene) -> None:
    env = {"ENVMGR_PIN": f"{hanging.prefix}/generations/0001"}
    done = hanging.run("bash", "-ic", "true", env=env)
    assert told(done.stderr) == [
        f"envmgr: {hanging.prefix} does not answer on {HOST}: what comes from there waits until it does."
    ]


@pytest.mark.parametrize("argv", [("bash", "-lc"), ("dash", "-c"), ("zsh", "-c"), ("tcsh", "-c")])
def test_module_names_the_hung_prefix(hanging: Scene, argv: tuple[str, ...]) -> None:
    """Lmod lies below /usr: its function is there in each of them."""
    done = hanging.run(*argv, f"{f'. {PROFILE}; ' if argv[0] == 'dash' else ''}module load hello")
    said = " ".join(done.stderr.split())
    assert f"does not know hello. When it started, {hanging.prefix} does not answer on {HOST}: a new shell" in said


def test_program_names_the_hung_prefix_and_looks_for_no_lmod_there(hanging: Scene) -> None:
    """A shell that read no start-up file finds the program; Lmod's folder may hang, too."""
    env = {
        "LMOD_PKG": f"{hanging.prefix}/lmod",
        "ENVMGR_AWAY": f"{HOST} 1 hung - -,- {hanging.prefix} does not answer on {HOST}",
    }
    env["PATH"] = "/usr/bin:/bin:/etc/envmgr/node/lmod/bin"
    done = hanging.run("dash", "-c", "module load hello", env=env)
    assert done.stderr.splitlines()[:2] == [
        "module: this shell (dash) is not bash, and has no function `module`. Nothing was done.",
        f"  when it started:  {hanging.prefix} does not answer on {HOST}",
    ]


def test_prefix_that_answers_after_a_while_is_used(hanging: Scene) -> None:
    """As soon as the shell waits for it."""
    waits = "grep -qsz '/pin$' /proc/[0-9]*/cmdline"
    hanging.before.append(f"(until {waits}; do sleep 0.02; done; touch {hanging.folder}/wake) &")
    assert hanging.said("zsh", "-lc", "echo $ENVMGR_PIN") == [f"{hanging.prefix}/generations/0001"]


def test_question_that_does_not_wait_any_more_is_asked_again(scene: Scene) -> None:
    uptime = int(float(Path("/proc/uptime").read_text().split()[0]))
    pin = f"{scene.prefix}/generations/0001"
    with subprocess.Popen(["sleep", "infinity"]) as waiting:
        pid = waiting.pid
        for away, found in {
            f"{HOST} {uptime} hung {pid} -,- x": "none",
            f"{HOST} {uptime} hung 999999999 -,- x": pin,
            f"{HOST} {uptime - 100} hung {pid} -,- x": pin,
            f"{HOST} {uptime + 9000} hung {pid} -,- x": pin,
            f"other {uptime} hung {pid} -,- x": pin,
            f"{HOST} {uptime} gone - -,- x": pin,
            f"{HOST} $(id) hung {pid} -,- x": pin,
            f"{HOST} {uptime} hung": pin,
            f"{HOST} {uptime} hung - - -": pin,
            f"{HOST} {uptime} hung ../self": pin,
            f"{HOST} * hung": pin,
            "hung": pin,
            " hung": pin,
        }.items():
            text = f". {PROFILE}; echo ${{ENVMGR_PIN-none}}"
            assert scene.said("bash", "--norc", "-c", text, env={"ENVMGR_AWAY": away}) == [found], away
        waiting.kill()
