"""What modules do besides variables, with real Lmod: values known at load, shell functions, what unloading runs.

And all of it together, as the entry `anaconda` uses it: `conda activate` by a stand-in that speaks conda's protocol.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe, Software
from envmgr.errors import EnvmgrError
from envmgr.modules.render import fingerprint
from envmgr.modules.spec import EnvOp, ModuleSpec, ShellFunction, UnloadCommand
from envmgr.modules.statements import ModulePolicies, operations
from envmgr.publish.compose import compose_module
from envmgr.store.manifest import InstallFacts
from envmgr.system.files import shipped
from envmgr.system.run import clean_env
from tests.helpers import standin_conda
from tests.helpers.lmod_shell import LMOD, Tree, make_tree, op, spec
from tests.helpers.waiting import DEADLINE

SHELLS = ("bash", "zsh", "sh", "tcsh")
SH = ("bash", "zsh", "sh")
OPTIONS = {"bash": ["--noprofile", "--norc"], "zsh": ["-f"], "tcsh": ["-f"]}


def at_load(kind: str, name: str, value: str) -> EnvOp:
    return EnvOp(kind=kind, name=name, value=value, at_load=True)


def run(tree: Tree, shell: str, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`script` in a shell with `module`; `snapshot FILE` writes the environment."""
    define = "alias snapshot 'env -0 > {}/\\!:1'" if shell == "tcsh" else 'snapshot() {{ env -0 > "{}/$1"; }}'
    source = "source" if shell == "tcsh" else "."
    if shell == "tcsh":  # it replaces aliases in a whole line before it runs it
        script = script.replace("; ", "\n")
    file = tree.folder / "script"
    file.write_text(f"{source} {LMOD.init_script(shell)}\n{define.format(tree.folder)}\n{script}\n")
    own = {"MODULEPATH": str(tree.modules), "HOME": str(tree.folder), "LMOD_TERM_WIDTH": "400"}
    environ = {key: value for key, value in clean_env(**{**own, **env}).items() if value != "(unset)"}
    argv = [shell, *OPTIONS.get(shell, []), str(file)]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False, timeout=DEADLINE)


# --- values known at load


@pytest.mark.parametrize("shell", SHELLS)
def test_values_are_filled_in_for_who_loads_and_undone(tmp_path: Path, shell: str) -> None:
    ops = [
        at_load("set", "A", "${HOME}/a $$ ${USER}"),
        at_load("set-default", "B", "${HOME}/b"),
        at_load("set-default", "C", "${HOME}/c"),
        at_load("prepend", "D", "${HOME}/d"),
        at_load("append", "D", "/x/${USER}"),
    ]
    tree = make_tree(tmp_path, spec("app/1", *ops))
    script = "snapshot before; module load app; snapshot loaded; module load app; module unload app; snapshot after"
    done = run(tree, shell, script, USER="alice", HOME="/no/such home", A="mine", C="mine", D="/y")
    assert (done.returncode, done.stderr) == (0, "")
    loaded = tree.read_snapshot("loaded")
    assert {name: loaded[name] for name in "ABCD"} == {
        "A": "/no/such home/a $ alice",
        "B": "/no/such home/b",
        "C": "mine",
        "D": "/no/such home/d:/y:/x/alice",
    }
    assert tree.read_snapshot("after") == tree.read_snapshot("before")


@pytest.mark.parametrize("home", ["(unset)", ""])
def test_load_without_home_leaves_out_what_needs_it(tmp_path: Path, home: str) -> None:
    ops = [at_load(kind, f"V{i}", "${HOME}/x") for i, kind in enumerate(("set", "set-default", "prepend", "append"))]
    tree = make_tree(tmp_path, spec("app/1", *ops, op("set", "W", "w")))
    script = "snapshot before; module load app; snapshot loaded; module unload app; snapshot after"
    done = run(tree, "bash", script, HOME=home, V1="", V2="/mine")
    assert (done.returncode, done.stderr) == (0, "")
    before, loaded = tree.read_snapshot("before"), tree.read_snapshot("loaded")
    assert {k: v for k, v in loaded.items() if before.get(k) != v and not k.startswith(("APP_", "ENVMGR_"))} == {
        "W": "w"
    }
    assert {k: v for k, v in before.items() if v} == {k: v for k, v in tree.read_snapshot("after").items() if v}


