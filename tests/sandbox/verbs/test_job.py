"""`envmgr job`: the script on stdout or in a file, and entries of which there is none."""

from __future__ import annotations

import pytest

from tests.helpers.sandbox import Sandbox


@pytest.fixture
def published(sandbox: Sandbox) -> Sandbox:
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.recipe("greet/1.0", ["hello-activate"])
    sandbox.ok("lock", "--all")
    sandbox.ok("build", "hello/1.0")
    return sandbox


def test_script_is_printed_or_written_and_json_has_it_all(published: Sandbox) -> None:
    printed = published.ok("job", "hello/1.0", "-N", "2", "--time", "10", "--", "hello-prefix", "a b").stdout
    assert printed.startswith("#!/bin/bash -l\n# hello/1.0, generation 1, digest ")
    assert printed.endswith("\nsrun --mpi=none hello-prefix 'a b'\n")
    argv = ["job", "hello/1.0", "-N", "2", "--time", "10", "--format", "json", "-o", "job.sh"]
    dry = published.ok(*argv, "--dry-run", "--", "hello-prefix", "a b").data
    assert not (published.root / "job.sh").exists()
    done = published.ok(*argv, "--", "hello-prefix", "a b").data
    assert (published.root / "job.sh").read_text() == done["text"] == dry["text"] == printed
    assert done.keys() == {
        "schema",
        "entry",
        "generation",
        "digest",
        "program",
        "mpi",
        "options",
        "excluded",
        "output",
        "dry_run",
        "text",
        "as_typed",
        "venv",
    }
    assert (done["schema"], done["program"], done["mpi"]) == ("envmgr.job/1", "program", "none")
    assert done["options"][2:] == ["--nodes=2", "--ntasks-per-node=1", "--time=10"]
    assert done["digest"][:8] in printed


def test_no_node_is_asked(published: Sandbox) -> None:
    """Of Slurm it asks what this host's srun can do, and nothing else."""
    folder = published.root / "programs"
    folder.mkdir()
    for name in ("srun", "sbatch", "sinfo", "scontrol", "squeue", "ssh"):
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{folder}/asked\n')
        (folder / name).chmod(0o755)
    published.ok("job", "hello/1.0", "-N", "2", PATH=f"{folder}:/usr/bin:/bin")
    asked = folder / "asked"
    assert set(asked.read_text().splitlines() if asked.exists() else ()) <= {"srun --mpi=list"}


def test_where_a_job_goes_is_the_sites_unless_it_is_said(published: Sandbox) -> None:
    published.settings["transport"] = {"slurm_options": ["--partition=gpu", "--account=admin", "--constraint=ib"]}
    published.write_site()
    options = published.ok("job", "hello/1.0", "--format", "json").data["options"]
    assert options[4:] == ["--constraint=ib", "--partition=gpu"]
    own = published.ok("job", "hello/1.0", "--partition", "cpu", "--account", "me", "--format", "json").data["options"]
    assert own[4:] == ["--constraint=ib", "--partition=cpu", "--account=me"]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (
            ["greet/1.0"],
            2,
            "error[not-published]: greet/1.0 is not published\n  generation 1\n\nhint: `envmgr build greet/1.0` publishes it\n",
        ),
        (
            ["hello/1.1"],
            2,
            "error[not-published]: hello/1.1 is not published\n  generation 1\n\nhint: did you mean hello/1.0?\n",
        ),
        ([], 2, "error[entry-missing]: a job loads an entry\n\nhint: name it, or a user environment by `--env NAME`\n"),
        (["hello/1.0", "--time", "soon"], 2, "error[bad-job-option]: --time `soon` is not a time as Slurm writes it\n"),
    ],
)
def test_what_cannot_be_a_job_is_an_error_that_says_what_to_do(
    published: Sandbox, argv: list[str], code: int, said: str
) -> None:
    done = published.run("job", *argv)
    assert (done.code, done.stdout) == (code, "")
    assert done.stderr.startswith(said)


def test_nothing_published_yet(sandbox: Sandbox) -> None:
    done = sandbox.run("job", "hello/1.0")
    assert (done.code, done.stderr.splitlines()[0]) == (
        3,
        f"error[nothing-published]: nothing is published in {sandbox.prefix}, as this host sees it",
    )
