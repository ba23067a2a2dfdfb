"""contrib/ with the programs that it is for: promtool, node_exporter, Prometheus, systemd, cron's shell."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from envmgr.audit.findings import Caused as Finding
from envmgr.audit.metrics import HELP
from envmgr.audit.result import AuditResult, WayAnswers
from envmgr.cli.render import answer_text, write_report
from tests.helpers.places import ROOT
from tests.helpers.programs import program, run
from tests.helpers.sandbox import Sandbox
from tests.helpers.waiting import DEADLINE, wait_for

CONTRIB = ROOT / "contrib"
ALERTS = CONTRIB / "prometheus/envmgr-alerts.yml"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
WELL = AuditResult(
    generation=12,
    entries=("hello/1.0",),
    nodes="c[1-3]",
    count=3,
    asked=(WayAnswers("ssh", "c[1-3]", "", ""),),
    contexts=("ssh-bash",),
    accounts=("root",),
    checks=("contexts", "mount", "nodes"),
    findings=(),
    matrix=(),
    finished=1_700_000_000.0,
    seconds=2.5,
)
NASTY = 'a "quoted" \\ back\nslash ä\t\r{},='
ILL = replace(
    WELL,
    asked=(WayAnswers("ssh", "c[1-2]", "", "c3"),),
    findings=(
        Finding("mount", "error", "/sw", "not mounted", nodes="c2"),
        Finding("nodes", "error", "ssh", "unreachable: no route", nodes="c3"),
        Finding("contexts", "warning", "ssh-bash", "another path", nodes="c[1-2]"),
        Finding(NASTY, "note", "x", "y"),
    ),
)


# -- alert rules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [WELL, ILL, replace(WELL, generation=None)], ids=["well", "ill", "failed"])
def test_promtool_has_nothing_to_say_about_the_metrics(result: AuditResult) -> None:
    done = run(program("promtool"), "check", "metrics", stdin=answer_text(result, "prometheus", now=0) or "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_accepts_the_rules() -> None:
    done = run(program("promtool"), "check", "rules", ALERTS)
    assert done.returncode == 0, done.stderr
    assert f"SUCCESS: {len(RULES)} rules found" in done.stdout


def test_the_rules_do_what_their_tests_say() -> None:
    done = run(program("promtool"), "test", "rules", "envmgr-alerts.test.yml", cwd=ALERTS.parent)
    assert done.returncode == 0, done.stdout + done.stderr


MUTATIONS = {
    "envmgr_audit_success == 0": "envmgr_audit_success == 2",
    "6 * 3600": "60 * 3600",
    "[1d]": "[1m]",
    "for: 15m": "for: 45m",
    "unless on (job, instance)": "unless on (job)",
    "topk(20": "topk(2",
    "silent|unreachable": "silent",
    'check!~"mount|nodes"': 'check!~"nodes"',
    'severity="warning"': 'severity=~"warning|note"',
    "instance=%q,": "",
}


def test_the_rules_tests_fail_when_a_rule_is_changed(tmp_path: Path) -> None:
    promtool = program("promtool")
    shutil.copy(ALERTS.with_name("envmgr-alerts.test.yml"), tmp_path)
    survived = []
    for old, new in MUTATIONS.items():
        assert old in ALERTS.read_text()
        (tmp_path / ALERTS.name).write_text(ALERTS.read_text().replace(old, new))
        if run(promtool, "test", "rules", "envmgr-alerts.test.yml", cwd=tmp_path).returncode == 0:
            survived.append(old)
    assert survived == []


def test_every_rule_is_tested_and_says_what_to_run() -> None:
    tests = yaml.safe_load(ALERTS.with_name("envmgr-alerts.test.yml").read_text())["tests"]
    fired = {t["alertname"] for test in tests for t in test["alert_rule_test"] if t.get("exp_alerts")}
    assert fired == RULES.keys()
    for rule in RULES.values():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description", "command"}


def test_the_rules_use_metrics_that_are_written() -> None:
    written = set(re.findall(r"^# TYPE (\w+)", answer_text(ILL, "prometheus", now=0) or "", re.MULTILINE))
    written |= set(
        re.findall(
            r"^# TYPE (\w+)", answer_text(replace(WELL, generation=None), "prometheus", now=0) or "", re.MULTILINE
        )
    )
    assert set(re.findall(r"envmgr_\w+", json.dumps(RULES))) <= written


def test_the_page_tells_every_metric_and_every_alert() -> None:
    page = (CONTRIB.parent / "docs/monitoring.md").read_text()
    rows = [cell for row in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE) for cell in re.findall(r"`(\w+)", row)]
    metrics = {name for name in HELP if name in rows}
    assert metrics == HELP.keys()
    assert {row for row in rows if row.startswith("Envmgr")} == RULES.keys()


# -- a real Prometheus ---------------------------------------------------------------------------------------------------


@contextmanager
def running(*argv: str | Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for each in sockets:
        each.close()
    return ports


def ended(*processes: subprocess.Popen[bytes]) -> bool:
    return any(process.poll() is not None for process in processes)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
        return json.load(answer)["data"]


def until(look: Callable[[], Any], done: Callable[[Any], bool], log: Path, *, seconds: float = DEADLINE) -> Any:
    """Look until it is as it should be; what was seen last and the log's end are told otherwise."""
    end = time.monotonic() + seconds
    seen: Any = None
    while time.monotonic() < end:
        try:
            seen = look()
            if done(seen):
                return seen
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            seen = error
        time.sleep(0.1)
    raise AssertionError(f"{seen}\n{log.read_text()[-3000:]}")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """The shipped rules in a Prometheus that asks a real node_exporter every second."""
    prometheus, exporter = program("prometheus"), program("prometheus-node-exporter", "node_exporter")
    folder = tmp_path / "textfile"
    folder.mkdir()
    write_report(replace(WELL, finished=time.time()), "prometheus", folder / "envmgr.prom")
    for _ in range(10):
        with watching(prometheus, exporter, tmp_path, folder) as found:
            if found is not None:
                yield found
                return
    raise AssertionError((tmp_path / "exporter.log").read_text() + (tmp_path / "prometheus.log").read_text())


