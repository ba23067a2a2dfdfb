"""What lies below the modules on a node: the way to the prefix, mounts that hang, devices; and numbers that are none."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.audit.ask.ask_nodes import held_back
from envmgr.audit.checks import all_checks, mount, nodes
from envmgr.audit.judge import judge
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import CONTEXTS, Group
from envmgr.probe.shell import join_probes, read_answer
from tests.helpers.evidence import audit_plan, evidence, site, told

LOGIN = CONTEXTS[0]
KEY = "ctx.bash-login.user."
HEALTHY = {"gate": "ok", "current": "generations/0001"}


def test_folder_on_the_way_to_the_prefix_that_users_cannot_enter() -> None:
    given = evidence({"c1": HEALTHY, "c2": HEALTHY | {"mount.user_stopped": "750 root:root /cluster"}})
    (line,) = told(mount, given)
    assert line.startswith("error c2: /sw: alice cannot enter /cluster (mode 750, root:root) | ")


def test_node_that_lacks_a_program_of_the_look_says_which(tmp_path: Path) -> None:
    for program in (*Path("/usr/sbin").iterdir(), *Path("/usr/bin").iterdir()):
        if program.name != "head" and not (tmp_path / program.name).is_symlink():
            (tmp_path / program.name).symlink_to(program)
    script = join_probes([], replace(audit_plan(site()), contexts=()))
    done = subprocess.run(
        ["/bin/sh"], input=script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert read_answer(done.stdout)[0]["probe"] == "/usr/bin/head is not there, or cannot be executed"


@pytest.mark.parametrize("text", ["", "x", "1.5", "²", "-"])
def test_number_that_is_none_ends_no_audit(text: str) -> None:
    numbers = ("mount.read_ms", "space.free_kb", "began", "clock.later")
    facts = HEALTHY | {"software.seen": text, "space.inodes": text}
    given = evidence(
        dict.fromkeys(("c1", "c2", "c3"), facts),
        own={"c1": dict.fromkeys(numbers, text)},
        asked=((LOGIN, "user", "ssh"),),
    )
    judge(given, all_checks())


SITE = "/opt/site fuse.sshfs fs1:/export/site"
EMPTY = {f"{KEY}modulepath": "", f"{KEY}module": "no"}
SOUND = {
    f"{KEY}modulepath": "/sw/generations/0001/modules",
    f"{KEY}module": "yes",
    f"{KEY}contexts.looked.context": "yes",
}


def of_checks(facts: dict[str, str], *checks: str) -> list[str]:
    answers = {f"c{n}": HEALTHY | (facts if n == 2 else SOUND) for n in (1, 2, 3)}
    own = {node: {"host": node} for node in answers}
    given = evidence(answers, own=own, asked=((LOGIN, "user", "ssh"),))
    chosen = {name: check for name, check in all_checks().items() if name in checks}
    found = (f for f in judge(given, chosen).findings if "c2" in f.nodes)
    return [f"{f.severity} {f.check} {f.nodes}: {f.where}: {f.found}" for f in found]


def test_mount_that_hangs_shells_is_the_one_cause_that_is_told() -> None:
    facts = {"mount.hung": SITE, f"{KEY}end": "no end in 187 s", "login.end": "no end in 187 s"}
    assert of_checks(facts, "contexts", "mount", "nodes") == [
        "error mount c2: /opt/site: does not answer (fuse.sshfs fs1:/export/site): what touches it hangs"
    ]


def test_mount_that_hangs_and_that_no_shell_touches_hides_nothing() -> None:
    found = of_checks({"mount.hung": SITE, **EMPTY}, "contexts", "mount", "nodes")
    assert "warning mount c2: /opt/site: does not answer (fuse.sshfs fs1:/export/site): what touches it hangs" in found
    assert "error contexts c2: bash-login (alice): no `module` command" in found


def test_no_job_is_sent_to_a_node_with_a_mount_that_hangs() -> None:
    clean = evidence({"c1": HEALTHY, "c2": HEALTHY | {"mount.hung": SITE}}).fleet
    stuck = "/opt/site does not answer, and a job stuck on it would drain the node"
    assert held_back(["c1", "c2"], clean) == {"c2": stuck}
    assert held_back(["c1", "c2"], None) == {}
    reason = f"no job was sent: {stuck}"
    lost = replace(
        clean,
        own={"c1": {"host": "c1"}},
        groups=(Group(HEALTHY, ("c1",)),),
        missing=(Reply("c2", "unreachable", "", reason, 0.0, 1.0),),
    )
    given = evidence({"c1": HEALTHY}, own={"c1": {"host": "c1"}})
    (line,) = told(nodes, replace(given, ways={"ssh": given.fleet, "slurm": lost}))
    assert line.startswith(
        f"note c2: Slurm (inherited environment): unreachable: {reason} | an answer | another finding says why"
    )
