"""What jobs get of the shell that submits them, and where they go."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envmgr.audit.ask import as_users
from envmgr.audit.ask.submit_hosts import submit_hosts
from envmgr.audit.causes import Traces
from envmgr.audit.checks import folders, modulefiles, nodes, slurm, submitting
from envmgr.nodes.batch import _BASH, _program, conf_fault
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import CONTEXTS, Facts, Fleet, Group
from envmgr.probe.shell import looked_key
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


def lines(host: Facts, of_job: Fleet | None = None, places: dict[str, str] | None = None, **more: Any) -> list[str]:
    given = {"here": one("login", host), "sender": "login", "as_users": of_job, "asked": ((LOGIN, "user", "ssh"),)}
    traces = Traces({("login", "bash-login", "user", name): place for name, place in (places or {}).items()})
    return told(submitting, evidence(NODES, **{**given, **more}), traces)


def test_job_that_gets_everything_is_silent() -> None:
    assert lines({}, job()) == []
    assert lines({"submitting.variables": "SBATCH_EXPORT=ALL,A=1"}, job()) == []
    # what the job shows counts more than what a variable says
    assert lines({"submitting.variables": "SBATCH_EXPORT=NIL"}, job()) == []
    more = one("c3", {**job().groups[0].facts, "submitting.job.PATH": "/usr/bin:/s/hello/bin"})
    assert lines({}, more) == []


def test_variable_that_narrows_exports_is_named_with_its_line() -> None:
    (line,) = lines(
        {"submitting.variables": "SBATCH_EXPORT=NONE\nSBATCH_QOS=high"},
        job(lacks=("LOADEDMODULES", "ENVMGR_CANARY")),
        {"SBATCH_EXPORT": "/etc/profile.d/sbatch.sh:1"},
    )
    assert line == (
        "error login: bash-login (alice): SBATCH_EXPORT is NONE: jobs do not get LOADEDMODULES, exported variables | "
        "not set, or ALL, so that jobs get what the shell has | /etc/profile.d/sbatch.sh:1 sets it: take that line away"
    )


def test_variable_of_a_login_node_counts_without_a_job_and_one_of_nodes_is_a_warning() -> None:
    (line,) = lines({"submitting.variables": "SLURM_EXPORT_ENV=NONE"})
    assert line.startswith("error login: bash-login (alice): SLURM_EXPORT_ENV is NONE: jobs do not get what the shell")
    answers = {**NODES, "c2": {"submitting.variables": "SBATCH_EXPORT=NONE"}}
    (line,) = told(submitting, evidence(answers, sender="login", asked=((LOGIN, "user", "ssh"),)))
    assert line.startswith("warning c2: bash-login (alice): SBATCH_EXPORT is NONE")


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ('if options["export"] == nil then\n  options["export"]="NONE"\nend', "2"),
        ("if options['export'] ~= 'ALL' then\n  options['export'] = 'NONE'\nend", "2"),
        ('if job_desc.environment["A"] == nil then job_desc.environment["A"] = "x" end', "1"),
        ('local given = options["export"]\n-- options["export"] = "NONE"\noptions.export =\n "NONE"', "3"),
        ('if options["export"] == nil then\n  return slurm.SUCCESS\nend\nlocal environment = "x"', ""),
    ],
)
def test_line_of_a_plugin_is_one_that_sets_exports(tmp_path: Path, script: str, line: str) -> None:
    (tmp_path / "cli_filter.lua").write_text(script)
    text = script_text(submitting.__file__, "login.sh")
    (command,) = re.findall(r"sed 's/--.*?(?= \|\n *lines)", text, re.DOTALL)
    given = assign(submitting_lua=str(tmp_path / "cli_filter.lua"))
    done = subprocess.run(["/bin/sh", "-c", f"{given}{command}"], capture_output=True, text=True, check=True)
    assert done.stdout.rpartition(":")[2].strip() == line


def test_plugin_is_the_cause_where_no_variable_is() -> None:
    lost = job(lacks=("LOADEDMODULES",))
    filtered = {"submitting.plugins.CliFilterPlugins": "lua"}
    (line,) = lines({**filtered, "submitting.line.CliFilterPlugins": "/etc/slurm/cli_filter.lua:2"}, lost)
    assert line.startswith("error login: sbatch: jobs do not get LOADEDMODULES | what the submitting shell has")
    assert line.endswith(
        "/etc/slurm/cli_filter.lua:2 sets exports, for CliFilterPlugins=lua: which jobs is that meant for?"
    )
    (line,) = lines(filtered, lost)
    assert "CliFilterPlugins=lua changes what is submitted" in line
    asked = {"submitting": submitting.Plugins({"JobSubmitPlugins": "site"})}
    assert "JobSubmitPlugins=site changes" in lines({}, lost, asked_here=asked)[0]
    assert "which start-up file, prolog or plugin" in lines({}, lost)[0]


def test_step_of_srun_is_told_apart() -> None:
    (line,) = lines({}, job(lacks=("PATH",), in_step=True))
    assert line.startswith("error login: srun: a step of srun does not get the module's programs (PATH)")
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
    ],
)
def test_variable_by_which_slurm_refuses_jobs_is_the_error_and_the_nodes_are_a_note(said: str, variable: str) -> None:
    from dataclasses import replace

    host = {"submitting.variables": f"{variable}\nSBATCH_DEBUG=1", "submitting.looked.login": "yes"}
    given = replace(evidence(NODES, own=OWN), **refusing(said, host))
    (line,) = told(submitting, given)
    name = variable.partition("=")[0]
    assert line.startswith(f"error login: bash-login (alice): {name} is gone, and Slurm refuses jobs: {said}")
    (line,) = told(nodes, given)
    assert line.startswith(f"note c[1-3]: Slurm (inherited environment): unreachable: {said}")
    (line,) = told(nodes, replace(given, here=one("login", {})))  # then nobody else tells it
    assert line.startswith("error c[1-3]: ")


def test_conf_of_another_cluster_is_told_once_for_all_that_have_it() -> None:
    wrong = {"submitting.conf": "/old/slurm.conf, which is not there"}
    answers = dict.fromkeys(NODES, wrong)
    given = evidence(answers, here=one("login", wrong), sender="login", asked=((LOGIN, "user", "ssh"),))
    traces = Traces({("login", "bash-login", "user", "SLURM_CONF"): "/home/alice/.profile:28"})
    (line,) = told(submitting, given, traces)
    assert line.startswith(
        "error c[1-3],login: bash-login (alice): SLURM_CONF is /old/slurm.conf, which is not there: users' jobs go nowhere"
    )
    assert line.endswith("/home/alice/.profile:28 sets it: take that line away")


def test_aliases_and_functions_with_an_export_are_told() -> None:
    key = "ctx.bash-login.user.submitting.renamed"
    alias = {"c1": {key: "sbatch NONE"}, "c2": {key: "sbatch NONE"}, "c3": {key: "sbatch NONE"}}
    asked = ((LOGIN, "user", "ssh"),)
    (line,) = told(submitting, evidence(alias, asked=asked))
    assert line.startswith("warning c[1-3]: bash-login (alice): sbatch is an alias with --export=NONE")
    assert told(submitting, evidence({"c1": {key: "sbatch ALL,A=1"}}, asked=asked)) == []
    of_host = {key: "sbatch NIL /etc/profile.d/part.sh:3"}
    (line,) = lines(of_host, job(lacks=("LOADEDMODULES",)))  # it is the cause of what the job lacks, too
    assert line.startswith("error login: bash-login (alice): sbatch is a function with --export=NIL")
    assert line.endswith("/etc/profile.d/part.sh:3 begins it: take that function away")


def test_folder_that_only_the_submitting_host_has() -> None:
    of_job = job(**{"submitting.gone": "/opt/apps/modules\n/opt/nowhere"})
    host = {"submitting.folders": "/g/modules\n/opt/apps/modules"}
    places = {"MODULEPATH~/opt/apps/modules": "/etc/profile.d/local.sh:1"}
    (line,) = lines(host, of_job, places)
    assert line == (
        "error login: bash-login (alice): MODULEPATH has /opt/apps/modules, which is on login only; jobs inherit it | "
        "a folder that nodes have, too; c3 has none, and `module` finds nothing there | "
        "/etc/profile.d/local.sh:1 adds it on login: take that line away, or put the folder on all nodes"
    )


def test_folder_that_all_nodes_name_and_none_has() -> None:
    gone = {"folders.gone": "/opt/gone", "folders.at": "- /opt/gone", "folders.looked.login": "yes"}
    there = {"folders.at": "/ /opt/gone", "folders.looked.login": "yes"}
    silent = {"folders.looked.login": "yes"}
    (line,) = told(folders, evidence(dict.fromkeys(NODES, gone)))
    assert line.startswith("warning c[1-3]: MODULEPATH: MODULEPATH has /opt/gone, which is on no node | ")
    (line,) = told(folders, evidence(dict.fromkeys(NODES, gone), here=one("login", there)))
    assert "which is on login only" in line
    assert told(folders, evidence({"c1": gone, "c2": gone, "c3": silent})) == []  # contexts tell that
    assert told(folders, evidence({"c1": gone, "c2": gone, "c3": there})) == []


def test_modulefiles_whose_software_no_node_has_are_one_finding() -> None:
    at = {"modulefiles.sum.1": "0 /apps/modules", "modulefiles.named.1": "yes"}
    dead = at | {"modulefiles.dead.1": "gmx/1.lua /opt/gone/gmx\nqe/7.lua /opt/gone/qe"}
    found = [line for line in told(modulefiles, evidence(dict.fromkeys(NODES, dead))) if "no node has" in line]
    (line,) = found
    assert line.startswith(
        "warning c[1-3]: /apps/modules: 2 modulefiles name what no node has: gmx/1.lua names /opt/gone/gmx; qe/7.lua"
    )
    assert [line for line in told(modulefiles, evidence({"c1": dead, "c2": dead, "c3": at})) if "no node" in line] == []


def test_dead_ones_are_those_that_name_nothing_that_is_there(tmp_path: Path) -> None:
    tree = tmp_path / "modules"
    (tree / "m").mkdir(parents=True)
    (tmp_path / "apps/ok").mkdir(parents=True)
    files = {
        "gone": f'setenv("A","{tmp_path}/gone/a")\nprepend_path("PATH","{tmp_path}/gone/a/bin")',
        "half": f'setenv("A","{tmp_path}/apps/ok")\nsetenv("C","{tmp_path}/cache/x")',
        "opens": f'setenv("A","{tmp_path}/gone/b")\nprepend_path("MODULEPATH","{tree}/m")',
        "system": 'setenv("A","/usr/none/such")',
    }
    for name, text in files.items():
        (tree / f"m/{name}.lua").write_text(f"{text}\n")
    from envmgr.audit.shell.folder_content import folder_content
    from envmgr.probe import shell as probe

    text = script_text(probe.__file__ or "", "library.sh") + folder_content(deep=False)
    # the test's own folder lies in /tmp, where no software is looked for
    text = text.replace("var|tmp|run", "var|run")
    call = f"folder_content modulefiles 1 {tree / 'm'}\n"
    given = f"mark= who= job= room={tmp_path}\n"
    done = subprocess.run(["/bin/sh", "-c", given + text + call], capture_output=True, text=True, check=True)
    found = [line for line in done.stdout.splitlines() if line.startswith("@modulefiles.dead.1|")]
    assert [line.partition("|")[2].split()[0] for line in found] == ["gone.lua", "opens.lua"]


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
    prepare = module + assign(envmgr_entry="hello/1.0") + script_text(as_users.__file__, "prepare.sh")
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
    assert (admin.here, admin.others, admin.login) == ("", (), frozenset())
    sending = submit_hosts(("c1",), (), all_of_them=True, sends_jobs=True)
    assert (sending.here, sending.login) == ("front1", frozenset({"front1"}))
    named = submit_hosts(("c1",), ("front1", "front2", "c1"), all_of_them=True, sends_jobs=False)
    assert (named.here, named.others) == ("front1", ("front2",))
    some = submit_hosts(("c1",), ("front1", "front2"), all_of_them=False, sends_jobs=False)
    assert (some.here, some.others) == ("front1", ())
    assert submit_hosts(("front1",), (), all_of_them=True, sends_jobs=True).here == ""


def test_a_folder_with_a_plus_in_its_name_is_traced_whole() -> None:
    gone = {looked_key("folders", "login"): "yes", "folders.gone": "/opt/c++/modules"}
    given = evidence(dict.fromkeys(NODES, gone))
    line = {
        (
            "c1",
            "bash-login",
            "user",
            "MODULEPATH~/opt/c++/modules",
        ): "/etc/profile.d/x.sh:1 export MODULEPATH=/opt/c++/modules"
    }
    assert "/etc/profile.d/x.sh:1 adds it" in told(folders, given, Traces(line))[0]


def test_login_node_that_does_not_answer_is_a_finding() -> None:
    lost = Fleet((), {}, {}, (Reply("front2", "unreachable", "", "timed out", 0.0, 1.0),))
    (line,) = told(nodes, evidence(NODES, own=OWN, here=lost))
    assert line.startswith("error front2: ssh: unreachable: timed out")


def test_what_slurmd_runs_and_reads_around_jobs() -> None:
    well = {
        "slurm.told_files": "yes",
        "slurm.conf": "/s/slurm.conf",
        "slurm.files": "Prolog /s/p.sh 1\n- /s/cgroup.conf 2",
    }
    broken = well | {"slurm.files": "- /s/cgroup.conf 2", "slurm.broken": "Prolog /s/p.sh is not executable"}
    assert told(slurm, evidence(dict.fromkeys(NODES, well))) == []
    (line,) = told(slurm, evidence({"c1": well, "c2": broken, "c3": well}))
    assert line.startswith("error c2: /s/slurm.conf: Prolog names /s/p.sh, which is not executable")
    assert line.endswith("on the node: `chmod u+x /s/p.sh`")
    other = well | {"slurm.files": "Prolog /s/p.sh 9\n- /s/plugstack.conf 2"}
    (line,) = told(slurm, evidence({"c1": well, "c2": other, "c3": well}))
    assert "another /s/p.sh, no /s/cgroup.conf, also /s/plugstack.conf" in line
    preload = {"slurm.told_environ": "yes", "slurm.environ": "LD_PRELOAD=/x.so"}
    plain = {"slurm.told_environ": "yes"}
    (line,) = told(slurm, evidence({"c1": plain, "c2": preload, "c3": plain}))
    assert line.startswith("warning c2: slurmd: also has LD_PRELOAD=/x.so")
    assert told(slurm, evidence({"c1": plain, "c2": {}, "c3": plain})) == []  # it could not be read
