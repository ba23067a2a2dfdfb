"""How start-up files leave a shell, its limits and places: the texts in real shells, and what is judged of their answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from envmgr.audit.causes import Traces

from envmgr.audit.checks import accounts, limits, linker, names, places, shell_state, startup_files
from envmgr.probe.model import CONTEXTS
from envmgr.probe.shell import looked_key
from tests.helpers.context_shell import context_facts
from tests.helpers.evidence import evidence, told

LOGIN = next(c for c in CONTEXTS if c.name == "bash-login")
JOB = next(c for c in CONTEXTS if c.name == "sbatch-bash")
ASKED = ((LOGIN, "user", "ssh"),)
KEY = "ctx.bash-login.user."


@pytest.mark.parametrize(
    ("before", "facts"),
    [
        ("", {"shell_state.options": ""}),
        ("IFS=:", {"shell_state.ifs": " :", "shell_state.options": ""}),
        ("unset IFS", {"shell_state.options": ""}),  # as the hint says
        ("IFS=", {"shell_state.ifs": "", "shell_state.options": ""}),
        ("set -u; set -f", {"shell_state.options": "noglob nounset"}),
        ("shopt -s nullglob", {"shell_state.options": "nullglob"}),
        ("set -e -a", {"shell_state.options": "errexit allexport"}),
        ("set -o posix", {"shell_state.options": "posix"}),
        ("export POSIXLY_CORRECT=1", {"shell_state.options": ""}),  # which the check of variables tells
    ],
)
def test_what_start_up_leaves_of_bash(before: str, facts: dict[str, str]) -> None:
    assert context_facts(shell_state, "bash", before) == {"shell_state.reader": "bash", **facts}


def test_script_without_module_is_told_where_there_is_an_lmod(tmp_path: Path) -> None:
    lmod, other = tmp_path / "lmod", tmp_path / "env"
    lmod.touch(mode=0o755)
    other.write_text("ulimit -c 0\n")
    assert "shell_state.bash_env" not in context_facts(shell_state, "bash", BASH_ENV=str(other))
    told_of = context_facts(shell_state, "bash", BASH_ENV=str(other), LMOD_CMD=str(lmod))
    assert told_of["shell_state.bash_env"] == str(other)
    other.write_text("module() { :; }\n")
    assert "shell_state.bash_env" not in context_facts(shell_state, "bash", BASH_ENV=str(other), LMOD_CMD=str(lmod))


def test_dash_is_not_asked_for_bashs_options() -> None:
    assert context_facts(shell_state, "dash", "IFS=:; set -u") == {}


def test_shell_that_is_another_and_one_whose_words_are_not_split() -> None:
    answers = {
        "c1": {f"{KEY}shell_state.reader": "zsh"},
        "c2": {f"{KEY}shell_state.reader": "bash", f"{KEY}shell_state.ifs": " :"},
    }
    assert [line.split(" | ")[0] for line in told(shell_state, evidence(answers, asked=ASKED))] == [
        "error c1: bash-login (alice): what is for bash is read by zsh",
        "error c2: bash-login (alice): IFS is :: words are not split at blanks",
    ]


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (
            r"/home/a/.profile: line 6: $'\x0d': command not found",
            r"on the node: `runuser -u alice -- sed -i 's/\r$//' /home/a/.profile`; it has Windows' line ends",
        ),
        ("/etc/profile.d/x.sh: line 3: foo: command not found", "what is in that line of /etc/profile.d/x.sh?"),
        ("csh: foo: Command not found.", "`bash -lx -c true` as that user shows the line"),
        ("Note: nothing to do", None),
    ],
)
def test_error_of_a_start_up_file_is_told_and_a_note_is_not(said: str, hint: str | None) -> None:
    found = told(shell_state, evidence({"c1": {f"{KEY}shell_state.said": said}}, asked=ASKED))
    assert [line.rpartition(" | ")[2] for line in found] == ([hint] if hint else [])


def test_limits_are_the_shells_own() -> None:
    facts = context_facts(limits, "bash", "ulimit -S -v 4194304; umask 077")
    assert facts["limits.address_space"] == str(4194304 * 1024)
    assert facts["limits.umask"] == "0077"
    assert facts["limits.cpu_time"] == "unlimited"


def test_limit_of_a_job_names_slurms_setting_and_one_of_a_node_is_compared() -> None:
    key = "ctx.sbatch-bash.user.limits."
    given = evidence({"c1": {f"{key}address_space": str(4 << 30)}}, way="slurm", asked=((JOB, "user", "slurm"),))
    (found,) = told(limits, given)
    assert found.startswith("warning c1: sbatch-bash (alice): address space is limited to 4 GiB (`ulimit -v`) | ")
    assert "`PropagateResourceLimitsExcept=AS` in slurm.conf" in found
    login = next(c for c in CONTEXTS if c.name == "sbatch-bash-login")
    given = evidence(
        {"c1": {f"ctx.{login.name}.user.limits.address_space": "1024"}}, way="slurm", asked=((login, "user", "slurm"),)
    )
    line = {("c1", "bash-job", "user", ":ulimit-v"): "/etc/profile.d/x.sh:1 ulimit -v 1"}
    assert told(limits, given, Traces(line))[0].endswith("| /etc/profile.d/x.sh:1 sets it: take that line away")
    of_sender = {("login", "bash-login", "user", ":ulimit-v"): "/etc/profile.d/x.sh:1 ulimit -v 1"}
    assert "PropagateResourceLimits" in told(limits, given, Traces(of_sender, ("login",)))[0]
    at_login = replace(
        evidence({"login": {f"{KEY}limits.address_space": "1024"}}, asked=ASKED), login=frozenset({"login"})
    )
    of_login = {("login", "bash-login", "user", ":ulimit-v"): "/etc/profile.d/x.sh:1 ulimit -v 1"}
    assert "| /etc/profile.d/x.sh:1 sets it, and jobs" in told(limits, at_login, Traces(of_login))[0]
    assert told(limits, replace(at_login, ways={**at_login.ways, "slurm": at_login.fleet})) == []
    answers = {f"c{n}": {f"{KEY}limits.processes": "100" if n == 2 else "5000"} for n in range(1, 5)}
    assert [line.split(" | ")[0] for line in told(limits, evidence(answers, asked=ASKED))] == [
        "warning c2: bash-login (alice): processes is 100 (`ulimit -u`)"
    ]
    for other, shown in (("65536", "64 KiB"), (str((8 << 20) + 1), str((8 << 20) + 1))):
        answers = {f"c{n}": {f"{KEY}limits.locked_memory": other if n == 2 else str(8 << 20)} for n in range(1, 5)}
        (line,) = told(limits, evidence(answers, asked=ASKED))
        assert line.startswith(f"warning c2: bash-login (alice): locked memory is {shown} (`ulimit -l`) | ")


def test_places_that_variables_name(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    there = {
        "XDG_RUNTIME_DIR": str(tmp_path),
        "HF_HOME": f"{tmp_path}/made/later",
        "TMPDIR": str(tmp_path),
        "TMP": "relative",
    }
    assert context_facts(places, "dash", **there) == {}
    (tmp_path / "file").touch()
    gone = {"XDG_RUNTIME_DIR": f"{tmp_path}/gone", "TORCH_HOME": f"{tmp_path}/file/here", "TMPDIR": "/proc/gone"}
    assert context_facts(places, "dash", **gone) == {f"places.of.{name}": value for name, value in gone.items()}


def test_home_and_what_of_it_is_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".cache").symlink_to("/scratch/gone")
    facts = context_facts(places, "dash", HOME=str(tmp_path))
    assert facts == {"places.folders": f"-> /scratch/gone {tmp_path}/.cache"}
    answers = {"c1": {f"{KEY}{key}": value for key, value in facts.items()}, "c2": {}}
    assert [line.split(" | ")[0] for line in told(places, evidence(answers, asked=ASKED))] == [
        f"warning c1: ~alice: {tmp_path}/.cache is a link to /scratch/gone, which is not there"
    ]
    assert context_facts(places, "dash", HOME=f"{tmp_path}/gone") == {"places.home": "is not there"}


def looked(part: str, **facts: str) -> dict[str, str]:
    return {looked_key(part, "node"): "yes", **{f"{part}.{name}": value for name, value in facts.items()}}


def test_loopback_is_a_warning_on_one_node_and_on_all() -> None:
    one = {f"c{n}": looked("names", own="127.0.1.1" if n == 1 else "") for n in (1, 2, 3)}
    every = {f"c{n}": looked("names", own="127.0.1.1") for n in (1, 2, 3)}
    assert [line.partition(":")[0] for line in told(names, evidence(one))] == ["warning c1"]
    assert [line.partition(":")[0] for line in told(names, evidence(every))] == ["warning c[1-3]"]
    assert told(names, evidence({"c1": {}, "c2": looked("names", own="")})) == []  # not looked at is told elsewhere


def test_library_that_is_preloaded_everywhere_is_a_note_and_a_missing_one_a_warning() -> None:
    every = {f"c{n}": looked("linker", preload="/opt/x.so") for n in (1, 2)}
    assert [line.split(" | ")[0] for line in told(linker, evidence(every))] == [
        "note c[1-2]: /etc/ld.so.preload: every program loads /opt/x.so"
    ]
    gone = {f"c{n}": looked("linker", preload="/opt/x.so", missing="/opt/x.so") for n in (1, 2)}
    assert told(linker, evidence(gone))[0].startswith(
        "warning c[1-2]: /etc/ld.so.preload: names /opt/x.so, which is not there"
    )


def test_file_of_profile_d_that_no_user_reads_anywhere_is_meant() -> None:
    key = f"{KEY}startup_files"
    every = {f"c{n}": {key: "/etc/profile.d/root.sh"} for n in (1, 2, 3)}
    assert told(startup_files, evidence(every, asked=ASKED)) == []
    some = {"c1": {key: "/etc/profile.d/root.sh"}, "c2": {}, "c3": {}}
    assert [line.split(" | ")[0] for line in told(startup_files, evidence(some, asked=ASKED))] == [
        "error c1: /etc/profile.d/root.sh: alice cannot read it, root can"
    ]
    lmod = {f"c{n}": {key: "/etc/lmod"} for n in (1, 2, 3)}
    assert [line.partition(":")[0] for line in told(startup_files, evidence(lmod, asked=ASKED))] == ["error c[1-3]"]


def test_start_up_files_are_compared_by_content() -> None:
    answers = {
        f"c{n}": looked("startup_files") | {"startup_files.sums": f"{'b' if n == 2 else 'a'} /etc/profile"}
        for n in (1, 2, 3)
    }
    assert told(startup_files, evidence(answers)) == [
        "note c2: /etc/profile: content b | content a, as on c[1,3] | compare /etc/profile of the nodes: is the difference intended?"
    ]


def test_account_that_differs_names_the_command_that_mends_it() -> None:
    def of(node: int) -> dict[str, str]:
        odd = node == 2
        return {
            "accounts.shell": "/bin/sh" if odd else "/bin/bash",
            "accounts.groups": "alice" if odd else "alice gpu",
            "accounts.gids": "7 alice" if odd else "7 alice\n9 gpu",
        }

    found = told(accounts, evidence({f"c{n}": of(n) for n in (1, 2, 3)}))
    assert [line.split(" | ")[0] for line in found] == [
        "error c2: user alice: its login shell is /bin/sh",
        "warning c2: user alice: it is not in gpu: files of a group are others' there",
    ]
    assert "`usermod -s /bin/bash alice`" in found[0]
    assert "`{ getent group gpu || groupadd -g 9 gpu; } && usermod -aG gpu alice`" in found[1]


def test_nologin_is_told_with_its_words() -> None:
    found = told(
        accounts, evidence({"c1": {"accounts.nologin": "/etc/nologin", "accounts.nologin_says": "later"}, "c2": {}})
    )
    assert [line.split(" | ")[0] for line in found] == [
        "error c1: /etc/nologin: it is there: no user can log in over ssh (later)"
    ]
