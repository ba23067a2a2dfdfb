"""The program `module` of node-setup, for shells without Lmod's function: where it stands, what it says, and that no shell takes
it for the function. Real shells and real Lmod, on a copy of this machine's /etc."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.lmod_shell import LMOD
from tests.helpers.node_scene import SHELLS, Scene

FOLDER = "/etc/envmgr/node/lmod/bin"
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
PROLOG = "/etc/envmgr/node/task-prolog"
PYTHON = Path("/usr/bin/python3").resolve().name
LOADS = "module load hello; echo $HELLO"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("node")
    made = Scene(folder)
    made.generation(1)
    made.do("apply")
    yield made
    remove_tree(folder / "sw")


@pytest.fixture
def scene(shared: Scene) -> Scene:
    """A node that tests share: they leave its files as they are."""
    shared.before = []
    return shared


def task(scene: Scene, **env: str) -> dict[str, str]:
    """The environment that a task of Slurm has after TaskProlog."""
    lines = scene.said(PROLOG, env=env)
    return env | dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))


@pytest.mark.parametrize("shell", sorted(SHELLS.keys() - {"fish login"}))  # whose config adds folders after conf.d
def test_program_is_the_last_of_path_once_and_the_function_wins(scene: Scene, shell: str) -> None:
    path, hello = scene.said(*SHELLS[shell], f'echo "$PATH"; {LOADS}')
    assert (path.split(":")[-1], path.split(":").count(FOLDER), hello) == (FOLDER, 1, "1")
    again, hello = scene.said(*SHELLS[shell], f'echo "$PATH"; {LOADS}', env={"PATH": f"{PATH}:{FOLDER}"})
    assert (again.split(":").count(FOLDER), hello) == (1, "1"), "a shell that inherited it without the function"


@pytest.mark.parametrize("shell", ["bash", "zsh", "dash", "bash --posix"])
def test_shell_that_found_only_the_program_gets_the_function_from_the_profile(scene: Scene, shell: str) -> None:
    flags = {"zsh": ["-f"], "dash": []}.get(shell, ["--norc"])
    text = f". /etc/profile.d/zz-envmgr.sh; {LOADS}; . /etc/profile.d/zz-envmgr.sh; module unload hello; echo ${{HELLO-none}}"
    env = {"PATH": f"{PATH}:{FOLDER}"}
    assert scene.said(*shell.split(), *flags, "-c", text, env=env) == ["1", "none"]


@pytest.mark.parametrize(
    ("path", "becomes"), [("/a b:/usr/bin", f"/a b:/usr/bin:{FOLDER}"), ("/usr/bin:", f"/usr/bin::{FOLDER}")]
)
def test_path_stays_byte_for_byte_before_it(scene: Scene, path: str, becomes: str) -> None:
    text = '. /etc/profile.d/zz-envmgr.sh; echo "$PATH"'
    assert scene.said("/bin/dash", "-c", text, env={"PATH": path}) == [becomes]
    assert task(scene, PATH=path)["PATH"] == becomes


def test_path_that_an_old_slurm_would_cut_stays_in_a_task(scene: Scene) -> None:
    path = ":".join([*(f"/opt/software/{number:04}/bin" for number in range(200)), "/usr/bin"])
    assert task(scene, PATH=path)["PATH"] == path


def test_shell_without_a_path_gets_none(scene: Scene) -> None:
    """It has the system's own folders then; one of ours would replace them. A task gets those: `module load` would leave it its own alone."""
    text = '. /etc/profile.d/zz-envmgr.sh; echo "${PATH-none}"'
    assert scene.said("/bin/dash", "-c", f"unset PATH; {text}") == ["none"]
    assert scene.said("/usr/bin/env", "PATH=", "/bin/bash", "--norc", "-c", text) == [""]
    said = scene.said("/usr/bin/env", "-u", "PATH", PROLOG)
    assert [line for line in said if line.startswith("export PATH=")] == [
        f"export PATH=/usr/local/bin:/usr/bin:/bin:{FOLDER}"
    ]


def test_system_s_own_program_stays_alone_and_another_one_behind_ours_runs(scene: Scene) -> None:
    other = scene.folder / "own/module"
    other.parent.mkdir()
    other.write_text('#!/bin/sh\necho "another: $*"\n')
    other.chmod(0o755)
    said = scene.said("/bin/dash", "-c", "module load 'a b'", env={"PATH": f"{PATH}:{FOLDER}:{other.parent}"})
    assert said == ["another: load a b"]
    scene.before = [f"mount --bind {other.parent} /usr/local/bin"]
    assert scene.said("/bin/dash", "-lc", f"{LOADS}") == ["1"]
    assert FOLDER not in scene.said("/bin/dash", "-lc", "echo $PATH")[0]


