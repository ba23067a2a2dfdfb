"""What a shell brings along, by the shell text that looks at it."""

from __future__ import annotations

import pytest

from envmgr.audit.causes import Traces
from envmgr.audit.checks import all_checks, ambient
from envmgr.probe.model import CONTEXTS
from tests.helpers.context_shell import context_facts
from tests.helpers.evidence import evidence, wanted_lines
from tests.helpers.evidence import told as judged

PASSED = ("ambient.loaded", "ambient.exported", "ambient.locale")


def told(shell: str, before: str, **env: str) -> list[str]:
    return [
        f"{key}={value}" for key, value in context_facts(ambient, shell, before, **env).items() if key not in PASSED
    ]


def test_each_harmful_variable_has_a_row_and_each_row_a_variable() -> None:
    rows = all_checks()["ambient"].table.rows
    assert {name for name in rows if name.isupper()} == {*ambient._HARMFUL}
    assert all(rows[name].expected.startswith("not set: ") for name in ambient._HARMFUL)


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_clean_shell_has_its_path_alone(shell: str) -> None:
    assert told(shell, "") == ["ambient.PATH=/usr/bin:/bin"]
    assert told(shell, "", PATH="/usr/bin:/etc/envmgr/node/lmod/bin:/bin") == ["ambient.PATH=/usr/bin:/bin"]
    assert told(shell, "", PATH="/usr/bin:/bin:/etc/envmgr/node/lmod/bin") == ["ambient.PATH=/usr/bin:/bin"]


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_alias_is_told_by_its_name_and_not_by_what_it_runs(shell: str) -> None:
    assert told(shell, "alias ll='exec python -s' x=' pip '") == ["ambient.PATH=/usr/bin:/bin"]
    assert told(shell, "alias python='python3 -s'")[1:] == ["ambient.alias.python=python='python3 -s'"]
    assert told(shell, "", ENVMGR_ALIASES="ll python cp")[1:] == ["ambient.alias.python=python"]
    assert told(shell, "", ENVMGR_ALIASES="mypython python4")[1:] == []


def test_function_and_variables_are_told() -> None:
    assert told("bash", "python() { :; }", PYTHONPATH="/opt x", LD_PRELOAD="")[0] == "ambient.PYTHONPATH=/opt x"
    assert "ambient.function.python=" in "\n".join(told("bash", "python() { :; }"))
    assert "ambient.function.python=" in told("dash", "python() { :; }")


def test_path_without_the_systems_programs_is_told_and_the_probe_goes_on() -> None:
    facts = context_facts(ambient, "bash", "PATH=/opt/x")
    assert (facts["path_brought"], facts["ambient.PATH"]) == ("/opt/x", "/opt/x")
    assert "ambient.exported" in facts


def test_exported_variables_are_told_without_the_hosts_name() -> None:
    lines = context_facts(ambient, "bash", "export ROOT=/scratch/$(uname -n)/x http_proxy=p").get(
        "ambient.exported", ""
    )
    assert "ROOT=/scratch/NODE/x" in lines.splitlines()
    assert "http_proxy=p" in lines.splitlines()
    assert not any(line.startswith(("HOME=/x", "PATH=", "PWD=")) for line in lines.splitlines())


def shell(**facts: str) -> dict[str, str]:
    key = "ctx.bash-login.user.ambient."
    return {f"{key}PATH": "/usr/bin", f"{key}loaded": "", **{f"{key}{name}": value for name, value in facts.items()}}


LOGIN = ((CONTEXTS[0], "user", "ssh"),)


def test_exported_variable_of_one_node_is_told_and_one_of_every_node_is_not() -> None:
    answers = {f"c{n}": shell(exported=f"http_proxy=p{n // 4}\nRACK=r{n}") for n in range(1, 5)}
    found = judged(ambient, evidence(answers, asked=LOGIN))
    assert found == [
        "warning c4: bash-login (alice): http_proxy is p1 | http_proxy is p0, as on c[1-3] | compare start-up files: which one sets http_proxy?"
    ]


def test_unknown_variable_of_one_node_is_a_note() -> None:
    answers = {f"c{n}": shell(exported=f"COLOR={'blue' if n == 2 else 'red'}") for n in range(1, 5)}
    assert [line.split(":")[0] for line in judged(ambient, evidence(answers, asked=LOGIN))] == ["note c2"]


