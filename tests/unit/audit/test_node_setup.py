"""What the check of node-setup's files tells, and what no other check tells beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envmgr.audit.checks import all_checks, node_setup
from envmgr.audit.judge import judge
from envmgr.modules.node_paths import HOOK, PROFILE, TASK_PROLOG
from envmgr.modules.nodesetup import node_files
from tests.helpers.evidence import evidence, site, told

AGAIN = "what `envmgr node-setup` writes | `envmgr node-setup --apply --nodes c2`"


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


def test_lines_that_are_not_whole_may_be_for_people_to_take_out() -> None:
    lost, others = (told(node_setup, evidence({"c2": node(f"{of} /etc/bashrc")})) for of in ("lines", "marks"))
    assert lost == [f"error c2: /etc/bashrc: node-setup's lines are not in it | {AGAIN}"]
    assert others[0].endswith(
        f"take its marks, and what is between them, out of it by hand, then {AGAIN.split(' | ')[1]}"
    )


def test_list_of_signers_and_the_highest_flip_are_not_compared() -> None:
    signs = site(signing={"allowed_signers": "allowed_signers"})
    assert node_setup._files(signs) == node_files(signs, "", floor=0)
    floors = [next(f for f in node_files(signs, "", floor=n).files if f.path.endswith("/settings")) for n in (1, 7)]
    assert floors[0].text != floors[1].text
    assert node_setup._sum(floors[0]) == node_setup._sum(floors[1])


def test_file_that_is_gone_and_its_fault_are_one_finding() -> None:
    here = {"inventory.looked.node": "yes", "inventory.file": rf"{PROFILE}\t0123456789ab 644 root:root"}
    gone = {"inventory.looked.node": "yes", "inventory.file": ""}
    given = evidence({"c1": node(**here), "c2": node(f"lost {PROFILE}", **gone), "c3": node(**here)})
    checks = {name: replace(all_checks()[name], probe=lambda _: {}) for name in ("inventory", "node-setup")}
    (found,) = judge(given, checks).findings
    assert (found.severity, found.nodes, found.found) == ("error", "c2", f"{PROFILE} is not as node-setup writes it")
    assert (found.hint, [each.check for each in found.consequences]) == (AGAIN.partition(" | ")[2], ["node-setup"])
