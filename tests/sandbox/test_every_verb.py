"""Every verb once, in the order in which an administrator meets them: part of `make test`."""

from __future__ import annotations

import json

from tests.helpers.sandbox import Sandbox
from tests.helpers.signed import make_signing
from tests.helpers.verbs import VERBS

USER_VERBS = [verb.partition(" ")[2] for verb in VERBS if verb.startswith("user ") and verb != "user list"]
# What is typed, and a text that its output must have. The lines build on each other.
STORY = [
    (["init", "made"], "made/site.yaml"),
    (["check"], "transport.via"),
    (["copy", "python/3.12"], "recipes/python/3.12"),
    (["new", "fresh/1.0", "six"], "envmgr lock fresh/1.0\nenvmgr build fresh/1.0"),
    (["import", "taken.txt", "--as", "taken/1.0"], "`envmgr lock taken/1.0` finds its packages"),
    (["check", "hello/1.0"], "1 recipe checked: 0 errors"),
    (["lock", "hello/1.0", "greet/1.0"], "hello/1.0: written"),
    (["fetch", "hello/1.0"], "hello/1.0"),
    (["build", "hello/1.0"], "published hello/1.0: generation 1 is current"),
    (["build", "greet/1.0", "--no-publish"], "greet/1.0: built"),
    (["publish", "greet/1.0"], "generation 2 is current"),
    (["list"], "greet for tests"),
    (["list", "hello/1.0"], "hello for tests"),
    (["shell-init", "bash"], "LMOD_RC="),
    (["completion", "bash"], "complete -F _envmgr envmgr"),
    (["test", "hello/1.0"], "hello/1.0"),
    (["page", "--output", "www"], "page of generation 2: "),
    (["job", "hello/1.0", "-N", "2"], "#SBATCH --nodes=2"),
    (["find", "nowhere<2"], "no nowhere<2 in 2 entries, 2 generations, 0 environments of yours"),
    (["sbom", "hello/1.0"], "hello-prefix"),
    (["stage", "--image", "hello/1.0"], "images/hello/1.0-"),
    (["verify"], "1 image verified"),
    (["export", "--to", "reframe"], "- name: hello-1_0"),
    (["schema", "diff"], '"$id": "envmgr.diff/1"'),
    (["diff", "1", "2"], "greet/1.0"),
    (["rollback"], "generation 1 is current (was 2)"),
    (["sign"], "signed generation 1: flip 4"),
    (["publish", "--remove", "hello/1.0"], "generation 3 is current (was 1)\n  - hello/1.0"),
    (["history"], "rolled back 2 -> 1"),
    (["gc"], ""),
    (["build", "--candidate", "hello/1.0"], "generation 4 is a candidate with hello/1.0; 3 is current"),
    (["promote"], "generation 4 is current (was 3)"),
    *(
        ([verb, "--help"], f"Example: envmgr {verb}") for verb in ("apply", "report")
    ),  # tests/sandbox/verbs/test_apply.py
    (["usage", "taken.txt"], "loads are not recorded now: site.yaml has no `usage: true`"),
    (["node-setup"], "/etc/envmgr/node/pin"),
    (["audit", "--explain", "mount"], "mount"),
    (["user", "list"], "no environment in"),
    (["doctor", "--help"], "Example: envmgr doctor"),  # tests/cluster/test_users.py
    *((["user", verb, "--help"], "Example: envmgr user") for verb in USER_VERBS),  # on a Python: tests/sandbox/people
    (["stage", "--help"], "Example: envmgr stage"),  # tests/cluster/images
    (["adopt", "--help"], "Propose a site.yaml"),  # with nodes: tests/cluster/audit/test_without_site.py
]


def verb_of(argv: list[str]) -> str:
    return max((verb for verb in VERBS if argv[: verb.count(" ") + 1] == verb.split()), key=len)


def test_the_story_tells_of_every_verb_that_there_is() -> None:
    assert {verb_of(argv) for argv, _ in STORY} == VERBS.keys()


def test_every_verb_does_its_work_and_a_shell_sees_it(sandbox: Sandbox) -> None:
    sandbox.settings["signing"] = make_signing(sandbox.root)
    sandbox.write_site()
    sandbox.recipe("hello/1.0", ["hello-prefix"], tests=[{"name": "runs", "run": "hello-prefix"}])
    sandbox.recipe("greet/1.0", ["hello-activate"])
    (sandbox.root / "taken.txt").write_text("six\n")
    for argv, text in STORY:
        done = sandbox.run(*argv)
        assert (done.code, text in done.stdout + done.stderr) == (0, True), f"{argv}\n{done.stdout}\n{done.stderr}"
        if argv == ["publish", "greet/1.0"]:
            loaded = sandbox.shell("module load hello/1.0 greet/1.0 && hello-prefix && module -t list 2>&1")
            assert (loaded.returncode, loaded.stderr) == (0, "")
            assert loaded.stdout.splitlines()[-2:] == ["hello/1.0", "greet/1.0"]
    record = json.loads((sandbox.prefix / "current/generation.json").read_text())
    assert (record["number"], sorted(record["entries"])) == (4, ["hello/1.0"])
