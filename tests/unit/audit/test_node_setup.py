"""What the check of node-setup's files tells, and what no other check tells beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envmgr.audit.checks import all_checks, node_setup, nodes, saved_collections, startup_files
from envmgr.modules.nodesetup import HOOK, PROFILE, TASK_PROLOG, node_files
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import CONTEXTS, Fleet
from tests.helpers.evidence import evidence, judgement, line, site, told

AGAIN = "what `envmgr node-setup` writes | `envmgr node-setup --apply --nodes c2`"
LOGIN, CSH = CONTEXTS[0], next(context for context in CONTEXTS if context.name == "csh")


def node(*faults: str, **more: str) -> dict[str, str]:
    said = {"node_setup.faults": "\n".join(faults)} if faults else {}
    return {"node_setup.looked.node": "yes", **said, **more}


def test_nodes_as_node_setup_left_them_are_fine() -> None:
    assert told(node_setup, evidence({"c1": node(), "c2": node()})) == []


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
            ["lost /etc/systemd/system/envmgr-gpus.service"],
            "warning c2: /etc/systemd/system/envmgr-gpus.service: not there",
        ),
    ],
)
def test_each_fault_is_told_with_the_command_that_fixes_it(faults: list[str], found: str) -> None:
    assert told(node_setup, evidence({"c1": node(), "c2": node(*faults)})) == [f"{found} | {AGAIN}"]


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


def test_shells_without_the_lost_file_are_judged_alone() -> None:
    lost = evidence(
        {"c1": node(), "c2": node("lines /etc/csh.cshrc"), "c3": node(f"old {PROFILE}")},
        asked=((LOGIN, "user", "ssh"), (CSH, "user", "ssh")),
    ).of_check(all_checks()["contexts"].table)
    assert [shell.fleet.nodes for shell in lost.each_shell()] == [("c1", "c2", "c3"), ("c1", "c3")]


def test_node_without_a_profile_file_has_one_finding() -> None:
    key = "ctx.bash-login.user."
    well = {f"{key}modulepath": "/sw/generations/0001/modules", f"{key}module": "yes", f"{key}lmod_rc": ""}
    checks = {name: all_checks()[name] for name in ("contexts", "node-setup")}
    given = evidence(
        {"c1": node(**well), "c2": node(f"lost {PROFILE}", **{f"{key}modulepath": "", f"{key}module": "no"})},
        asked=((LOGIN, "user", "ssh"),),
    )
    found = [
        finding
        for finding in judgement(given, checks).findings
        if finding.nodes == "c2" and finding.severity == "error"
    ]
    assert [line(finding) for finding in found] == [f"error c2: {PROFILE}: not there | {AGAIN}"]


def test_start_up_files_hook_and_jobs_of_such_a_node_are_not_told_again() -> None:
    sums = [{"startup_files.looked.node": "yes", "startup_files.sums": f"{n} /etc/zsh/zshenv"} for n in (1, 1, 2)]
    answers = [node(**sums[0]), node(**sums[1]), node("lines /etc/zsh/zshenv", **sums[2])]
    named = {f"c{n}": facts for n, facts in enumerate(answers, 1)}
    assert told(startup_files, evidence(named)) == []
    key = f"ctx.{LOGIN.name}.user."
    facts = {f"{key}hook": "broken", f"{key}modulepath": ""}
    given = evidence({"c2": node(f"lost {HOOK}/newer.lua", **facts)}, asked=((LOGIN, "user", "ssh"),))
    assert told(saved_collections, given) == []


def test_job_that_a_changed_task_prolog_ends_is_a_note() -> None:
    given = evidence({"c1": node(f"changed {TASK_PROLOG}")}, own={"c1": {"host": "c1"}})
    job = Reply("c1", "silent", "", "TaskProlog failed", 0.0, 1.0)
    jobs = Fleet((), {}, {"c1": job}, (job,))
    (said,) = told(nodes, replace(given, ways={**given.ways, "slurm": jobs}))
    assert said.startswith("note c1: Slurm (inherited environment): silent: TaskProlog failed | ")
