"""`envmgr diff` of a job's output: what the job loaded, against what is current."""

from __future__ import annotations

import json
import os
from pathlib import Path

from envmgr.system.files import remove_tree
from tests.helpers.pages import agrees, blocks
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, locked

PAGE = "docs/jobs.md"


def run_job(box: Sandbox, entry: str, name: str) -> Path:
    """Run the script of `envmgr job` as Slurm would, and return its output."""
    script = box.ok("job", entry, "--", "hello").stdout
    (box.root / "srun").write_text("#!/bin/sh\n")
    (box.root / "srun").chmod(0o755)
    done = box.shell(f"export SLURM_JOB_NODELIST=c1 PATH={box.root}:$PATH\n{script}")
    assert (done.returncode, done.stderr) == (0, "")
    (box.root / name).write_text(done.stdout)
    return box.root / name


def rows(box: Sandbox, *argv: str) -> list[tuple[str, str]]:
    data = box.ok("diff", *argv, "--format", "json").data
    return [(row["entry"], row["change"]) for row in data["entries"]]


def test_job_is_compared_with_what_is_current(sandbox: Sandbox) -> None:
    box = sandbox
    locked(box, "lib/1.0", HELLO)
    locked(box, "sci/1.0", ["shared 1.0"], depends=["lib/1.0"])
    locked(box, "rest/1.0", HELLO)
    box.ok("build", "sci/1.0", "rest/1.0")
    output = run_job(box, "sci/1.0", "sci-7.out")
    digest = json.loads((box.prefix / "current/generation.json").read_text())["entries"]["sci/1.0"]["digest"][:8]
    loaded = f"the job loaded sci/1.0, generation 1, digest {digest}\n"
    assert box.ok("diff", str(output)).stdout == f"{loaded}no known difference to generation 1\n"

    # One change is of what its module loads, and one is of an entry that the job did not load.
    locked(box, "sci/1.0", ["shared 2.0", "hello-prefix"], depends=["lib/1.0"])
    locked(box, "sci/2.0", ["shared 2.0"])
    locked(box, "lib/1.0", HELLO, help="Say hello.")
    box.ok("build", "lib/1.0", "sci/1.0", "sci/2.0")
    box.ok("publish", "--remove", "rest/1.0")
    (block,) = (each for each in blocks(PAGE) if each.mark == "tests/sandbox/verbs/test_diff_job.py")
    (step,) = block.steps
    said = box.ok(*step.command.split()[1:]).stdout
    assert agrees(list(step.output or ()), said), said
    assert rows(box, "sci-7.out", "1") == []
    assert rows(box, "1", "2") == [
        ("lib/1.0", "module"),
        ("sci/1.0", "changed"),
        ("sci/2.0", "added"),
        ("sci", "default"),
    ]

    # The generation is removed: the digest is left.
    remove_tree(box.prefix / "generations/0001")
    lost = "note: sci/1.0: generation 1 was removed: its packages, module and default are not known\n"
    assert box.ok("diff", "sci-7.out").stdout == f"{loaded}{lost}sci/1.0: changed\n"
    box.ok("publish", "--remove", "sci/1.0")
    assert rows(box, "sci-7.out") == [("sci/1.0", "removed")]


def test_output_of_another_prefix_or_user_and_one_without_a_line(sandbox: Sandbox) -> None:
    box = sandbox
    locked(box, "hello/1.0", HELLO)
    box.ok("build", "hello/1.0")
    output = box.root / "7"
    line = "envmgr: hello/1.0, generation 1, digest 00000000, on c1\n"
    output.write_text(f"{line}envmgr: user/mine, generation 1, digest deadbeef, on c1\n")
    assert rows(box, "./7") == [("hello/1.0", "changed"), ("user/mine", "removed")]
    if os.geteuid() != 0:
        return
    os.chown(output, 65534, -1)
    assert box.ok("diff", "./7").stdout == (
        "the job loaded hello/1.0, generation 1, digest 00000000\n"
        "the job loaded user/mine, generation 1, digest deadbeef\n"
        "note: hello/1.0: generation 1 has another install of it: its packages, module and default are not known\n"
        "note: user/mine is an environment of the user who owns the output\n"
        "hello/1.0: changed\n"
    )
    output.write_text("done\n")
    done = box.run("diff", "./7")
    assert (done.code, done.stderr.splitlines()[0]) == (2, "error[job-output]: 7 does not say what the job loaded")
    assert "error[no-generation]: there is no generation 7\n" in box.run("diff", "7").stderr