def said_to(scene: Scene, *argv: str, env: dict[str, str]) -> tuple[str, list[str]]:
    done = scene.run(*argv, env=env)
    return done.stdout.strip(), done.stderr.splitlines()


WRAP = "  a line of sbatch: sbatch --wrap \"bash -lc 'module load hello && COMMAND'\""
SCRIPT = "  a job script:     begin it with #!/bin/bash -l"


@pytest.mark.parametrize("shell", ["dash", "sh", "bash", "csh", "tcsh"])
def test_shell_without_the_function_is_told_what_to_write(scene: Scene, shell: str) -> None:
    """As `sbatch --wrap` makes it: a script. Each hint is run."""
    env = task(scene, PATH=PATH)
    del env["BASH_ENV"]
    script = scene.folder / "script"
    script.write_text("module load hello\necho after\n")
    flags = {"bash": ["--norc"], "csh": ["-f"], "tcsh": ["-f"]}.get(shell, [])
    out, told = said_to(scene, shell, *flags, str(script), env=env)
    name = Path(shutil.which(shell) or shell).resolve().name  # csh may be tcsh, and sh dash
    init = {"dash": "sh", "tcsh": "csh", "bsd-csh": "csh"}.get(name, name)
    fact = (
        "this bash has no function `module`: it read no start-up file"
        if name == "bash"
        else f"this shell ({name}) is not bash, and has no function `module`"
    )
    start = "source" if init == "csh" else "."
    assert out == "after"
    last = f"  this shell:       {start} {LMOD.package}/init/{init}"
    assert told == [f"module: {fact}. Nothing was done.", SCRIPT, WRAP, last]
    mended = scene.folder / "mended"
    mended.write_text(f"{last.removeprefix('  this shell:').strip()}\n{script.read_text()}echo $HELLO\n")
    assert said_to(scene, shell, *flags, str(mended), env=env) == ("after\n1", [])


def test_status_is_that_of_a_command_that_is_not_found(scene: Scene) -> None:
    env = task(scene, PATH=PATH)
    assert scene.said("dash", "-c", "module load hello 2>/dev/null; echo $?", env=env) == ["127"]


def test_hints_for_jobs_are_right(scene: Scene) -> None:
    env = task(scene, PATH=PATH)
    words = WRAP.partition("--wrap ")[2].strip('"').replace("COMMAND", "echo $HELLO")
    assert scene.said("dash", "-c", words, env=env) == ["1"]
    script = scene.folder / "script"
    script.write_text("#!/bin/bash -l\nmodule load hello\necho $HELLO\n")
    script.chmod(0o755)
    assert scene.said(str(script), env=env) == ["1"]


def test_program_that_is_no_shell_is_told_so(scene: Scene) -> None:
    env = task(scene, PATH=PATH)
    code = "import subprocess; print(subprocess.run(['module', 'load', \"it's\"]).returncode)"
    out, told = said_to(scene, "/usr/bin/env", "python3", "-c", code, env=env)
    assert out == "127"
    assert told == [
        f"module: `module` is a function of shells, and {PYTHON} is none that has it. Nothing was done.",
        SCRIPT,
        WRAP.replace("load hello", "load NAME"),
    ]


# -- what --export=NONE leaves behind ------------------------------------------------------------------------------------


@pytest.mark.parametrize("decided", [True, False])
def test_task_prolog_heals_a_batch_script_alone_where_the_site_says_so(scene: Scene, decided: bool) -> None:
    site = scene.folder / "site.yaml"
    site.write_text(f"schema: 1\nprefix: {scene.prefix}\nslurm: {{heal_export: {str(decided).lower()}}}\n")
    scene.do("apply")
    batch = ["NONE", "NIL", "HOME,X=1", "ALL", "all", "ALL,X=1", ""]
    healed = [
        export for export in batch if "unset SLURM_EXPORT_ENV" in scene.said(PROLOG, env={"SLURM_EXPORT_ENV": export})
    ]
    assert healed == (["NONE", "NIL", "HOME,X=1"] if decided else [])
    said = scene.said(PROLOG, env={"SLURM_EXPORT_ENV": "NONE", "SLURM_STEP_ID": "0"})
    assert "unset SLURM_EXPORT_ENV" not in said, "a task of srun keeps what it was told"
