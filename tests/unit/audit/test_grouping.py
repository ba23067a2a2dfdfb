"""Findings by cause: what becomes one finding, what stays apart, and which of them speaks for all."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from envmgr.audit.causes import Traces
from envmgr.audit.checks import all_checks
from envmgr.audit.grouping import AuditFinding, Caused, Links, Loose, every_finding, grouped, same_on_nodes
from envmgr.audit.hints import Action, LinePlace, add, delete, hint_of, look
from envmgr.audit.judge import judge
from envmgr.audit.table import Steps
from envmgr.audit.text import also
from envmgr.nodes.sets import expand
from envmgr.probe.model import CONTEXTS
from tests.helpers.evidence import evidence

LINE = LinePlace("c2", "/etc/profile.d/x.sh", 4, "export MODULEPATH=/opt")
CAUSES = Links(
    {"mount": ("loading",), "ambient": ("contexts", "loading"), "contexts": ("loading",)},
    {"ambient": {"is wrong": ("contexts", "loading")}, "names": {"^/etc/nss": ("contexts no user",)}},
)
ALL = Links.of(check.table for check in all_checks().values())


def one(
    check: str, where: str, *, severity: str = "error", nodes: str = "c2", at: LinePlace | None = None, **more: str
) -> Loose:
    """`at` is the line that its hint deletes, `run` the command that its hint runs here."""
    hint = (
        delete(at, nodes.split(","), f"{at}: take it away")
        if at
        else hint_of(Steps(run=more.pop("run", ""), at="here"), ())
    )
    found = more.get("found", f"{check} is wrong")
    finding = AuditFinding(check, severity, where, found, hint=hint.text, nodes=nodes, actions=hint.actions)  # type: ignore[arg-type]
    return Loose(finding, more.get("about", ""), more.get("account", ""))


def told(*loose: Loose) -> list[tuple[str, str, list[str]]]:
    """(severity, check, the checks and places of what follows) of each cause."""
    found = grouped(same_on_nodes(loose), CAUSES)
    return [(f.severity, f.check, [f"{each.check} {each.where}" for each in f.consequences]) for f in found]


def test_findings_of_one_line_are_one_and_what_it_causes_is_counted_below_it() -> None:
    of_line = [
        one("contexts", "csh (root)", at=LINE),
        one("contexts", "bash-ssh (alice)", at=LINE),
        one("ambient", "csh (root)", at=LINE),
    ]
    assert told(*of_line, one("loading", "a/1.0"), one("loading", "b/1.0")) == [
        ("error", "ambient", ["contexts csh (root); bash-ssh (alice)", "loading a/1.0, b/1.0"])
    ]


def test_another_line_of_the_file_is_in_the_same_finding_and_in_its_hint() -> None:
    other = replace(LINE, line=9, text="export LMOD_RC=/opt/rc.lua")
    (found,) = grouped([one("contexts", "csh (root)", at=LINE), one("contexts", "bash-ssh (root)", at=other)], CAUSES)
    assert found.hint == "/etc/profile.d/x.sh:4: take it away; then /etc/profile.d/x.sh:9"
    assert [(action.do, action.nodes, action.line, action.text) for action in found.actions] == [
        ("delete", "c2", 4, LINE.text),
        ("delete", "c2", 9, other.text),
    ]
    assert found.cause == "/etc/profile.d/x.sh:4"


def test_the_same_line_on_other_nodes_is_the_same_cause_and_a_line_of_another_file_is_not() -> None:
    elsewhere, other = replace(LINE, node="c1"), replace(LINE, file="/etc/profile.d/y.sh")
    found = grouped(
        same_on_nodes(
            [
                one("contexts", "csh (root)", at=LINE),
                one("contexts", "csh (root)", nodes="c1", at=elsewhere),
                one("ambient", "csh (root)", at=other),
            ]
        ),
        CAUSES,
    )
    assert [(each.check, each.nodes, each.actions[0].nodes, each.consequences) for each in found] == [
        ("ambient", "c2", "c2", ()),
        ("contexts", "c[1-2]", "c[1-2]", ()),
    ]


def test_one_command_that_mends_both_is_one_cause_whatever_nodes_it_names() -> None:
    assert told(
        one("contexts", "csh", run="envmgr node-setup --apply --nodes c2"),
        one("cache", "lmodrc.lua", nodes="c2,c3", run="envmgr node-setup --apply --nodes c[2-3]"),
    ) == [("error", "cache", ["contexts csh"])]


def test_what_a_check_names_as_the_cause_joins_findings_of_other_checks() -> None:
    about = "install hello/1.0"
    assert told(
        one("software", "hello/1.0", about=about), one("ambient", "hello/1.0", severity="note", about=about)
    ) == [("error", "software", ["ambient hello/1.0"])]


def test_a_cause_reaches_no_other_node_no_other_account_and_nothing_with_a_step_of_its_own_or_unrelated() -> None:
    cause = one("ambient", "csh (alice)", severity="warning", at=LINE, account="alice")
    for apart in (
        one("loading", "a/1.0", severity="warning", nodes="c3", account="alice"),
        one("loading", "a/1.0", severity="warning", nodes="c2,c3", account="alice"),
        one("loading", "a/1.0", severity="warning", account="root"),
        one("loading", "a/1.0", severity="warning", account="alice", run="umount /opt/x"),
        one("mount", "/sw", severity="warning", account="alice"),
    ):
        assert all(following == [] for _, _, following in told(cause, apart)), apart
    for severity in ("warning", "error"):
        assert told(cause, one("loading", "a/1.0", severity=severity, account="alice")) == [
            (severity, "ambient", ["loading a/1.0"])
        ]


def test_what_is_asked_in_a_login_shell_follows_from_a_cause_in_that_shell_and_not_from_one_of_root_or_csh() -> None:
    asked = one("loading", "a/1.0")
    assert len(told(one("ambient", "bash-login, csh (alice)", at=LINE, account="alice"), asked)) == 1
    for where, account in (("csh (alice)", "alice"), ("bash-login (root)", "root")):
        assert len(told(one("ambient", where, at=LINE, account=account), asked)) == 2


@pytest.mark.parametrize(
    ("cause", "other", "joins"),
    [
        ("/opt/site is not mounted", "lacks /opt/site/modules", True),
        ("/opt/site is not mounted", "lacks /opt/sitetool/modules", False),
        ("/opt/site/modules differs", "lacks /opt/site", False),
        ("/usr/bin/lua5.3: a", "/usr/bin/lua5.3: b", False),
        ("LD_PRELOAD is x", "it ends with LD_PRELOAD set", True),
        ("LD_PRELOAD is x", "it ends with LD_AUDIT set", False),
        ("MODULEPATH has more", "MODULEPATH has less", False),
        ("libfoo.so.1 is lost", "cannot open libfoo.so.1", True),
        ("libfoo.so.1 is lost", "cannot open libfoobar.so.1", False),
        ("hello/1.0 is gone", "hello/1.0 does not load", True),
        ("hello/1.0 is gone", "hello/1.1 does not load", False),
    ],
)
def test_what_names_the_same_path_variable_library_or_module_can_follow(cause: str, other: str, joins: bool) -> None:
    of = one("mount", "x", severity="warning", about="a", found=cause), one("loading", "y", found=other)
    assert (len(told(*of)) == 1) == joins
    assert len(told(replace(of[0], about=""), of[1])) == 2, "it has a step, or says what it is about"


def test_a_cause_that_only_people_can_mend_comes_first_with_what_the_table_says_that_follows() -> None:
    names = one("names", "/etc/nsswitch.conf", severity="warning")
    assert told(one("contexts", "bash-login (alice)", found="no user alice"), names) == [
        ("error", "names", ["contexts bash-login (alice)"])
    ]
    assert len(told(one("contexts", "bash-login (alice)", found="no module"), names)) == 2
    assert len(told(one("contexts", "bash-login (alice)", found="no user alice"), one("names", "/etc/hosts"))) == 2


def test_findings_of_one_cause_reach_together_what_is_on_all_their_nodes() -> None:
    both = one("ambient", "csh (root)", at=LINE), one("ambient", "zsh (root)", nodes="c3", at=replace(LINE, node="c3"))
    joined = (
        replace(both[1], about="file /etc/profile.d/x.sh on all"),
        replace(both[0], about="file /etc/profile.d/x.sh on all"),
    )
    following = one("loading", "a/1.0", nodes="c2,c3")
    assert len(told(*both, following)) == 3
    on_all = replace(both[0], finding=replace(both[0].finding, nodes="c2,c3", where="x"))
    assert len(told(*joined, on_all, following)) == 1


def test_two_that_could_each_cause_the_other_are_one_and_not_none() -> None:
    both = Links({}, {"x": {"": ["y"]}, "y": {"": ["x"]}})
    (found,) = grouped([one("x", "a"), one("y", "a")], both)
    assert [each.check for each in every_finding([found])] in (["x", "y"], ["y", "x"])


def test_what_this_host_has_reaches_all_nodes_and_what_a_node_has_not_this_host() -> None:
    cause, following = one("ambient", "x", at=LINE, nodes="c2"), one("contexts", "y", nodes="c2")
    here = (
        replace(cause, finding=replace(cause.finding, nodes="")),
        replace(following, finding=replace(following.finding, nodes="")),
    )
    assert [len(told(a, b)) for a, b in ((cause, following), (here[0], following), (cause, here[1]))] == [1, 1, 2]


def test_setting_up_a_node_again_is_no_step_of_its_own_where_another_line_is_the_cause() -> None:
    again = one("contexts", "csh (root)", run="envmgr node-setup --apply --nodes c2")
    assert told(one("ambient", "csh (root)", at=LINE), again) == [("error", "ambient", ["contexts csh (root)"])]


def test_among_findings_of_one_severity_those_come_first_that_can_cause_the_others() -> None:
    apart = one("ambient", "z", nodes="c3"), one("contexts", "b", nodes="c2"), one("loading", "a", nodes="c1")
    assert [check for _, check, _ in told(*reversed(apart))] == ["ambient", "contexts", "loading"]
    assert [check for _, check, _ in told(*apart, one("cache", "a"))][-2:] == ["cache", "loading"]


# -- the tables of all checks -------------------------------------------------------------------------------------------

PY = LinePlace("c2", "/etc/profile.d/py.sh", 1, "export PYTHONWARNINGS=error")
WARNINGS = one("ambient", "bash-login (root, alice)", severity="warning", at=PY, found="PYTHONWARNINGS is error")
EDIT = "sed -i 3d /x"


def first_of(*loose: Loose) -> list[str]:
    """The check of each cause."""
    return [found.check for found in grouped(same_on_nodes(loose), ALL)]


@pytest.mark.parametrize(
    "other",
    [
        one("resolution", "/etc/lmod/modules", severity="warning", found="`module avail` lists nothing"),
        one(
            "site-modules", "solver/3.1", severity="warning", found="libfoo.so.1 is missing for /opt/solver/bin/solver"
        ),
        one("modulefiles", "/etc/lmod/modules", severity="warning", found="a.lua names /opt/a, which is not there"),
        one("software", "hello/1.0", found="bin/tool: exit status 1"),
        one("contexts", "bash-login (alice)", found="MODULEPATH has no modules of /cluster/sw: it is empty"),
        one("lmod", "Lmod", found="does not run: /usr/bin/lua5.3: no field"),
    ],
    ids=lambda other: other.finding.check,
)
def test_a_variable_of_python_explains_no_fault_that_has_nothing_of_python(other: Loose) -> None:
    assert len(first_of(WARNINGS, other)) == 2


@pytest.mark.parametrize(
    "cause",
    [
        WARNINGS,
        one(
            "system-files", "/usr/lib/python3.11/sitecustomize.py", severity="warning", run=EDIT, found="also has raise"
        ),
        one("system-files", "/proc/sys/vm/overcommit_memory", severity="warning", run=EDIT, found="2"),
        one("system-files", "/etc/alternatives/awk", severity="warning", run=EDIT, found="is /usr/local/bin/otherawk"),
        one("limits", "bash-login (alice)", severity="warning", run=EDIT, found="address space is limited to 1 GiB"),
        one("mount", "/cluster/sw", run="umount /cluster/sw", found="tmpfs t is mounted over it, on /cluster/sw"),
        one("accounts", "user alice", found="there is no such user"),
    ],
    ids=lambda cause: cause.finding.where,
)
def test_a_warning_that_explains_why_python_does_not_start_comes_first_and_alone(cause: Loose) -> None:
    faults = (
        one("software", "hello/1.0", found="bin/python: exit status 1"),
        one("software", "hello/2.0", found="bin/python: exit status 1"),
    )
    assert first_of(*faults, cause) == [cause.finding.check]


@pytest.mark.parametrize(
    ("cause", "other", "joins"),
    [
        (one("slurm", "Slurm", severity="warning", found="drained: not ready"), "silent: Slurm: the job ended", False),
        (
            one("munge", "munge", found="`munge -n` fails for alice"),
            "cannot be probed: exit status 1: srun: error",
            True,
        ),
        (
            one("cache", "/var/cache/lmod", severity="warning", found="older than /etc/x, which was"),
            "not in the cache: t/2",
            True,
        ),
        (
            one("modulefiles", "/etc/m", severity="warning", found="t/1 names /opt/t, which is not there"),
            "it names /opt/t",
            True,
        ),
    ],
    ids=str,
)
def test_one_fault_that_two_checks_see_is_one_finding(cause: Loose, other: str, *, joins: bool) -> None:
    checks = {"slurm": "nodes", "munge": "contexts", "cache": "resolution", "modulefiles": "site-modules"}
    follows = one(checks[cause.finding.check], "x", found=other)
    assert first_of(follows, cause) == ([cause.finding.check] if joins else ["nodes", "slurm"])


def test_where_users_come_from_is_before_the_users_and_their_shells() -> None:
    names = one("names", "/etc/nsswitch.conf", severity="warning", found="hosts: files dns; passwd: files")
    user = one("accounts", "user alice", found="`id` does not answer")
    shell = one("contexts", "bash-login (alice)", found="cannot be probed: there is no user alice", account="alice")
    (found,) = grouped([shell, user, names], ALL)
    assert (found.check, found.severity, [each.check for each in found.consequences]) == (
        "names",
        "error",
        ["contexts", "accounts"],
    )
    assert first_of(shell, user) == ["accounts"]


@pytest.mark.parametrize("name", [*all_checks()])
def test_what_a_table_says_that_follows_is_a_check(name: str) -> None:
    table, known = all_checks()[name].table, set(all_checks())
    named = {kind.partition(" ")[0] for kinds in table.explains.values() for kind in kinds}
    assert {*table.causes} <= known
    assert named <= known
    for pattern, kinds in table.explains.items():
        re.compile(pattern)
        assert all(re.compile(kind.partition(" ")[2]) for kind in kinds)


def test_an_undecided_difference_follows_from_a_cause_on_one_side() -> None:
    cause = one("ambient", "csh (root)", at=LINE)
    for between, found, joins in (
        ("c2,login", "PATH is /x on c2; PATH is /y on login", True),
        ("c[1-2],login", "PATH is /x on c[1-2]; PATH is /y on login", False),
        ("c1,login", "PATH is /x on c1; PATH is /y on login", False),
    ):
        apart = one("contexts", "csh (root)", nodes="c1", found=found)
        undecided = replace(apart, finding=replace(apart.finding, nodes="", between=between))
        assert (len(told(cause, undecided)) == 1) == joins, found


@pytest.mark.parametrize(
    ("nodes", "against", "between", "follows"),
    [
        ("c2", "c1,c3", "", True),
        ("c[1-3]", "c1,c3", "", False),
        ("c[1-2]", "c1,c3", "", False),  # c1 has it, too, and is right
        ("", "c1,c3", "", False),
        ("c[1-3]", "", "", True),  # nothing says that the others are right
        ("c2", "", "c[1-3]", True),
        ("c[1-3]", "", "c[1-3]", False),
        ("", "", "c[1-3]", False),
    ],
)
def test_what_differs_between_nodes_does_not_follow_from_what_is_alike_on_them(
    nodes: str, against: str, between: str, *, follows: bool
) -> None:
    lacks = "lacks /opt/apps/modulefiles"
    cause = one("ambient", "bash-ssh (root)", nodes=nodes, found=lacks, about="MODULEPATH", severity="warning")
    other = one("loading", "/opt/apps/modulefiles", found="no gromacs on c2; vasp on c[1,3]")
    other = replace(other, against=frozenset(expand(against)))
    if between:
        other = replace(other, finding=replace(other.finding, nodes="", between=between))
    assert (len(told(cause, other)) == 1) == follows


def test_node_that_lacks_modules_of_a_folder_that_a_line_of_all_nodes_names_is_a_finding_of_its_own() -> None:
    ssh, apps = next(c for c in CONTEXTS if c.name == "bash-ssh"), "/opt/apps/modulefiles"
    ours = "/sw/generations/0001/modules"
    facts = {"current": "generations/0001", "resolution.modulepath": f"{ours}:{apps}"}
    for who in ("user", "root"):
        facts |= {f"ctx.bash-login.{who}.modulepath": f"{ours}:{apps}", f"ctx.bash-ssh.{who}.modulepath": ours}
    has = {"c1": "gromacs/2024", "c2": "vasp/6", "c3": "gromacs/2024"}
    answers = {node: {**facts, "resolution.avail": f"{apps}:\n{module}"} for node, module in has.items()}
    line = {
        ("c1", "bash-login", who, f"MODULEPATH~{apps}"): "/etc/profile.d/local-apps.sh:1 x" for who in ("user", "root")
    }
    given = evidence(answers, asked=tuple((of, who, "ssh") for of in (CONTEXTS[0], ssh) for who in ("user", "root")))  # type: ignore[misc]
    checks = {name: all_checks()[name] for name in ("contexts", "resolution")}
    findings = judge(given, checks, lambda _: Traces(line)).findings
    lacks = {(f.check, f.nodes): f.found for f in findings if apps in f.where + f.found}
    assert lacks == {
        ("contexts", "c[1-3]"): f"MODULEPATH lacks {apps}",
        ("resolution", "c2"): "`module avail` also lists vasp/6; it does not list gromacs/2024",
    }


def test_what_follows_says_its_nodes_where_they_are_others() -> None:
    on = {"c[1-3]": "bash-login (root)", "c2": "bash-ssh (root)", "": "csh (root)"}
    of = [AuditFinding("loading", "error", where, "x", nodes=nodes) for nodes, where in on.items()]
    of[2] = replace(of[2], between="c[1-2]")
    cause = Caused("ambient", "error", "bash-login (root)", "x", nodes="c[1-3]", consequences=tuple(of))
    assert also(cause) == ("loading: bash-login (root); loading on c2: bash-ssh (root); loading on c[1-2]: csh (root)")


def test_a_group_is_as_severe_as_its_worst_and_causes_come_first() -> None:
    note = one("ambient", "csh (root)", severity="note", at=LINE)
    assert told(one("cache", "x"), note, one("contexts", "csh (root)", at=LINE)) == [
        ("error", "contexts", ["ambient csh (root)"]),
        ("error", "cache", []),
    ]


def test_every_finding_comes_once_with_its_consequences_behind_it() -> None:
    following = AuditFinding("loading", "error", "a/1.0", "not loaded")
    cause = Caused("mount", "error", "/sw", "not mounted", consequences=(following,))
    assert [*every_finding([cause])] == [cause, following]


def test_text_of_a_hint_is_made_from_its_steps() -> None:
    assert not look("")
    assert add(LINE, ("c1", "c2"), "c3 gets it").actions == (
        Action("add", "c[1-2]", file=LINE.file, line=4, text=LINE.text),
    )
    assert delete(LINE, ("c5",), "it is inherited").actions[0].nodes == "c2"
    traced = hint_of(Steps(delete=LINE.seen_from(["c5"]), because="sets it"), ["c5"], LINE)
    assert traced.text == "/etc/profile.d/x.sh:4 on c2 sets it: take that line away"
    assert traced.actions == (Action("delete", "c2", file=LINE.file, line=4, text=LINE.text),)


@pytest.mark.parametrize(
    ("steps", "text", "made"),
    [
        (
            Steps(run="mount /sw", look="is the server up?"),
            "on the node: `mount /sw`; is the server up?",
            [("run", "c2", "mount /sw"), ("look", "", "is the server up?")],
        ),
        (
            Steps(run="umount /a", look="and take it out of fstab"),
            "on the node: `umount /a`, and take it out of fstab",
            [("run", "c2", "umount /a"), ("look", "", "and take it out of fstab")],
        ),
        (
            Steps(run="chmod a+x /sw/store", at="server"),
            "on the server: `chmod a+x /sw/store`",
            [("run", "server", "chmod a+x /sw/store")],
        ),
        (
            Steps(run="envmgr node-setup --apply --nodes c2", at="here"),
            "`envmgr node-setup --apply --nodes c2`",
            [("run", "", "envmgr node-setup --apply --nodes c2")],
        ),
        (
            Steps(delete="/etc/hosts:12", because="names the node", look="or mend it"),
            "/etc/hosts:12 names the node: take that line away, or mend it",
            [("delete", "c2", "/etc/hosts:12")],
        ),
        (Steps(look="which file sets it?"), "which file sets it?", [("look", "", "which file sets it?")]),
        (Steps(), "", []),
    ],
)
def test_steps_are_data_and_their_text(steps: Steps, text: str, made: list[tuple[str, str, str]]) -> None:
    hint = hint_of(steps, ["c2"])
    assert (hint.text, bool(steps)) == (text, bool(text))
    assert [
        (step.do, step.nodes or "server" * step.server, step.command or step.text or f"{step.file}:{step.line}")
        for step in hint.actions
    ] == made


def test_text_alone_in_a_table_is_for_people() -> None:
    assert Steps.model_validate("on the node: `rm -r /`") == Steps(look="on the node: `rm -r /`")


@pytest.mark.parametrize(
    ("template", "value", "steps"),
    [
        (Steps(look="{value} may be it"), "on the node: `rm -r /etc`", ["look"]),
        (Steps(look="which file names {value}?"), "/etc/shadow:1 sets it: take that line away", ["look"]),
        (Steps(delete="{value}", because="sets exports"), "/etc/x.lua:2", ["delete"]),
        (Steps(delete="{value}", because="sets exports"), "no line", ["look"]),
        (Steps(delete="{value}", because="sets exports"), "/etc/x:1; rm -r /", ["look"]),
        (Steps(run="umount {value!q}"), "/mnt/a`b", ["look"]),
        (Steps(run="umount {value!q}"), "/mnt/a\nb", ["look"]),
        (Steps(run="umount {value!q}"), "/mnt/a; rm -r /", ["run"]),
        (Steps(run="umount {value!q}"), "/mnt/{run}", ["run"]),
        (Steps(run="umount {value}"), "/mnt/'a", ["look"]),
    ],
)
def test_what_a_node_or_a_user_says_makes_no_step(template: Steps, value: str, steps: list[str]) -> None:
    made = hint_of(template.filled({"value": value}), ["c2"])
    assert [step.do for step in made.actions] == steps
    assert "rm -r /" not in [part for step in made.actions for part in shlex.split(step.command)]
    assert all(not step.command.endswith("; rm -r /") for step in made.actions)
