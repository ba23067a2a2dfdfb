"""What all nodes have alike, and is known to harm users or to change programs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from envmgr.audit.checks import get_check
from envmgr.audit.findings import AuditFinding, Caused, Loose
from envmgr.audit.inventory.alike import ROWS
from envmgr.audit.inventory.kinds import KINDS
from envmgr.audit.judge import judge
from envmgr.audit.model import Check
from envmgr.audit.second_look import Seen, Wanted
from envmgr.audit.table import CheckTable
from envmgr.probe.model import CONTEXTS, ShellContext
from tests.helpers.evidence import evidence

NODES = ("c1", "c2", "c3")
PYTHONPATH = "PYTHONPATH is /opt/a/python: each Python of a module takes it for an option, or imports from there first"
USES = {"env": r"PYTHONPATH\t/opt/a/python"}


def judged(
    facts: Mapping[str, str],
    *harms: Loose,
    odd: Mapping[str, str] | None = None,
    sets: Mapping[str, str] | None = None,
    nodes: tuple[str, ...] = NODES,
    contexts: tuple[ShellContext, ...] = CONTEXTS[:1],
) -> tuple[Caused, ...]:
    """The findings where all shells of alice have `facts` (kind -> lines), or `odd` ones on c2; NAME -> line is what a trace `sets`."""

    def answer(of: Mapping[str, str]) -> dict[str, str]:
        found = {"inventory.looked.node": "yes", "inventory.looked.login": "yes"}
        for context in contexts:
            start = f"ctx.{context.name}.user.inventory."
            found |= {f"{start}looked.context": "yes"}
            found |= {("inventory." if KINDS[kind].scope != "shell" else start) + kind: of[kind] for kind in of}
        return found

    rows = {"second_look.bash-login.user": "\n".join(rf"set\t{name}\t{at}" for name, at in (sets or {}).items())}

    def look_again(wanted: Wanted) -> Seen:
        return Seen(dict.fromkeys([*wanted.nodes, *wanted.normal], rows))

    checks = {
        "inventory": get_check("inventory"),
        "contexts": Check(judge=lambda _: harms, table=CheckTable(part="contexts")),
    }
    answers = {node: answer(odd if odd is not None and node == "c2" else facts) for node in nodes}
    asked = tuple((context, "user", context.way) for context in contexts)
    made = evidence(answers, asked=asked, way=contexts[0].way)
    return judge(made, checks, look_again).findings


def test_folder_that_no_user_can_enter_is_told_with_what_lacks_below_it() -> None:
    no_home = Loose(AuditFinding("contexts", "error", "bash-login", "no /home/a", nodes="c[1-3]"), "bash-login", "user")
    closed = {"dir": r"/home\t750 root:root", "folder": r"HOME\t/home/alice missing"}
    (cause,) = judged(closed, no_home)
    assert (cause.nodes, cause.where, cause.hint) == ("c[1-3]", "/home", "on the node: `chmod o+rx /home`")
    assert len(cause.consequences) == 2
    assert [one.where for one in judged({"dir": r"/home\t750 root:users"})] == []


@pytest.mark.parametrize(
    ("kind", "key", "value", "severity", "found"),
    [
        ("env", "PYTHONPATH", "/opt/a/python", "warning", PYTHONPATH),
        ("env", "PYTHONHOME", "/x", "error", "PYTHONHOME is /x: each Python of a module looks for its own library there"),
        ("env", "CUDA_VISIBLE_DEVICES", "1", "note", "CUDA_VISIBLE_DEVICES is 1: programs of modules, or Slurm's, read it"),
        ("env", "PYTHONSTARTUP", "~0123456789ab", "note", "PYTHONSTARTUP is a secret that is not said: programs of modules, or Slurm's, read it"),
        ("env", "BASH_ENV", "/home/a/.x", "warning", "a bash script that sh starts has no `module`: BASH_ENV is /home/a/.x"),
        ("env", "SLURM_JOB_ID", "7", "warning", "SLURM_JOB_ID is 7: it names no job, and srun fails"),
        ("env", "LOADEDMODULES", "hello/1.0", "note", "hello/1.0 is loaded before anybody loads a module"),
        ("folder", "CC", "icc missing", "warning", "CC is icc, which is not there"),
        ("folder", "TZ", "Europe/Berln missing", "warning", "TZ is Europe/Berln, which the node does not know: programs take UTC"),
        ("folder", "TMPDIR", "/gone missing", "error", "programs cannot write in TMPDIR: /gone missing"),
        ("folder", "HOME", "/home/a not writable", "error", "programs cannot write in HOME: /home/a not writable"),
        ("folder", "XDG_CACHE_HOME", "/x not writable", "warning", "alice cannot write in /x, which is XDG_CACHE_HOME"),
        ("moddir", "/opt/gone", "missing", "warning", "MODULEPATH has /opt/gone, which is missing"),
        ("modfile", "/opt/m/a.lua", "e3b0c44298fc", "warning", "/opt/m/a.lua is empty: it loads nothing, and hides nothing"),
        ("flags", "set", "e", "error", "start-up files leave `set -e`: a command that fails, or a variable that is not set, ends the shell"),
        ("flags", "set", "f", "warning", "start-up files leave `set -f`"),
        ("ifs", "IFS", ":", "error", "IFS is `:`: words are not split at blanks"),
        ("umask", "umask", "0777", "error", "umask is 0777: owners cannot use their own files"),
        ("umask", "umask", "0000", "warning", "umask is 0000: all users can write to new files"),
        ("ulimit", "address space", "4096 8192", "warning", "address space is limited to 4096: CUDA, large files and long jobs meet that"),
        ("locale", "said", "locale: Cannot set LC_ALL", "warning", "locale: Cannot set LC_ALL"),
        ("alias", "python", "/usr/bin/python3", "warning", "`python` is an alias: /usr/bin/python3"),
        ("func", "gcc", "/etc/profile.d/x.sh:3", "warning", "`gcc` is a function, of /etc/profile.d/x.sh:3"),
        ("state", "said", "bash: x: command not found", "warning", 'a start-up file makes the shell say "bash: x: command not found"'),
        ("state", "unread /etc/profile", "yes", "error", "alice cannot read /etc/profile, root can"),
        ("state", ":trap TERM", "yes", "error", "the signal TERM is ignored by all that is started there: no job step or program ends by it"),
        ("home", "~/.modulerc", "is there", "note", "~/.modulerc of alice changes what modules, Python or sessions over ssh do"),
        ("home", "~/.bashrc", "conda init", "note", "~/.bashrc has a `conda init` block: in new shells conda's python comes before that of modules"),
        ("account", "/etc/nologin", "no user may log in", "error", "no user can log in: /etc/nologin is there"),
        ("account", "alice ends", "with its password, which is over", "error", "the account alice, or its password, is over: its user cannot log in, and cron and jobs fail"),
        ("room", "/", "full", "error", "/ is full: programs cannot write there"),
        ("inodes", "/var", "none left", "error", "/var can have no more files: programs cannot write there"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nodes", [NODES, NODES[:1]])
def test_what_is_known_to_harm_is_said_where_all_nodes_have_it_and_where_there_is_only_one(
    kind: str, key: str, value: str, severity: str, found: str, nodes: tuple[str, ...]
) -> None:
    (one,) = judged({kind: rf"{key}\t{value}"}, nodes=nodes)
    assert (one.check, one.severity, one.found, one.nodes) == (
        "inventory",
        severity,
        found,
        "c[1-3]" if nodes[1:] else "c1",
    )
    assert one.hint


HEALTHY = r"""
env PROMPT_COMMAND\thistory -a
env PYTHONUNBUFFERED\t1
env PYTHONNOUSERSITE\t1
env CC\t/usr/bin/gcc
env LANG\ten_US.UTF-8
env BASH_ENV\t/usr/share/lmod/lmod/init/bash
env ENV\t/usr/share/lmod/lmod/init/profile
env MODULEPATH_ROOT\t/usr/modulefiles
env LMOD_CMD\t/usr/share/lmod/lmod/libexec/lmod
env LMOD_RC\t/sw/current/lmodrc.lua
env MY_TOKEN\t~0123456789ab
env LOADEDMODULES\t
env LD_LIBRARY_PATH\t
alias ls\t'ls --color=auto'
alias rm\t'rm -i'
alias python\tpython3
func module\t/usr/share/lmod/lmod/init/bash:3
func log\t/etc/bashrc:9
flags set\tT
flags shopt\tcheckwinsize:histappend:login_shell
ifs IFS\tblanks
umask umask\t0022
locale said\t
state said\tWelcome back
ulimit address space\tunlimited unlimited
ulimit open files\t1024 1048576
folder HOME\t/home/alice writable
folder /tmp\twritable
folder XDG_CACHE_HOME\t/scratch/cache missing
folder SLURM_CONF\t/etc/s a file
moddir /etc/modulefiles\tmissing
moddir /usr/share/modulefiles/Linux\tmissing
moddir /opt/modulefiles/Core\tmissing
home ~/.bashrc\t~0123456789ab
home ~/.lmod.d\tis there
home ~/.condarc\tis there
account alice\t2001:2001 /home/alice /bin/zsh
account alice ends\tnever
account rsw ends\t90000
room /\tyes
inodes /\tyes
"""


def test_ordinary_set_ups_are_silent() -> None:
    facts: dict[str, str] = {}
    for kind, _, line in (line.partition(" ") for line in HEALTHY.split("\n")):
        facts[kind] = f"{facts[kind]}\n{line}" if kind in facts else line
    del facts[""]
    assert judged(facts) == ()
    assert judged({**facts, "folder": r"HOME\t/nonexistent missing"}) == ()


def test_line_that_a_trace_shows_is_named_and_all_that_it_sets_is_one_cause() -> None:
    at = "/home/alice/.bashrc"
    facts = {**USES, "umask": r"umask\t000"}
    (one,) = judged(facts, sets={"PYTHONPATH": f"{at}:3", ":umask": f"{at}:4"})
    assert (one.found, one.hint, [each.found for each in one.consequences]) == (
        PYTHONPATH,
        f"{at}:3 does it: take that line away, unless it is intended",
        ["umask is 000: all users can write to new files"],
    )


def test_what_a_known_harm_breaks_or_leads_to_follows_from_it_and_nothing_else_does() -> None:
    said, other = (
        Loose(AuditFinding("contexts", "error", "bash-login (alice)", found, nodes="c[1-3]"), "bash-login", "user")
        for found in ("cannot import /opt/a/python/x.py", "no `module` command")
    )
    found = judged(USES, said, other)
    assert [(each.found, [c.found for c in each.consequences]) for each in found] == [
        (PYTHONPATH, [said.finding.found]),
        (other.finding.found, []),
    ]
    (one,) = judged({"ifs": r"IFS\t:"}, other)
    assert [each.found for each in (one, *one.consequences)] == [
        "IFS is `:`: words are not split at blanks",
        other.finding.found,
    ]


def test_key_that_differs_is_not_said_twice_and_modules_and_jobs_may_set_what_they_need() -> None:
    (one,) = judged({}, odd=USES)
    assert (one.nodes, one.found) == (
        "c2",
        "PYTHONPATH is /opt/a/python; not there on others: programs behave in another way",
    )
    assert [each.nodes for each in judged(USES, odd={})] == ["c[1,3]"]  # it harms all that have it
    flags = r"CFLAGS\t-O0"
    assert [each.found for each in judged({"env": flags + "\n" + r"LOADEDMODULES\tgcc/12"})] == [
        "gcc/12 is loaded before anybody loads a module"
    ]
    jobs = tuple(context for context in CONTEXTS if context.way == "slurm")[:1]
    assert [len(judged({"env": flags}, contexts=of)) for of in (CONTEXTS[:1], jobs)] == [1, 0]


def test_every_row_is_of_a_kind_and_first_among_those_that_fit() -> None:
    assert ROWS.keys() <= KINDS.keys()
    assert sum(len(rows) for rows in ROWS.values()) <= 60