@contextmanager
def watching(prometheus: str, exporter: str, tmp_path: Path, folder: Path) -> Iterator[Watched | None]:
    """None where another process took one of the free ports before ours did: ours has ended then."""
    ports = free_ports(2)
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "200ms"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {
                "job_name": "node",
                "static_configs": [{"targets": [f"127.0.0.1:{ports[0]}"], "labels": {"instance": "login"}}],
            }
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    with (
        running(
            exporter,
            "--collector.disable-defaults",
            "--collector.textfile",
            f"--collector.textfile.directory={folder}",
            f"--web.listen-address=127.0.0.1:{ports[0]}",
            log=tmp_path / "exporter.log",
        ) as one,
        running(
            prometheus,
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{ports[1]}",
            log=tmp_path / "prometheus.log",
        ) as other,
    ):
        ready = [f"http://127.0.0.1:{ports[0]}/metrics", f"http://127.0.0.1:{ports[1]}/-/ready"]
        wait_for(lambda: ended(one, other) or all(map(answers, ready)), what="node_exporter and Prometheus")
        yield (
            None
            if ended(one, other)
            else Watched(folder / "envmgr.prom", f"http://127.0.0.1:{ports[1]}/api/v1", tmp_path / "prometheus.log")
        )


@dataclass(frozen=True)
class Watched:
    """`path` is where the audit writes; `api` is Prometheus'."""

    path: Path
    api: str
    log: Path

    def query(self, expression: str) -> list[Any]:
        query = urllib.parse.urlencode({"query": expression})
        return [(s["metric"], float(s["value"][1])) for s in get(f"{self.api}/query?{query}")["result"]]

    def alerts(self, state: str = "firing") -> list[Any]:
        found = [a for a in get(f"{self.api}/alerts")["alerts"] if a["state"] == state]
        return sorted(found, key=lambda a: str(sorted(a["labels"].items())))

    def wait_for_alerts(self, *names: str, state: str = "firing") -> list[Any]:
        """The alerts that fire, once these and no others do."""
        want = sorted(names)
        return until(  # type: ignore[no-any-return]
            lambda: self.alerts(state), lambda seen: sorted(a["labels"]["alertname"] for a in seen) == want, self.log
        )


