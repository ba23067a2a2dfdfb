"""What jobs get of the shell that submits them, and where they go."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envmgr.audit.ask import ask_nodes
from envmgr.audit.ask.submit_hosts import submit_hosts
from envmgr.audit.checks import nodes, submitting
from envmgr.nodes.batch import _BASH, _program, conf_fault
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import CONTEXTS, Facts, Fleet, Group
from envmgr.system.shelltext import assign, script_text
from tests.helpers.evidence import evidence, told

WANTED = {"MODULEPATH": "/g/modules", "LOADEDMODULES": "hello/1.0", "PATH": "/s/hello/bin", "ENVMGR_CANARY": "arrived"}
LOGIN = next(context for context in CONTEXTS if context.name == "bash-login")
OWN = {node: {"host": node} for node in ("c1", "c2", "c3")}
NODES: dict[str, Facts] = {"c1": {}, "c2": {}, "c3": {}}


def one(node: str, facts: Facts) -> Fleet:
    return Fleet((Group({"gate": "ok", **facts}, (node,)),), {}, {}, ())


def job(*, lacks: tuple[str, ...] = (), in_step: bool = False, **more: str) -> Fleet:
    facts = {f"submitting.wanted.{name}": value for name, value in WANTED.items()}
    facts |= {f"submitting.{place}.{name}": value for place in ("job", "step") for name, value in WANTED.items()}
    places = ("step",) if in_step else ("job", "step")
    facts |= {f"submitting.{place}.{name}": "" for place in places for name in lacks}
    return one("c3", {**facts, **more})


def lines(host: Facts, of_job: Fleet | None = None) -> list[str]:
    given = evidence(NODES, here=one("login", host), sender="login", as_users=of_job, asked=((LOGIN, "user", "ssh"),))
    return told(submitting, given)


def test_job_that_gets_everything_is_silent() -> None:
    assert lines({}, job()) == []
    assert lines({"submitting.variables": "SBATCH_EXPORT=ALL,A=1"}, job()) == []
    # what the job shows counts more than what a variable says
    assert lines({"submitting.variables": "SBATCH_EXPORT=NIL"}, job()) == []
    more = one("c3", {**job().groups[0].facts, "submitting.job.PATH": "/usr/bin:/s/hello/bin"})
    assert lines({}, more) == []


def test_variable_that_narrows_exports_is_named_where_the_job_lacks_something() -> None:
    (line,) = lines(
        {"submitting.variables": "SBATCH_EXPORT=NONE\nSBATCH_QOS=high"}, job(lacks=("LOADEDMODULES", "ENVMGR_CANARY"))
    )
    assert line == (
        "error login: bash-login (alice): SBATCH_EXPORT is NONE: jobs do not get loaded modules, exported variables | "
        "not set, or ALL, so that jobs get what the shell has | which start-up file sets SBATCH_EXPORT? take that line away"
    )


def test_job_that_lacks_something_for_another_reason_stands_by_itself() -> None:
    (line,) = lines({}, job(lacks=("PATH",), in_step=True))
    assert line == (
        "error login: bash-login (alice): a step of srun does not get the module's programs | what the submitting shell has, as "
        "`sbatch` passes on by default | which function, prolog or plugin does it? as alice: `bash -lic 'type -a sbatch'`, "
        "`sbatch -v`; `scontrol show config | grep -i -E 'filter|jobsubmit|prolog'`"
    )
    (line,) = lines({}, job(**{"submitting.no_step": "srun: error: no"}))
    assert line.startswith("error c3: srun: srun starts no step in a job: srun: error: no")


def test_job_that_did_not_answer_is_no_finding() -> None:
    assert lines({}, Fleet((), {}, {}, ())) == []
    assert lines({}, one("c3", {"probe": "cannot write"})) == []


def refusing(said: str, host: Facts) -> dict[str, Any]:
    missing = tuple(Reply(node, "unreachable", "", said, 0.0, 1.0) for node in NODES)
    base = evidence(NODES, own=OWN)
    ways = {"ssh": base.fleet, "slurm": Fleet((), {}, {}, missing)}
    return {"ways": ways, "here": one("login", host), "sender": "login", "asked": ((LOGIN, "user", "ssh"),)}


@pytest.mark.parametrize(
    ("said", "variable"),
    [
        ("Slurm: invalid partition specified: gone", "SBATCH_PARTITION=gone"),
        ("Slurm: Batch job submission failed: Invalid qos specification", "SLURM_QOS=gone"),
        ("Slurm: Batch job submission failed: Invalid account or account/partition combination", "SBATCH_ACCOUNT=gone"),
        ("Slurm: Batch job submission failed: Invalid feature specification", "SBATCH_CONSTRAINT=gone"),
        (
            "Slurm: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
            "SBATCH_TIMELIMIT=gone",
        ),
        ("Slurm: SLURM_CONF is gone, which is not there", "SLURM_CONF=gone"),
    ],
)
def test_variable_by_which_slurm_refuses_jobs_is_the_error_and_the_nodes_are_a_note(said: str, variable: str) -> None:
    host = {"submitting.variables": f"{variable}\nSBATCH_DEBUG=1", "submitting.looked.login": "yes"}
    given = replace(evidence(NODES, own=OWN), **refusing(said, host))
    (line,) = told(submitting, given)
    name = variable.partition("=")[0]
    assert line.startswith(f"error login: bash-login (alice): {name} is gone, and Slurm refuses jobs: {said}")
    (line,) = told(nodes, given)
    assert line.startswith(f"note c[1-3]: Slurm (inherited environment): unreachable: {said}")
    (line,) = told(nodes, replace(given, here=one("login", {})))  # then nobody else tells it
    assert line.startswith("error c[1-3]: ")


def test_node_that_slurm_gives_no_job_is_no_fault_of_the_shell() -> None:
    said = "Slurm: Batch job submission failed: Requested node configuration is not available"
    host = {"submitting.variables": "SLURM_CONF=/etc/slurm/slurm.conf", "submitting.looked.login": "yes"}
    assert told(submitting, replace(evidence(NODES, own=OWN), **refusing(said, host))) == []


def conf(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("ClusterName=one\nSlurmctldHost=ctl(10.0.0.1)\n", ""),
        ("# ClusterName=x\nclustername = ONE # why\nSlurmctldHost=ctl\n", ""),
        ("ClusterName=two\n", "is another cluster's: ClusterName=two, not one"),
        ("ClusterName=one\nSlurmctldHost=old\n", "is another cluster's: SlurmctldHost=old, not ctl"),
        ("include /etc/elsewhere\n", ""),
        (None, "is not there"),
    ],
)
def test_conf_of_the_shell_against_the_right_one(tmp_path: Path, text: str | None, fault: str) -> None:
    right = conf(tmp_path, "slurm.conf", "ClusterName=one\nSlurmctldHost=ctl(10.0.0.1)\n")
    own = tmp_path / "own.conf" if text is None else conf(tmp_path, "own.conf", text)
    script = f"{conf_fault()}slurm_conf_fault {right}\n"
    env = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(own)}
    done = subprocess.run(["/bin/sh", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fault


def submit(folder: Path, prepare: str = "", **env: str) -> str:
    (folder / "sbatch").write_text('#!/bin/sh\ncat >"$HERE/job"; echo 7\n')
    (folder / "sbatch").chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", 'exec 89<&0; exec bash -c "$@"', "bash", _program(["--time=1"], prepare), "mark", "c1", "c2"],
        env={"PATH": f"{folder}:/usr/bin:/bin", "HERE": str(folder), **env},
        input="#!/bin/sh\nthe job\nmark\n",
        text=True,
        capture_output=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("line", ["cat >$HERE/eaten", "read -r line; echo $line >$HERE/eaten", "exec bash"])
def test_start_up_files_do_not_get_the_job(tmp_path: Path, line: str) -> None:
    (tmp_path / "sbatch").write_text('#!/bin/sh\ncat >"$HERE/job"; echo 7\n')
    (tmp_path / "sbatch").chmod(0o755)
    (tmp_path / ".profile").write_text(f"PATH=$HERE:$PATH\n{line}\n")
    done = subprocess.run(
        [*_BASH, _program(["--time=1"]), "mark", "c1"],
        env={"PATH": "/usr/bin:/bin", "HERE": str(tmp_path), "HOME": str(tmp_path)},
        input=f"#!/bin/sh\necho it runs >{tmp_path}/eaten\nmark\n",
        text=True,
        capture_output=True,
        check=False,
    )
    assert (tmp_path / "eaten").read_text().strip() == "" if "exec" not in line else not (tmp_path / "eaten").exists()
    assert ("mark c1 0 7" in done.stdout) == ("exec" not in line) == (tmp_path / "job").exists()


def test_no_job_is_sent_with_a_conf_that_is_not_there(tmp_path: Path) -> None:
    said = submit(tmp_path, SLURM_CONF="/gone/slurm.conf")
    for node in ("c1", "c2"):
        assert f"\nmark {node} 1 sbatch: error: SLURM_CONF is /gone/slurm.conf, which is not there\n" in said
    assert not (tmp_path / "job").exists()


def test_job_as_users_submit_it_is_told_what_the_shell_had(tmp_path: Path) -> None:
    module = 'module() { [ "$1" = load ] && PATH=/s/it\\\'s/bin:$PATH LOADEDMODULES=$2; }\n'
    prepare = module + assign(envmgr_entry="hello/1.0") + script_text(ask_nodes.__file__, "prepare.sh")
    assert "mark c1 0 7" in submit(tmp_path, prepare, MODULEPATH="/g/modules")
    text = (tmp_path / "job").read_text()
    assert text.startswith("#!/bin/sh\nexport WANTED_MODULEPATH=/g/modules\nexport WANTED_LOADEDMODULES=hello/1.0\n")
    assert text.endswith("\nthe job\n")
    done = subprocess.run(
        ["bash", "-c", text.replace("the job", "echo $WANTED_PATH")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "/s/it's/bin\n"


def test_hosts_that_send_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "front1.site")
    admin = submit_hosts(("c1",), (), all_of_them=True, sends_jobs=False)
    assert (admin.here, admin.asked, admin.login) == ("", (), frozenset())
    sending = submit_hosts(("c1",), (), all_of_them=True, sends_jobs=True)
    assert (sending.here, sending.login) == ("front1", frozenset({"front1"}))
    named = submit_hosts(("c1",), ("front1", "front2", "c1"), all_of_them=True, sends_jobs=False)
    assert (named.here, named.asked) == ("front1", ("front1", "front2"))
    some = submit_hosts(("c1",), ("front1", "front2"), all_of_them=False, sends_jobs=False)
    assert (some.here, some.asked) == ("front1", ("front1",))
    assert submit_hosts(("front1",), (), all_of_them=True, sends_jobs=True).here == ""


def test_login_node_that_does_not_answer_is_a_finding() -> None:
    lost = Fleet((), {}, {}, (Reply("front2", "unreachable", "", "timed out", 0.0, 1.0),))
    (line,) = told(nodes, evidence(NODES, own=OWN, here=lost))
    assert line.startswith("error front2: ssh: unreachable: timed out")