def test_what_login_bash_has_and_a_job_has_not_is_a_note() -> None:
    login, job = CONTEXTS[0], next(c for c in CONTEXTS if c.name == "csh")
    facts = shell(loaded="hello/1.0", PATH="/opt/x:/usr/bin") | {
        "ctx.csh.user.ambient.PATH": "/usr/bin",
        "ctx.csh.user.ambient.loaded": "",
    }
    given = evidence({"c1": facts, "c2": facts}, asked=((login, "user", "ssh"), (job, "user", "ssh")))
    assert [line.split(" | ")[0] for line in judged(ambient, given)] == [
        "note c[1-2]: csh (alice): LOADEDMODULES lacks hello/1.0",
        "note c[1-2]: csh (alice): PATH lacks /opt/x",
    ]


def test_manifests_are_read_for_checks_that_need_them_alone() -> None:
    assert {name for name, check in all_checks().items() if "installs" in check.wants} == {
        "ambient",
        "site-modules",
        "software",
    }


@pytest.mark.parametrize("shell", ["dash", "bash", "zsh"])
def test_what_changes_shells_and_programs_is_told_where_it_is_exported(shell: str) -> None:
    where = "emulate sh 2>/dev/null; " if shell == "zsh" else ""
    assert told(shell, f"{where}CDPATH=/opt; TAR_OPTIONS=-v")[1:] == []
    before = f"{where}export CDPATH=/opt:/srv TAR_OPTIONS=-v POSIXLY_CORRECT= GZIP="
    assert sorted(told(shell, before)) == [
        "ambient.CDPATH=/opt:/srv",
        "ambient.PATH=/usr/bin:/bin",
        "ambient.POSIXLY_CORRECT=empty",
        "ambient.TAR_OPTIONS=-v",
    ]


def test_options_of_bash_are_told_where_they_are_exported() -> None:
    assert told("bash", "set -o pipefail; shopt -s nullglob")[1:] == []
    (line,) = [line for line in told("bash", "set -o pipefail; export SHELLOPTS") if "OPTS" in line]
    assert line.startswith("ambient.SHELLOPTS=")
    assert "pipefail" in line
    assert any(line.startswith("ambient.BASHOPTS=") for line in told("bash", "export BASHOPTS"))


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        ("Europe/Berln", "Europe/Berln"),
        (":/nowhere/x", ":/nowhere/x"),
        ("UTC", None),
        ("CET-1CEST", None),
        ("<+03>-3", None),
        ("", None),
    ],
)
def test_time_zone_that_the_node_does_not_know_is_told(zone: str, said: str | None) -> None:
    assert context_facts(ambient, "bash", TZ=zone).get("ambient.zone") == said


def test_variables_that_change_shells_and_programs_are_told_of_all_nodes_with_their_line() -> None:
    answers = {
        f"c{n}": shell(CDPATH="/opt", POSIXLY_CORRECT="1", zone="Mars", locale="Cannot set LC_ALL (LANG=x)")
        for n in (1, 2, 3)
    }
    traces = Traces({("c1", "bash-login", "user", name): f"/etc/{name}.sh:2" for name in ("CDPATH", "TZ", "LANG")})
    found = judged(ambient, evidence(answers, asked=LOGIN), traces)
    assert [line.split(" | ")[0] for line in found] == [
        "warning c[1-3]: bash-login (alice): Cannot set LC_ALL (LANG=x)",
        "warning c[1-3]: bash-login (alice): TZ is Mars, which the node does not know: programs take UTC",
        "warning c[1-3]: bash-login (alice): CDPATH is /opt",
        "warning c[1-3]: bash-login (alice): POSIXLY_CORRECT is 1",
    ]
    assert found[0].split(" | ")[2].startswith("/etc/LANG.sh:2 sets it: ")
    assert found[1].split(" | ")[2].startswith("/etc/TZ.sh:2 sets it: ")
    assert found[2].endswith(" | /etc/CDPATH.sh:2 sets it: take it away there")
    asked = [name for question in wanted_lines(ambient, evidence(answers, asked=LOGIN)) for name in question.names]
    assert {"CDPATH", "POSIXLY_CORRECT", "TZ", "LANG"} <= set(asked)