def test_prometheus_tells_what_an_audit_found_and_what_to_run(watched: Watched, sandbox: Sandbox) -> None:
    good = [({"__name__": "envmgr_audit_success", "instance": "login", "job": "node"}, 1.0)]
    until(lambda: watched.query("envmgr_audit_success"), lambda seen: seen == good, watched.log)
    watched.wait_for_alerts()

    write_report(replace(ILL, finished=time.time()), "prometheus", watched.path)
    fired = watched.wait_for_alerts("EnvmgrDrift", "EnvmgrMountBroken", "EnvmgrNodesMissing")
    assert [(a["labels"]["severity"], a["annotations"]["summary"], a["annotations"]["command"]) for a in fired] == [
        ("warning", "nodes drift apart by contexts (nodes affected: 2)", "envmgr audit --check contexts --nodes c1,c2"),
        ("critical", "the prefix is not as it should be (nodes affected: 1)", "envmgr audit --check mount --nodes c2"),
        ("warning", "nodes do not answer by ssh (unreachable: 1)", "envmgr audit --check nodes --nodes c3"),
    ]
    notes = 'envmgr_audit_findings{severity="note"} > 0'
    until(lambda: [metric["check"] for metric, _ in watched.query(notes)], lambda seen: seen == [NASTY], watched.log)
    errors = "node_textfile_scrape_error"
    until(lambda: [value for _, value in watched.query(errors)], lambda seen: seen == [0], watched.log)

    (sandbox.root / "site.yaml").write_text("prefix: [")
    assert sandbox.run("audit", "--format", "prometheus", "--output", str(watched.path)).code == 2
    (failed,) = watched.wait_for_alerts("EnvmgrAuditFailed")
    assert failed["annotations"] == {
        "summary": "envmgr on login cannot audit the cluster",
        "description": "Nothing is known about any node until it can. The reason: yaml-syntax",
        "command": "envmgr audit",
    }

    write_report(replace(WELL, finished=time.time() - 7 * 3600), "prometheus", watched.path)
    (stale,) = watched.wait_for_alerts("EnvmgrAuditStale")
    assert stale["annotations"]["summary"].startswith("the last audit of envmgr on login is 7h 0m ")

    write_report(replace(WELL, finished=time.time()), "prometheus", watched.path)
    watched.wait_for_alerts()
    watched.path.unlink()
    (missing,) = watched.wait_for_alerts("EnvmgrAuditMissing", state="pending")
    assert missing["annotations"]["summary"] == "metrics of envmgr's audit are missing from login"


# -- timer and cron ------------------------------------------------------------------------------------------------------


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((CONTRIB / "systemd" / name).read_text())
    return parser


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """systemd-analyze warns of unknown keys and exits 0: it must be silent. Without it, the parser's test below is all."""
    for name in ("envmgr-audit.service", "envmgr-audit.timer"):
        content = (CONTRIB / "systemd" / name).read_text()
        (tmp_path / name).write_text(content.replace("/usr/local/bin/envmgr", shutil.which("true") or "/bin/true"))
    assert unit("envmgr-audit.timer").sections() == ["Unit", "Timer", "Install"]
    assert unit("envmgr-audit.service").sections() == ["Unit", "Service"]
    if shutil.which("systemd-analyze"):
        done = run("systemd-analyze", "verify", *sorted(tmp_path.iterdir()))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_fails_when_nothing_could_be_audited_and_not_on_findings() -> None:
    service = unit("envmgr-audit.service")["Service"]
    assert service["Type"] == "oneshot"
    assert service["SuccessExitStatus"].split() == ["1"]