def test_list_of_words_cannot_hold_a_value_known_at_load() -> None:
    bad = EnvOp(kind="append", name="V", value="${HOME}", separator=" ", at_load=True)
    with pytest.raises(EnvmgrError) as caught:
        operations(spec("app/1", bad), ModulePolicies())
    assert str(caught.value) == (
        "error[module-value]: the module of app/1 cannot change 'V'\n"
        "  a value that is known at load cannot be an element of a list without colons"
    )


def test_fingerprint_tells_a_value_known_at_load_from_its_text() -> None:
    prints = {
        fingerprint(spec("a/1", entry), ModulePolicies(), "t")
        for entry in (at_load("set", "A", "$HOME"), op("set", "A", "$HOME"), at_load("set", "A", "$USER"))
    }
    assert len(prints) == 3


# --- functions

GREET = ShellFunction(
    name="greet",
    bash='# says "hello"\ncase "${1-}" in\nfail) return 3 ;;\n*) printf \'%s|\' "$#" "$@"; echo ;;\nesac',
    csh='echo -n "`count $*`|"; echo $*',
)


@pytest.mark.parametrize("shell", SH)
def test_function_gets_its_arguments_and_goes_with_the_module(tmp_path: Path, shell: str) -> None:
    tree = make_tree(tmp_path, spec("app/1", functions=(GREET,)))
    script = """module load app; module load app; greet a 'b  c' '$HOME'; greet; greet fail; echo "status $?"
module unload app; command -v greet; greet 2>/dev/null; echo "gone $?" """
    done = run(tree, shell, script)
    assert (done.stdout.splitlines(), done.stderr) == (["3|a|b  c|$HOME|", "0|", "status 3", "gone 127"], "")


def test_function_in_csh_is_an_alias_that_goes_with_the_module(tmp_path: Path) -> None:
    function = ShellFunction(name="greet", bash=":", csh='if (! $?GREETED) setenv GREETED "a?b*"; echo "$GREETED" $*')
    tree = make_tree(tmp_path, spec("app/1", functions=(function,)))
    script = "module load app; module load app; greet x 'y  z' > $HOME/said; cat $HOME/said; module unload app; alias greet; greet"
    done = run(tree, "tcsh", script)
    assert (done.stdout.splitlines(), done.stderr) == (["a?b* x y  z"], "greet: Command not found.\n")


def test_word_with_a_pattern_outside_of_quotes_may_end_in_no_match_in_csh(tmp_path: Path) -> None:
    """csh reads what Lmod prints through backquotes. The page of recipes says so."""
    function = ShellFunction(name="greet", bash=":", csh="echo a?b*")
    tree = make_tree(tmp_path, spec("app/1", functions=(function,)))
    done = run(tree, "tcsh", "module load app; greet")
    assert "No match" in done.stderr


def test_users_own_function_of_that_name_is_gone_after_an_unload(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, spec("app/1", functions=(GREET,)))
    script = "greet() { echo mine; }; greet; module load app; greet x; module unload app; greet 2>/dev/null; echo $?"
    assert run(tree, "bash", script).stdout.splitlines() == ["mine", "1|x|", "127"]


def test_function_without_csh_text_leaves_the_command_alone_in_csh(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, spec("app/1", functions=(ShellFunction(name="echo", bash=":"),)))
    done = run(tree, "tcsh", "module load app; echo still; alias echo; module unload app; echo there")
    assert (done.stdout.splitlines(), done.stderr) == (["still", "there"], "")


