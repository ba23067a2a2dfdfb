"""What an audit must not say: Slurm is well when nobody asked it, a busy node is broken, nodes agree where nobody looked."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envmgr.audit.ask.ask_nodes import log_part, nodes_to_ask
from envmgr.audit.checks import nodes, slurm
from envmgr.audit.findings import Caused
from envmgr.audit.fit.matrix import MatrixRow
from envmgr.audit.model import Evidence
from envmgr.audit.result import AuditResult, WayAnswers
from envmgr.catalog.recipe_parts import Requires
from envmgr.cli.render import answer_text
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import Fleet, Group
from envmgr.probe.shell import join_probes, read_answer
from tests.helpers.evidence import audit_plan, evidence, site, table_of, told

QOS = "`transport: {slurm_options: [--qos=…]}` in site.yaml, --reservation or --oversubscribe, gets a job in"
INHERITED = "Slurm (inherited environment)"


def lost(reasons: dict[str, str], *, way: str = "slurm", **more: Any) -> Evidence:
    """c1 answered; the nodes of `reasons` are unreachable for them."""
    given = evidence({"c1": {}}, missing=tuple(reasons), way=way, **more)
    fleet = given.ways[way]
    missing = tuple(Reply(node, "unreachable", "", reason, 0.0, 1.0) for node, reason in reasons.items())
    return replace(given, ways={way: Fleet(fleet.groups, {"c1": {"host": "c1"}}, fleet.replies, missing)})


# -- Slurm that does not answer ------------------------------------------------------------------------------------------


def test_slurm_that_does_not_answer_is_an_error_here() -> None:
    given = evidence({"c1": {}}, slurm_broken="Unable to contact slurm controller (connect failure)")
    assert told(slurm, given) == [
        (
            "error : Slurm: slurmctld does not answer: Unable to contact slurm controller (connect failure) | what `sinfo` "
            "says | `scontrol ping`; `systemctl restart slurmctld` on its host; is munge running here?"
        )
    ]


# -- nodes that are busy or asleep ---------------------------------------------------------------------------------------


def test_busy_node_is_a_note() -> None:
    reason = "busy: the job did not start within 30 s{}; the node was allocated"
    whys = {"c2": "Resources", "c3": "Priority", "c4": "ReqNodeNotAvail, UnavailableNodes:c[2-4]"}
    waiting = {node: reason.format(f" ({why})") for node, why in whys.items()}
    assert told(nodes, lost(waiting)) == [f"note c[2-4]: {INHERITED}: {reason.format('')} | an answer | {QOS}"]


def test_a_power_supply_that_failed_is_an_error() -> None:
    (line,) = told(nodes, lost({"c2": "Slurm: down: power supply failed"}))
    assert line.startswith(
        f"error c2: {INHERITED}: unreachable: Slurm: down: power supply failed | an answer | `scontrol"
    )


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("ssh", "No route to host"),
        ("slurm", "asleep: Slurm saves its power (idle~)"),
        ("slurm", "no job was sent: it did not answer over ssh first (No route to host)"),
    ],
)
def test_node_that_saves_power_is_a_note_however_it_was_asked(way: str, reason: str) -> None:
    states = {"c1": ("idle", ""), "c2": ("idle~", "")}
    where = "ssh" if way == "ssh" else INHERITED
    assert told(nodes, lost({"c2": reason}, way=way, slurm=states)) == [
        (
            f"note c2: {where}: asleep: Slurm saves its power (idle~) | an answer | "
            "`scontrol update nodename=c2 state=power_up`, then audit again"
        )
    ]


def test_unreachable_node_is_an_error_when_slurm_did_not_put_it_to_sleep() -> None:
    (line,) = told(nodes, lost({"c2": "No route to host"}, way="ssh", slurm={"c2": ("idle", "")}))
    assert line.startswith("error c2: ssh: unreachable: No route to host")


# -- names ---------------------------------------------------------------------------------------------------------------


def test_findings_have_the_nodes_name_and_hints_have_slurms() -> None:
    states = {"c1": ("idle", ""), "c2": ("down", "dead disk")}
    own = {"c1.x.example": {"host": "c1"}}
    given = evidence({"c1.x.example": {}}, own=own, missing=("c2.x.example",), way="slurm", slurm=states)
    assert told(slurm, given) == [
        (
            "error c2.x.example: Slurm: down: dead disk | idle, mixed or allocated | "
            "`scontrol update nodename=c2 state=resume`, once that is fixed"
        )
    ]
    (line,) = [each for each in told(nodes, given) if "unreachable" in each]
    assert line.endswith("`scontrol show node c2`; `scontrol update nodename=c2 state=resume` once it is well")


# -- the matrix ----------------------------------------------------------------------------------------------------------

MACHINE = {"fitness.arch": "x86_64", "fitness.glibc": "2.36"}


def test_node_without_the_prefix_can_run_nothing() -> None:
    given = evidence(
        {"c1": MACHINE, "c2": MACHINE | {"gate": "not mounted"}}, entries={"t/1": Requires()}, missing=("c3",)
    )
    assert table_of(given) == (
        MatrixRow("t/1", "c1", fit=True),
        MatrixRow("t/1", "c3", fit=False, reasons=("no answer",)),
        MatrixRow("t/1", "c2", fit=False, reasons=("the prefix is not there",)),
    )


def test_node_that_got_no_job_because_it_lacks_the_prefix_is_told_so() -> None:
    looked = evidence({"c1": MACHINE, "c2": MACHINE | {"gate": "hung"}}).fleet
    given = evidence({"c1": MACHINE}, entries={"t/1": Requires()}, missing=("c2",), way="slurm")
    assert table_of(replace(given, look=looked))[1] == MatrixRow("t/1", "c2", False, ("the prefix is not there",))


def test_metrics_count_the_nodes_that_cannot_run_an_entry() -> None:
    rows = (
        MatrixRow("a/1", "c[1-2]", fit=True),
        MatrixRow("a/1", "c[3-4]", fit=False, reasons=("glibc 2.17, needs 2.28",)),
        MatrixRow("a/1", "c5", fit=False, reasons=("the prefix is not there",)),
        MatrixRow("a/1", "c6", fit=False, reasons=("no answer",)),
        MatrixRow("b/1", "c[1-6]", fit=True),
    )
    text = answer_text(replace(WELL, matrix=rows), "prometheus", now=0) or ""
    lines = [line for line in text.splitlines() if line.startswith("envmgr_entry")]
    assert lines == ['envmgr_entry_unfit_nodes{entry="a/1"} 3', 'envmgr_entry_unfit_nodes{entry="b/1"} 0']
    assert "envmgr_entry" not in (answer_text(WELL, "prometheus", now=0) or "")


# -- the last line -------------------------------------------------------------------------------------------------------

WELL = AuditResult(
    generation=7,
    entries=("a/1",),
    nodes="c[1-3]",
    count=3,
    asked=(WayAnswers("ssh", "c[1-3]", "", ""),),
    contexts=("bash-ssh",),
    accounts=("root",),
    checks=("contexts", "loading", "nodes", "resolution"),
    findings=(),
    matrix=(),
    finished=1.0,
    seconds=1.0,
)
NOTE = Caused("nodes", "note", "Slurm", "busy: x", nodes="c2")
LATE = (WayAnswers("ssh", "c[1-3]", "", ""), WayAnswers("slurm", "c[1,3]", "", "c2"))


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, "all 3 nodes resolve the same modules: generation 7"),
        ({"findings": (NOTE,)}, "all 3 nodes resolve the same modules: generation 7 (1 note)"),
        (
            {"nodes": "c1", "count": 1, "asked": (WayAnswers("ssh", "c1", "", ""),)},
            "c1 resolves the published modules: generation 7",
        ),
        (
            {"findings": (NOTE,), "asked": LATE},
            "2 of 3 nodes answered in every way, and resolve the same modules: generation 7 (1 note)",
        ),
        (
            {"findings": (NOTE,), "asked": (WayAnswers("slurm", "", "", "c[1-3]"),)},
            "no node answered in every way (1 note)",
        ),
        ({"checks": ("mount", "nodes")}, "no findings by mount, nodes"),
        ({"checks": ("mount", "nodes"), "findings": (NOTE,)}, "no findings by mount, nodes (1 note)"),
        (
            {"findings": (replace(NOTE, severity="warning"),)},
            "1 warning; `--verbose` shows all of it, `--explain CHECK` what a check does",
        ),
    ],
)
def test_last_line_claims_what_was_looked_at(changed: dict[str, Any], line: str) -> None:
    assert [*replace(WELL, **changed).lines()][-1] == line


def without_jobs(reason: str, state: str = "idle") -> Evidence:
    """c1 and c2 answer over ssh, and c2 in no job."""
    states = {"c1": ("idle", ""), "c2": (state, "")}
    own = {node: {"host": node} for node in states}
    given = evidence({"c1": MACHINE, "c2": MACHINE}, own=own, entries={"t/1": Requires()}, slurm=states)
    lost = Reply("c2", "silent", "", reason, 0.0, 1.0)
    jobs = replace(given.fleet, groups=(Group({"gate": "ok"}, ("c1",)),), missing=(lost,))
    return replace(given, ways={"ssh": given.fleet, "slurm": jobs})


def test_node_whose_jobs_do_not_answer_runs_nothing() -> None:
    ended = "silent: Slurm: the job ended without an answer: cancelled"
    assert table_of(without_jobs(ended.removeprefix("silent: ")), nodes) == (
        MatrixRow("t/1", "c1", fit=True),
        MatrixRow("t/1", "c2", fit=False, reasons=(f"Slurm (inherited environment): {ended}",)),
    )
    for reason in ("busy: the job did not start within 1 s", "asleep: Slurm saves its power (idle~)"):
        assert table_of(without_jobs(reason), nodes) == (MatrixRow("t/1", "c[1-2]", fit=True),)


def test_node_that_slurm_sends_jobs_to_is_not_to_be_resumed() -> None:
    ended = "Slurm: the job ended without an answer: cancelled"
    (line,) = told(nodes, without_jobs(ended))
    assert line.endswith(
        "is another finding of c2 the cause? if not, read the last lines of slurmd's log there (SlurmdLogFile in slurm.conf)"
    )


def test_slurmds_own_words_tell_why_a_job_ended() -> None:
    given = without_jobs(
        "the job's answer was not collected: Task launch for StepId=20.0 failed on node c2: Unspecified error"
    )
    line = "error: spank: /etc/slurm/plugstack.conf:1: Failed to load plugin"
    assert nodes_to_ask(given.ways) == ("c2",)
    (said,) = told(nodes, replace(given, logs={"c2": line.replace(": s", ": JOB 7 ON c2 s"), "c1": "of another job"}))
    assert said.startswith(
        "error c2: Slurm (inherited environment): silent: the job's answer was not collected: Task launch failed on node c2: "
        f"Unspecified error; slurmd's log: {line} | an answer | is another finding of c2 the cause? "
    )
    assert nodes_to_ask({"slurm": given.ways["slurm"]}) == ()


def test_first_error_since_the_jobs_were_sent_is_read_from_slurmds_log(tmp_path: Path) -> None:
    now = time.time()
    rows = [
        (now - 600, "error: an old one"),
        (now - 5, "launch task StepId=17.0"),
        (now - 4, "[17.batch] error: spank: /lib/x.so: Dlopen of plugin file failed"),
        (now - 3, "error: later"),
    ]
    stamp = "%Y-%m-%dT%H:%M:%S"
    lines = [f"[{time.strftime(stamp, time.localtime(at))}.123] {text}\n" for at, text in rows]
    (tmp_path / "slurmd.log").write_text("".join(lines))
    (tmp_path / "slurm.conf").write_text(f"SlurmdLogFile={tmp_path}/slurmd.log\n")
    script = join_probes([log_part(60.0)], audit_plan(site()), stages=("node",))
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=script,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "SLURM_CONF": f"{tmp_path}/slurm.conf"},
    )
    facts = read_answer(done.stdout)[0]
    assert facts["slurmd_log.error"] == "error: spank: /lib/x.so: Dlopen of plugin file failed"
