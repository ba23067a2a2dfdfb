"""slurm.conf's TaskProlog and plugstack.conf: what nodes read, whose state is right, and commands that do no harm."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.audit.checks import slurm
from envmgr.audit.model import Evidence
from envmgr.modules.node_paths import SLURM_LINE
from envmgr.probe import shell as probe
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import as_check, audit_plan, evidence, site, told

CONF = "/etc/slurm/slurm.conf"
OURS = SLURM_LINE.partition("=")[2]


def given(*prologs: str, file: str = CONF, **more: object) -> Evidence:
    answers = {
        f"c{n}": {"slurm.conf": file, "slurm.sum": prolog or "none", "slurm.prolog": prolog}
        for n, prolog in enumerate(prologs, 1)
    }
    return evidence(answers, slurm=dict.fromkeys(answers, ("idle", "")), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("prologs", [(OURS, "", ""), (OURS, OURS, ""), (OURS, "")])
def test_task_prolog_of_node_setup_is_right_however_few_nodes_have_it(prologs: tuple[str, ...]) -> None:
    lost = {2: "c2", 3: "c[2-3]"}[len(prologs)] if "" in prologs[1:2] else "c3"
    (line,) = told(slurm, given(*prologs))
    assert line.startswith(f"error {lost}: {CONF}: no TaskProlog | ")
    assert f"TaskProlog={OURS}" in line


def test_task_prolog_of_the_site_which_may_run_node_setups_is_no_programs_to_replace() -> None:
    (line,) = told(slurm, given(OURS, "/site/prolog", "/site/prolog"))
    assert line.endswith(f"does /site/prolog run {OURS} as well, and pass on what that prints?")
    (line,) = told(slurm, given("/site/prolog", "", ""))
    assert "sed" not in line
    (line,) = told(slurm, given("/site/prolog", OURS, OURS))  # as on most nodes
    assert f"TaskProlog={OURS}" in line
    (line,) = told(slurm, given(OURS, "", "", alone=True))  # nothing of envmgr's is there
    assert line.startswith(f"error c1: {CONF}: TaskProlog is {OURS}")


def test_login_nodes_need_no_task_prolog() -> None:
    assert told(slurm, given(OURS, OURS, "", login=frozenset({"c3"}))) == []


@pytest.mark.parametrize(
    "text", ["A=1\nTaskProlog=/x\nB=2\n", "A=1\n taskprolog = /x", "A=1", "A=1\nTaskProlog=/y\nTASKPROLOG=/x\n"]
)
def test_command_for_the_task_prolog_leaves_one_line_and_a_link_as_it_was(text: str, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "slurm.conf"
    real.write_text(text)
    link.symlink_to("real")
    assert node_facts(link)["slurm.prolog"] == ("/x" if "/x" in text else "")
    (line,) = told(slurm, given(OURS, OURS, "", file=str(link)))
    command = line.split("`")[1].removesuffix(" && scontrol reconfigure")
    for _ in range(2):
        subprocess.run(command, shell=True, check=True)
        lines = [each for each in text.splitlines() if "prolog" not in each.lower()]
        assert real.read_text().splitlines() == [*lines, SLURM_LINE]
        assert link.is_symlink()
    assert node_facts(link)["slurm.prolog"] == OURS


def test_plugin_that_like_nodes_have_is_installed_and_not_taken_out_of_plugstack() -> None:
    lost = {"slurm.required": "/etc/slurm/plugstack.conf:3 spank_x.so"}
    (line,) = told(slurm, evidence({"c1": {"slurm.brought": "spank_x.so"}, "c2": lost}))
    assert line.endswith(
        "/etc/slurm/plugstack.conf:3 names it, and c1 has it: on the node, install the package that brings it"
    )
    (line,) = told(slurm, evidence({"c1": lost, "c2": lost}))
    assert "take that line away" in line


def test_required_plugins_that_are_there_are_told_apart_from_those_that_are_not(tmp_path: Path) -> None:
    (tmp_path / "there.so").touch()
    (tmp_path / "slurm.conf").write_text(f"PluginDir={tmp_path}\n")
    (tmp_path / "plugstack.conf").write_text("# ours\nrequired there.so\noptional not.so\nrequired gone.so a=b\n")
    facts = node_facts(tmp_path / "slurm.conf")
    assert facts["slurm.brought"] == "there.so"
    assert facts["slurm.required"] == f"{tmp_path}/plugstack.conf:4 gone.so"


def node_facts(conf: Path) -> dict[str, str]:
    text = as_check(slurm).probe(audit_plan(site()))["node"]
    begin = (
        f"mark=\nwho=/dev/null\nroom=/tmp\njob=\nuser=\nprefix=/sw\n{script_text(probe.__file__ or '', 'library.sh')}"
    )
    stage = conf.with_name("stage.sh")
    stage.write_text(f"{begin}\n{text}")
    given = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SLURM_CONF": str(conf)}
    done = subprocess.run(["/bin/sh", stage], capture_output=True, text=True, check=True, env=given)
    return dict(read_lines(line for line in done.stdout.splitlines() if not line.startswith("@~")))
