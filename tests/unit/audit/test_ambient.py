"""What a shell brings along, by the shell text that looks at it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.audit.baseline import Baseline, HowAsked
from envmgr.audit.causes import Traces
from envmgr.audit.checks import all_checks, ambient
from envmgr.probe.model import CONTEXTS
from tests.helpers.context_shell import context_facts
from tests.helpers.evidence import evidence, wanted_lines
from tests.helpers.evidence import told as judged

PASSED = ("ambient.loaded", "ambient.exported", "ambient.locale")


def exported(shell: str, before: str, **env: str) -> list[str]:
    lines = context_facts(ambient, shell, before, **env).get("ambient.exported", "").splitlines()
    return [line for line in lines if not line.startswith(("HOME=", "LOGNAME="))]


def told(shell: str, before: str, **env: str) -> list[str]:
    return [
        f"{key}={value}" for key, value in context_facts(ambient, shell, before, **env).items() if key not in PASSED
    ]


def test_each_pattern_names_a_row_and_compiles() -> None:
    table = all_checks()["ambient"].table
    for pattern, words in table.words.items():
        assert re.compile(pattern)
        assert words.partition(": ")[0] in ("breaks", "programs", "builds", "tools")


def test_what_only_jobs_and_sessions_set_is_passed_over_where_they_do() -> None:
    given = {"SLURM_CPU_BIND": "map_cpu:0", "XDG_CONFIG_HOME": "/x", "XDG_SESSION_ID": "4", "SLURM_JOB_ID": "7"}
    assert exported("dash", "", **given) == ["SLURM_CPU_BIND=map_cpu:0", "XDG_CONFIG_HOME=/x"]
    assert context_facts(ambient, "dash", "", job="7", **given)["ambient.exported"] == "HOME=/"


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("PYTHONHOME=/x", "breaks"),
        ("PYTHONWARNINGS=error", "programs"),
        ("PYTHONUNBUFFERED=1", ""),
        ("PYTHON_VERSION=3", ""),
        ("_JAVA_OPTIONS=-Xmx1g", "programs"),
        ("MALLOC_ARENA_MAX=2", "tools"),
        ("MALLOC_CHECK_=3", "programs"),
        ("GLIBC_TUNABLES=glibc.malloc.check=3", "programs"),
        ("GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "tools"),
        ("LD_LIBRARY_PATH=/x", "tools"),
        ("LD_HWCAP_MASK=0", "programs"),
        ("LD_LIBRARY_PATH_modshare=/x:1", ""),
        ("CC=gcc", ""),
        ("CC=/opt/old/bin/gcc", "builds"),
        ("CFLAGS=-O0\n-g", "builds"),
        ("NCCL_SOCKET_IFNAME=ib0", "tools"),
        ("https_proxy=http://p:3128", ""),
        ("GIT_PS1_SHOWDIRTYSTATE=1", ""),
        ("SLURM_CPU_BIND=map_cpu:0", "programs"),
        ("SLURM_MPI_TYPE=pmi2", "tools"),
        ("SLURM_TIME_FORMAT=relative", ""),
        ("PMIX_MCA_gds=hash", "tools"),
        ("ROCR_VISIBLE_DEVICES=0", "tools"),
        ("XDG_CONFIG_HOME=/x", "tools"),
        ("XDG_CONFIG_DIRS=/opt/site/xdg:/etc/xdg", "tools"),
        ("XDG_CONFIG_DIRS=/etc/xdg:/usr/etc/xdg", ""),
        ("CONFIG_SITE=/x", "builds"),
        ("DESTDIR=/x", "builds"),
        ("RUSTUP_TOOLCHAIN=nightly", "builds"),
        ("GOTOOLCHAIN=go1.20", "builds"),
        ("FPATH=/x", "tools"),
        ("FPATH=/usr/share/lmod/lmod/init/ksh_funcs:/usr/share/zsh/functions/Misc", ""),
        ("BASH_LOADABLES_PATH=/x", "programs"),
        ("GIT_EDITOR=vi", ""),
        ("SPACK_ROOT=/x", ""),
        ("LANG=C.UTF-8", ""),
        ("EDITOR=vi", ""),
    ],
)
def test_variables_are_judged_by_their_kind(setting: str, kind: str) -> None:
    name, _, value = setting.partition("=")
    given = evidence({}).of_check(all_checks()["ambient"].table)
    assert ambient._kind(name, value, given)[0] == kind


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
    assert exported("bash", "python() { :; }", PYTHONPATH="/opt x", LD_PRELOAD="") == ["PYTHONPATH=/opt x"]
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


@pytest.mark.parametrize("shell", ["dash", "bash", "zsh"])
def test_what_changes_shells_and_programs_is_told_where_it_is_exported(shell: str) -> None:
    where = "emulate sh 2>/dev/null; " if shell == "zsh" else ""
    assert exported(shell, f"{where}CDPATH=/opt; TAR_OPTIONS=-v") == []
    before = f"{where}export CDPATH=/opt:/srv TAR_OPTIONS=-v POSIXLY_CORRECT= GZIP= _JAVA_OPTIONS=-Xmx1g LMOD_EXACT_MATCH=yes LMOD_DIR=/x"
    assert exported(shell, before) == [
        "CDPATH=/opt:/srv",
        "LMOD_EXACT_MATCH=yes",
        "POSIXLY_CORRECT=empty",
        "TAR_OPTIONS=-v",
        "_JAVA_OPTIONS=-Xmx1g",
    ]


def test_options_of_bash_and_long_values_are_told_where_they_are_exported() -> None:
    assert exported("bash", "set -o pipefail; shopt -s nullglob") == []
    (line,) = exported("bash", "set -o pipefail; export SHELLOPTS")
    assert line.startswith("SHELLOPTS=")
    assert "pipefail" in line
    assert [line[:9] for line in exported("bash", "export BASHOPTS")] == ["BASHOPTS="]
    assert [len(line) for line in exported("dash", "", CFLAGS="x" * 999)] == [307]


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
        f"c{n}": shell(exported="CDPATH=/opt\nPOSIXLY_CORRECT=1", zone="Mars", locale="Cannot set LC_ALL (LANG=x)")
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
    assert found[2].endswith(" | /etc/CDPATH.sh:2 sets it: take that line away")
    asked = [name for question in wanted_lines(ambient, evidence(answers, asked=LOGIN)) for name in question.names]
    assert {"CDPATH", "POSIXLY_CORRECT", "TZ", "LANG"} <= set(asked)


def test_what_sites_set_on_purpose_is_one_note_and_no_finding_where_modules_are_loaded() -> None:
    lines = "NCCL_DEBUG=WARN\nUCX_TLS=rc\nCFLAGS=-O1"
    plain = evidence({"c1": shell(exported=lines)}, asked=LOGIN)
    assert [line.split(" | ")[0] for line in judged(ambient, plain)] == [
        "warning c1: bash-login (alice): CFLAGS is -O1",
        "note c1: bash-login (alice): NCCL_DEBUG is WARN, UCX_TLS is rc",
    ]
    known = replace(plain, baseline=Baseline(Path("b"), HowAsked(nodes="c1", user="alice", shells=(), checks=()), {}))
    assert [line.partition(":")[0] for line in judged(ambient, known) if "NCCL" in line] == []
    loaded = evidence({"c1": shell(exported=f"{lines}\nPYTHONWARNINGS=error", loaded="StdEnv/2023")}, asked=LOGIN)
    assert [line.split(" | ")[0] for line in judged(ambient, loaded)] == [
        "warning c1: bash-login (alice): PYTHONWARNINGS is error"
    ]


def test_variable_that_a_job_inherits_is_told_as_inherited_alone() -> None:
    job = next(context for context in CONTEXTS if context.export == "ALL")
    key = f"ctx.{job.name}.user.ambient."
    facts = shell() | {f"{key}PATH": "/usr/bin", f"{key}loaded": "", f"{key}exported": "PYTHONWARNINGS=error"}
    given = evidence({"c1": facts}, asked=(*LOGIN, (job, "user", "ssh")))
    assert [line.split(" | ")[0] for line in judged(ambient, given)] == [
        f"warning c1: {job.name} (alice): PYTHONWARNINGS is error, inherited from the submitting shell"
    ]


def test_value_that_one_node_lacks_and_jobs_bring_is_no_fault_of_the_submitting_host() -> None:
    job = next(context for context in CONTEXTS if context.export == "ALL")
    key, line = f"ctx.{job.name}.user.ambient.", "MPI_HOME=/opt/mpi"
    in_job = {f"{key}PATH": "/usr/bin", f"{key}loaded": "", f"{key}exported": line}
    answers = {f"c{n}": shell(exported="" if n == 2 else line) | in_job for n in (1, 2, 3)}
    given = evidence(answers, asked=(*LOGIN, (job, "user", "ssh")))
    assert [text.split(" | ")[0] for text in judged(ambient, given)] == [
        "warning c2: bash-login (alice): MPI_HOME is not set"
    ]
