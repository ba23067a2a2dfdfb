"""What the check of node-setup's files tells, and what no other check tells beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envmgr.audit.checks import all_checks, node_setup
from envmgr.modules.node_paths import HOOK, PROFILE, TASK_PROLOG
from envmgr.modules.nodesetup import node_files
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import CONTEXTS, Fleet
from tests.helpers.evidence import evidence, judgement, line, site, told

AGAIN = "what `envmgr node-setup` writes | `envmgr node-setup --apply --nodes c2`"
LOGIN, CSH = CONTEXTS[0], next(context for context in CONTEXTS if context.name == "csh")


def node(*faults: str, **more: str) -> dict[str, str]:
    said = {"node_setup.faults": "\n".join(faults)} if faults else {}
    return {"node_setup.looked.node": "yes", **said, **more}


@pytest.mark.parametrize(
    ("faults", "found"),
    [
        (
            [f"lost {HOOK}/newer.lua", f"lost {HOOK}/restore.lua"],
            f"error c2: {HOOK}/newer.lua, {HOOK}/restore.lua: not there",
        ),
        ([f"changed {TASK_PROLOG}"], f"error c2: {TASK_PROLOG}: is not as node-setup writes it"),
        ([f"old {PROFILE}"], f"warning c2: {PROFILE}: is as another envmgr, or another site.yaml, wrote it"),
        ([f"closed {PROFILE}"], f"error c2: {PROFILE}: its mode keeps users from it"),
        (["lines /etc/zsh/zshenv"], "error c2: /etc/zsh/zshenv: node-setup's lines are not in it"),
        (
            ["unchecked /usr/local/share/jupyter/kernels"],
            "error c2: /usr/local/share/jupyter/kernels: Jupyter reads kernels through it, and nobody checks their signature",
        ),
        (["lost /etc/envmgr/node/_envmgr"], "warning c2: /etc/envmgr/node/_envmgr: not there"),
        (
            ["lost /etc/systemd/system/envmgr-gpus.service"],
            "warning c2: /etc/systemd/system/envmgr-gpus.service: not there",
        ),
    ],
)
def test_each_fault_is_told_with_the_command_that_fixes_it(faults: list[str], found: str) -> None:
    again = (
        AGAIN.replace(AGAIN.partition(" | ")[0], "no link where `policies.unsigned` is `refuse`")
        if "unchecked" in faults[0]
        else AGAIN
    )
    assert told(node_setup, evidence({"c1": node(), "c2": node(*faults)})) == [f"{found} | {again}"]


def test_lines_between_the_marks_are_not_removed_with_them() -> None:
    (said,) = told(node_setup, evidence({"c2": node("damaged /etc/bash.bashrc")}))
    assert "/^# >>> envmgr >>>/d" in said
    assert said.endswith("/etc/bash.bashrc`, then `envmgr node-setup --apply --nodes c2`")


def test_list_of_signers_and_the_highest_flip_are_not_compared() -> None:
    signs = site(signing={"allowed_signers": "allowed_signers"})
    assert node_setup._files(signs) == node_files(signs, "", floor=0)
    floors = [next(f for f in node_files(signs, "", floor=n).files if f.path.endswith("/settings")) for n in (1, 7)]
    assert floors[0].text != floors[1].text
    assert node_setup._line("settings", floors[0]) == node_setup._line("settings", floors[1])


def test_node_without_a_profile_file_has_one_finding() -> None:
    key = "ctx.bash-login.user."
    well = {f"{key}modulepath": "/sw/generations/0001/modules", f"{key}module": "yes", f"{key}lmod_rc": ""}
    checks = {name: all_checks()[name] for name in ("contexts", "node-setup")}
    given = evidence(
        {"c1": node(**well), "c2": node(f"lost {PROFILE}", **{f"{key}modulepath": "", f"{key}module": "no"})},
        asked=((LOGIN, "user", "ssh"),),
    )
    (found,) = (finding for finding in judgement(given, checks).findings if finding.nodes == "c2")
    assert line(found) == f"error c2: {PROFILE}: not there | {AGAIN}"
    assert {(each.check, each.where) for each in found.consequences} == {("contexts", "bash-login (alice)")}


def test_start_up_files_hook_and_jobs_of_such_a_node_follow_from_it() -> None:
    sums = [{"startup_files.looked.node": "yes", "startup_files.sums": f"{n} /etc/zsh/zshenv"} for n in (1, 1, 2)]
    answers = [node(**sums[0]), node(**sums[1]), node("lines /etc/zsh/zshenv", **sums[2])]
    checks = {name: all_checks()[name] for name in ("node-setup", "startup-files")}
    (found,) = judgement(evidence({f"c{n}": facts for n, facts in enumerate(answers, 1)}), checks).findings
    assert [each.check for each in found.consequences] == ["startup-files"]
    facts = {f"ctx.{LOGIN.name}.user.{key}": value for key, value in (("hook", "broken"), ("modulepath", ""))}
    given = evidence({"c2": node(f"lost {HOOK}/newer.lua", **facts)}, asked=((LOGIN, "user", "ssh"),))
    checks = {name: all_checks()[name] for name in ("node-setup", "saved-collections")}
    (found,) = judgement(given, checks).findings
    assert {each.check for each in found.consequences} == {"saved-collections"}


def test_job_that_a_changed_task_prolog_ends_follows_from_it() -> None:
    given = evidence({"c1": node(f"changed {TASK_PROLOG}")}, own={"c1": {"host": "c1"}})
    job = Reply("c1", "silent", "", "TaskProlog failed", 0.0, 1.0)
    jobs = Fleet((), {}, {"c1": job}, (job,))
    checks = {name: all_checks()[name] for name in ("nodes", "node-setup")}
    (found,) = judgement(replace(given, ways={**given.ways, "slurm": jobs}), checks).findings
    assert (found.check, [each.check for each in found.consequences]) == ("node-setup", ["nodes"])