def test_the_unit_does_not_take_away_what_ssh_needs_nor_touch_a_hung_mount() -> None:
    service = unit("envmgr-audit.service")["Service"]
    assert service["ProtectSystem"] == "full"
    assert {
        "ProtectHome",
        "PrivateTmp",
        "PrivateNetwork",
        "PrivateUsers",
        "CapabilityBoundingSet",
    } & service.keys() == set()
    assert {"AF_UNIX", "AF_INET", "AF_INET6"} <= set(service["RestrictAddressFamilies"].split())


def test_the_timer_makes_up_for_missed_runs_and_spreads_hosts() -> None:
    timer = unit("envmgr-audit.timer")["Timer"]
    assert dict(timer) == {"OnCalendar": "hourly", "RandomizedDelaySec": "10min", "Persistent": "true"}


def cron_command() -> str:
    lines = (CONTRIB / "cron/envmgr-audit").read_text().splitlines()
    (line,) = [each for each in lines if each and not each.startswith("#") and not re.match(r"[A-Z]+=", each)]
    *fields, user, command = line.split(maxsplit=6)
    assert fields == ["17", "*", "*", "*", "*"]
    assert user == "root"
    assert "%" not in command  # cron makes a newline of it
    return command


def test_unit_and_cron_start_the_program_that_the_readme_installs() -> None:
    """README's lines make a link where the unit looks, to the program that contrib's README names for a drop-in."""
    installation = (ROOT / "README.md").read_text().partition("## Installation")[2]
    program, link = re.findall(
        r"^\s+(?:sudo )?ln -s(?:f|n)* (\S+/bin/envmgr) (\S+/envmgr)$", installation, re.MULTILINE
    )[0]
    assert unit("envmgr-audit.service")["Service"]["ExecStart"].split()[0] == link
    path = re.findall(r"^PATH=(.*)$", (CONTRIB / "cron/envmgr-audit").read_text(), re.MULTILINE)[0]
    assert str(Path(link).parent) in path.split(":")
    for named in re.findall(r"ExecStart=(/\S+)", (CONTRIB / "README.md").read_text()):
        assert named in {program, link}


def test_the_unit_and_the_cron_line_run_the_same_audit(sandbox: Sandbox) -> None:
    """And its options are ones that envmgr has: the file is written, with the reason that there are no groups."""
    service = unit("envmgr-audit.service")["Service"]
    target = service["Environment"].removeprefix("TEXTFILE=")
    words = shlex.split(service["ExecStart"].replace("${TEXTFILE}", target))
    assert Path(words[0]).name == "envmgr"
    assert f" envmgr {shlex.join(words[1:])} " in cron_command()
    done = sandbox.run(*[str(sandbox.root / "x.prom") if word == target else word for word in words[1:]])
    assert done.code == 2
    assert 'envmgr_audit_error_info{reference="no-nodes"} 1' in (sandbox.root / "x.prom").read_text()


def test_the_cron_line_sends_no_mail_and_runs_one_audit_at_a_time(tmp_path: Path) -> None:
    """The shell, flock and the pipe are real; envmgr has findings, and logger writes to a file."""
    for name, script in {
        "envmgr": 'echo "$@" >>"$HERE/runs"; echo finding; echo talk >&2; until [ -e $HERE/go ]; do sleep 0.02; done; exit 1',
        "logger": 'cat >>"$HERE/log"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    command = cron_command().replace("/run/lock/envmgr-audit.lock", str(tmp_path / "lock"))
    assert str(tmp_path / "lock") in command
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HERE": str(tmp_path)}
    first = subprocess.Popen(
        ["sh", "-c", command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        wait_for((tmp_path / "runs").exists, what="the first audit")
        second = run("sh", "-c", command, **env)
        assert second.stdout + second.stderr == ""
        (tmp_path / "go").touch()
        assert first.communicate(timeout=DEADLINE)[0] == ""
    finally:
        (tmp_path / "go").touch()  # what the shell has started ends with that
        first.kill()
        first.communicate()
    assert (tmp_path / "log").read_text() == "finding\ntalk\n"
    assert len((tmp_path / "runs").read_text().splitlines()) == 1