def test_child_shell_has_the_function_after_a_refresh(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, spec("app/1", functions=(GREET,)))
    init = LMOD.init_script("bash")
    script = f"""module load app
bash --noprofile --norc -c 'greet x 2>/dev/null; echo $?; . {init}; module refresh; greet x'"""
    assert run(tree, "bash", script).stdout.splitlines() == ["127", "1|x|"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_text_that_no_shell_parses_does_not_keep_an_unload_from_undoing_the_rest(tmp_path: Path, shell: str) -> None:
    tree = make_tree(tmp_path, spec("app/1", op("set", "V", "1"), on_unload=UnloadCommand(bash="if true; then")))
    done = run(tree, shell, 'module load app/1; echo "V=$V"; module unload app; echo "V=$V"')
    assert done.stdout.splitlines() == ["V=1", "V="]


@pytest.mark.parametrize("shell", SHELLS)
def test_unload_command_runs_at_unload_only_and_after_the_rest(tmp_path: Path, shell: str) -> None:
    command = UnloadCommand(bash='if :; then\n  echo "left ${V-nothing}"\nfi', csh="printenv V || echo left nothing")
    tree = make_tree(tmp_path, spec("app/1", op("set", "V", "1"), on_unload=command), spec("app/2"))
    script = """module load app/1; module show app/1; module whatis app/1; echo A; module unload app
echo B; module load app/1; module load app/2; module load app/1; echo C; module load app/1"""
    done = run(tree, shell, script if shell == "tcsh" else script.replace(">& /dev/null", ">/dev/null 2>&1"))
    left = done.stdout.split("\n")[:-1]
    # Lmod loads what is loaded already by an unload and a load, and runs the command after both.
    assert left == ["A", "left nothing", "B", "left nothing", "C", "1" if shell == "tcsh" else "left 1"]


def test_modules_with_functions_pass_lmods_spider_and_other_languages(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, spec("app/1", functions=(GREET,), on_unload=UnloadCommand(bash="echo x")))
    tree.cache()
    assert "app/1" in run(tree, "bash", "module -t spider app 2>&1").stdout
    lines = run(tree, "bash", "$LMOD_CMD python load app").stdout
    compile(lines, "lmod", "exec")
    assert "greet" not in lines


# --- conda, as the entry `anaconda` has it


def environment_of_anaconda() -> dict[str, Any]:
    """Of the recipes that ship, which have the same."""
    found = [
        yaml.safe_load(p.read_text("utf-8"))["environment"] for p in shipped("recipes").glob("anaconda/*/recipe.yaml")
    ]
    assert all(each == found[0] for each in found)
    environment: dict[str, Any] = found[0]
    return environment


@dataclass(frozen=True, slots=True)
class Conda:
    tree: Tree
    root: Path

    def run(self, shell: str, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        return run(self.tree, shell, script, **env)

    def called(self) -> list[str]:
        return (self.tree.folder / "conda.log").read_text().splitlines()


def install(folder: Path, version: str) -> ModuleSpec:
    root = folder / "store/anaconda" / version
    for part in ("bin", "condabin", "etc/profile.d"):
        (root / part).mkdir(parents=True)
    python = Path(sys.executable).resolve()
    (root / "bin/conda").write_text(f"#!{python}\n{Path(standin_conda.__file__).read_text()}")
    (root / "bin/conda").chmod(0o755)
    (root / "bin/python").symlink_to(python)
    (root / "etc/profile.d/conda.csh").write_text(standin_conda.CSH.format(root=root))
    return compose_module(
        Entry("anaconda", version),
        Recipe(backend="conda", input={}, environment=environment_of_anaconda()),
        Software(description="conda"),
        root=str(root),
        digest="ab" * 32,
        packages={},
        extensions=(),
        facts=InstallFacts(environment=(op("prepend", "PATH", f"{root}/bin"),), python="3.11"),
    )


@pytest.fixture
def conda(tmp_path: Path) -> Conda:
    tree = make_tree(
        tmp_path, install(tmp_path, "1"), install(tmp_path, "2"), spec("other/1", op("prepend", "PATH", "/other/bin"))
    )
    return Conda(tree, tmp_path / "store/anaconda/1")


def written(root: Path) -> set[tuple[str, int]]:
    return {(str(path), path.lstat().st_mtime_ns) for path in root.rglob("*")}


@pytest.mark.parametrize("shell", SHELLS)
def test_environment_is_created_activated_used_and_left(conda: Conda, shell: str) -> None:
    before = written(conda.root)
    status = "$status" if shell == "tcsh" else "$?"
    script = f"""snapshot before; module load anaconda/1; snapshot loaded
conda create -n mine; conda activate mine; tool; snapshot active
conda install 'x>=1'; conda list a 'b  c'; conda list | cat; conda fail; echo {status}
conda activate nosuch; echo {status}; conda deactivate; snapshot left; module unload anaconda; snapshot after"""
    done = conda.run(shell, script)
    # conda's file for csh takes its arguments apart and keeps no status of a plain command.
    listed, failed = ("conda list a b c", "0") if shell == "tcsh" else ("conda list a b  c", "3")
    assert done.stdout.splitlines() == ["tool of mine", listed, "conda list", failed, "1"]
    assert done.stderr.split("\n")[1:] == ["EnvironmentNameNotFound: Could not find conda environment: nosuch", ""]
    active, loaded = conda.tree.read_snapshot("active"), conda.tree.read_snapshot("loaded")
    mine = conda.tree.folder / ".conda/envs/mine"
    assert active["PATH"] == f"{mine}/bin:{loaded['PATH']}"
    assert (active["CONDA_PREFIX"], active["CONDA_SHLVL"], active["CONDA_DEFAULT_ENV"]) == (str(mine), "1", "mine")
    assert loaded["PATH"].startswith(f"{conda.root}/condabin:{conda.root}/bin:")
    assert conda.tree.read_snapshot("left")["PATH"] == loaded["PATH"]
    assert conda.tree.read_snapshot("after") == conda.tree.read_snapshot("before")
    assert [p.name for p in (conda.tree.folder / ".conda/pkgs").iterdir()] == ["x__1"]
    assert written(conda.root) == before
    kind = "csh" if shell == "tcsh" else "posix"
    assert (f"shell.{kind} reactivate" in conda.called()) is (shell != "tcsh")  # csh: conda's own file does


# Shells of the Bourne family get one text, csh another: all ends in one of each, and one end in the others.
@pytest.mark.parametrize(
    ("shell", "last", "goodbye"),
    [
        *itertools.product(["bash", "tcsh"], ["mine", "base"], ["module unload anaconda", "module purge"]),
        ("zsh", "base", "module unload anaconda"),
        ("sh", "base", "module unload anaconda"),
    ],
)
def test_unload_leaves_environments_that_are_active(conda: Conda, shell: str, last: str, goodbye: str) -> None:
    script = f"""snapshot before; module load anaconda/1 ; conda create -n mine; conda create -n second
conda activate second; module load other; conda activate {last}; module unload other
{goodbye}; snapshot after; module load anaconda/1; conda activate mine; tool; {goodbye}; snapshot again"""
    done = conda.run(shell, script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "tool of mine\n", "")
    assert conda.tree.read_snapshot("after") == conda.tree.read_snapshot("before")
    assert conda.tree.read_snapshot("again") == conda.tree.read_snapshot("before")


@pytest.mark.parametrize("shell", SHELLS)
def test_load_twice_and_swap_are_clean(conda: Conda, shell: str) -> None:
    script = """snapshot before; module load anaconda/1; module load anaconda/1; conda create -n mine; conda activate mine
module load anaconda/2; snapshot swapped; conda activate mine; tool; module unload anaconda; snapshot after"""
    done = conda.run(shell, script if shell == "tcsh" else script.replace(">& /dev/null", ">/dev/null 2>&1"))
    assert done.stdout == "tool of mine\n"
    assert "anaconda/1 => anaconda/2" in done.stderr
    second = conda.root.with_name("2")
    swapped = conda.tree.read_snapshot("swapped")
    assert swapped["CONDA_EXE"] == f"{second}/bin/conda"
    assert "CONDA_PREFIX" not in swapped
    assert str(conda.root) not in swapped["PATH"]
    assert conda.tree.read_snapshot("after") == conda.tree.read_snapshot("before")


@pytest.mark.parametrize("shell", SHELLS)
def test_users_own_folders_and_own_conda_are_kept(conda: Conda, shell: str) -> None:
    """The user has another conda with an environment active: one level deep when the module comes."""
    folder = conda.tree.folder
    own = {
        "CONDA_SHLVL": "1",
        "CONDA_PREFIX": "/own/envs/work",
        "CONDA_DEFAULT_ENV": "work",
        "CONDA_EXE": "/own/conda/bin/conda",
        "CONDA_PROMPT_MODIFIER": "(work) ",
        "CONDA_PYTHON_EXE": "/own/conda/bin/python",
        "PATH": f"/own/envs/work/bin:/own/conda/condabin:{clean_env()['PATH']}",
        "CONDA_ENVS_PATH": f"{folder}/scratch/envs",
        "CONDA_PKGS_DIRS": f"{folder}/scratch/pkgs",
    }
    script = """snapshot before; module load anaconda/1; conda create -n mine; conda activate mine; tool; conda install x
module unload anaconda; snapshot after"""
    done = conda.run(shell, script, **own)
    assert done.stdout == "tool of mine\n"
    said = "Note: the Python of anaconda/1 hides the environment /own/envs/work: activate it again."
    assert " ".join(done.stderr.split()) == said
    assert sorted(p.name for p in (folder / "scratch").iterdir()) == ["envs", "pkgs"]
    assert not (folder / ".conda").exists()
    after = conda.tree.read_snapshot("after")
    assert {k: v for k, v in after.items() if v} == conda.tree.read_snapshot("before")


def test_prompt_shows_the_environment_and_comes_back(conda: Conda) -> None:
    script = """module load anaconda/1; conda create -n mine; PS1='$ '; conda activate mine; echo "[$PS1]"; conda activate base
echo "[$PS1]"; module unload anaconda; echo "[$PS1]" """
    assert conda.run("bash", script).stdout.splitlines() == ["[(mine) $ ]", "[(base) $ ]", "[$ ]"]
    script = """set prompt = "% "; module load anaconda/1; conda create -n mine; conda activate mine; echo "[$prompt]"
conda activate base; echo "[$prompt]"; module unload anaconda; echo "[$prompt]" """
    assert conda.run("tcsh", script).stdout.splitlines() == ["[(mine) % ]", "[(base) % ]", "[% ]"]


@pytest.mark.parametrize("shell", SH)
def test_functions_hold_in_strict_shells(conda: Conda, shell: str) -> None:
    script = """module load anaconda/1; conda create -n mine; set -eu
conda activate mine; tool; conda list; conda deactivate; conda activate nosuch || echo "no $?"; conda activate mine
set +eu; module unload anaconda; echo "${CONDA_PREFIX-none}" """
    assert conda.run(shell, script).stdout.splitlines() == ["tool of mine", "conda list", "no 1", "none"]


@pytest.mark.parametrize("shell", SH)
def test_unload_ends_when_conda_cannot_run_any_more(conda: Conda, shell: str) -> None:
    script = f"""module load anaconda/1; conda create -n mine; conda activate mine; rm {conda.root}/bin/conda
module unload anaconda; echo "${{CONDA_EXE-none}}" """
    assert conda.run(shell, script).stdout == "none\n"


def test_venv_on_top_of_the_module_is_its_own(conda: Conda) -> None:
    script = """module load anaconda/1; python -m venv --without-pip "$HOME/v"; "$HOME/v/bin/python" -c 'import sys; print(sys.prefix)'
. "$HOME/v/bin/activate"; command -v python; deactivate; command -v python; module unload anaconda"""
    done = conda.run("bash", script)
    folder = conda.tree.folder
    assert (done.stdout.splitlines(), done.stderr) == (
        [f"{folder}/v", f"{folder}/v/bin/python", f"{conda.root}/bin/python"],
        "",
    )


def test_unload_of_an_unused_conda_starts_nothing(conda: Conda) -> None:
    for shell in SHELLS:
        shutil.rmtree(conda.tree.folder / ".conda", ignore_errors=True)
        done = conda.run(shell, "module load anaconda/1; module unload anaconda")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (conda.tree.folder / "conda.log").exists()
