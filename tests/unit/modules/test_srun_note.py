"""What a module says in a job whose srun passes nothing on, through real Lmod."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.system.run import Runner, clean_env
from tests.helpers.lmod_shell import LMOD, Tree, make_tree, spec

JOB = {"SLURM_JOB_ID": "17", "SLURM_EXPORT_ENV": "NONE"}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return make_tree(tmp_path, spec("app/1", depends=("lib/1",)), spec("lib/1"), spec("other/1"))


def note(export: str = "NONE", command: str = "`unset SLURM_EXPORT_ENV` before it, or ") -> str:
    return (
        "Note: srun starts tasks without what modules set in this job, as it was\n"
        f"submitted with --export (SLURM_EXPORT_ENV={export}). To give it to them, type\n"
        f"{command}`srun --export=ALL`.\n"
    )


def test_module_says_once_in_a_job_that_srun_passes_nothing_on(tree: Tree) -> None:
    script = "module load app; module load other; module unload other; module purge; module load other; echo $?"
    done = tree.shell(script, **JOB)
    assert (done.stdout, done.stderr.replace("\n\n", "\n")) == ("0\n", note())
    again = tree.shell("module load other", **JOB, ENVMGR_SRUN_NOTE="16")
    assert again.stderr.startswith("Note: "), "another job, which inherited what the first was told"


def test_commands_of_the_note_are_not_wrapped(tree: Tree) -> None:
    done = tree.shell("module load app", **JOB, LMOD_TERM_WIDTH="80")
    assert done.stderr.replace("\n\n", "\n") == note()


def test_note_does_not_end_a_job_under_set_e(tree: Tree) -> None:
    done = tree.shell("set -e; module load app; echo went on", **JOB)
    assert (done.returncode, done.stdout) == (0, "went on\n")


@pytest.mark.parametrize("export", ["NONE", "NIL", "HOME,X=1", "X=ALL", "ALLES"])
def test_every_export_without_all_is_told(tree: Tree, export: str) -> None:
    done = tree.shell("module load app", **{**JOB, "SLURM_EXPORT_ENV": export})
    assert done.stderr.replace("\n\n", "\n") == note(export)


@pytest.mark.parametrize(
    "changed",
    [
        {"SLURM_JOB_ID": ""},
        {"SLURM_STEP_ID": "0"},
        {"SLURM_EXPORT_ENV": ""},
        {"SLURM_EXPORT_ENV": "ALL"},
        {"SLURM_EXPORT_ENV": "all"},
        {"SLURM_EXPORT_ENV": "X=1,ALL"},
        {"SLURM_EXPORT_ENV": "ALL,X=1"},
    ],
)
def test_nothing_is_said_where_srun_passes_all_on_or_nothing_runs_srun(tree: Tree, changed: dict[str, str]) -> None:
    done = tree.shell("module load app; echo $? ${ENVMGR_SRUN_NOTE-none}", **{**JOB, **changed})
    assert (done.stdout, done.stderr) == ("0 none\n", "")


@pytest.mark.parametrize("verb", ["show app", "avail", "spider", "help app", "whatis app", "list"])
def test_only_a_load_says_it(tree: Tree, verb: str) -> None:
    done = tree.shell(f"module {verb} 2>&1", **JOB)
    assert done.returncode == 0
    assert "SLURM_EXPORT_ENV=NONE" not in done.stdout


@pytest.mark.parametrize(("kind", "command"), [("csh", "`unsetenv SLURM_EXPORT_ENV` before it, or "), ("python", "")])
def test_what_to_type_is_for_the_shell_that_loads(tree: Tree, kind: str, command: str) -> None:
    env = clean_env(MODULEPATH=str(tree.modules), HOME=str(tree.folder), LMOD_TERM_WIDTH="400", **JOB)
    done = Runner().run([LMOD.package / "libexec/lmod", kind, "load", "other"], env=env)
    assert done.stderr.replace("\n\n", "\n") == note(command=command)
