"""What users get and what differs, joined: on three like nodes, of which c2 is odd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from envmgr.audit.checks import get_check
from envmgr.audit.findings import AuditFinding, Loose
from envmgr.audit.inventory.differences import differences
from envmgr.audit.inventory.places import places_of
from envmgr.audit.judge import judge
from envmgr.audit.model import Check, Evidence
from envmgr.audit.second_look import SECRET, Seen, Wanted
from envmgr.audit.table import CheckTable
from envmgr.nodes.sets import fold
from envmgr.probe.model import CONTEXTS
from tests.helpers.evidence import evidence

NODES = ("c1", "c2", "c3")
FILE = "0123456789ab 644 root:root"
OTHER = "0123456789cd 644 root:root"
LOGIN = "ctx.bash-login.user."


def judged(
    odd: Mapping[str, str],
    *harms: Loose,
    usual: Mapping[str, str] | None = None,
    seen: Mapping[str, Mapping[str, str]] | None = None,
    nodes: tuple[str, ...] = NODES,
    later: tuple[Loose, ...] = (),
    files: tuple[str, ...] | None = None,
    login: Mapping[str, str] | None = None,
    silent: Mapping[str, str] | None = None,
) -> list[str]:
    """Each cause, `severity nodes: where: found | hint`, and behind each `>` what follows from it.

    `odd` are facts that c2 has instead of the `usual` ones of all nodes; `files` those of which the text is asked for, `login` what
    a login node has. Nodes of `silent` lack a fact.
    """
    looked = dict.fromkeys(("inventory.looked.node", "inventory.looked.login"), "yes")
    base = {**looked, f"{LOGIN}inventory.looked.context": "yes", **(usual or {})}
    answers = {node: {**base, **odd} if node == "c2" else base for node in nodes}
    answers |= {node: {key: base[key] for key in base if key != fact} for node, fact in (silent or {}).items()}
    answers |= {} if login is None else {"x1": base | login}
    asked = ((CONTEXTS[0], "user", "ssh"),)
    contexts = Check(judge=lambda _: harms, table=CheckTable(part="contexts"))
    loading = Check(judge=lambda _: later, table=CheckTable(part="loading"))

    def look_again(wanted: Wanted) -> Seen:
        assert not seen or {*seen} <= {*wanted.nodes, *wanted.normal}
        assert files in (None, wanted.files)
        return Seen(seen or {})

    checks = {"inventory": get_check("inventory"), "contexts": contexts, "loading": loading}
    made = judge(evidence(answers, asked=asked, login=frozenset({"x1"} & {*answers})), checks, look_again)
    return [
        " > ".join(
            [
                f"{f.severity} {f.nodes or f.between}: {f.where}: {f.found} | {f.hint}",
                *(c.found for c in f.consequences),
            ]
        )
        for f in made.findings
    ]


def head(told: list[str]) -> str:
    (text,) = told
    return text.partition(" | ")[0]


def harm(found: str, *nodes: str, check: str = "contexts", where: str = "bash-login (alice)") -> Loose:
    return Loose(AuditFinding(check, "error", where, found, nodes=fold(nodes or ("c2",))), "bash-login", "user")


def test_nodes_that_are_alike_have_nothing_to_tell() -> None:
    assert judged({}, usual={"inventory.file": rf"/etc/x\t{FILE}"}) == []


@pytest.mark.parametrize(
    ("usual", "odd", "text"),
    [
        (
            "/opt/a",
            "",
            "note c2: /opt/a: /opt/a is not there; 755 root:root on others | make it as on c1 > cannot run /opt/a/bin/x",
        ),
        ("/srv/z", "", "error c2: bash-login (alice): cannot run /opt/a/bin/x | "),  # no relation, no cause
    ],
)
def test_harm_is_explained_only_by_what_has_a_relation_to_it(usual: str, odd: str, text: str) -> None:
    found = judged(
        {"inventory.dir": odd}, harm("cannot run /opt/a/bin/x"), usual={"inventory.dir": rf"{usual}\t755 root:root"}
    )
    assert found[0] == text.replace("note", "error")
    assert len(found) == (1 if " > " in text else 2)


def test_symptom_is_no_cause_while_a_file_names_it() -> None:
    told = judged(
        {f"{LOGIN}inventory.env": r"FOO\tb", "inventory.file": rf"/etc/x\t{OTHER}"},
        harm("a program says: FOO is wrong"),
        usual={f"{LOGIN}inventory.env": r"FOO\ta", "inventory.file": rf"/etc/x\t{FILE}"},
        seen={"c1": {"second_look.text./etc/x": "export FOO=a"}, "c2": {"second_look.text./etc/x": "export FOO=b"}},
    )
    differs = "make it as on c1; what differs: `export FOO=b`; `export FOO=a`; `ssh c2 cat /etc/x | diff /etc/x -` on c1 shows it"
    assert told == [
        f"error c2: /etc/x: /etc/x is not as on others (and 1 difference that come with it) | {differs} > a program says: FOO is wrong"
    ]


def test_files_that_differ_in_comments_do_not_differ() -> None:
    usual, odd = {"inventory.file": rf"/etc/x\t{FILE}"}, {"inventory.file": rf"/etc/x\t{OTHER}"}
    for text, own, count in (("a\nb", "a\nb", 0), (SECRET, SECRET, 1), ("a\nb", "a\na\nb", 1), ("a\nb", "b\na", 1)):
        seen = {node: {"second_look.text./etc/x": of} for node, of in (("c1", text), ("c2", own))}
        assert len(judged(odd, usual=usual, seen=seen)) == count
    nothing = {node: {"second_look.text./etc/x": ""} for node in NODES}  # comments, and none
    assert judged({"inventory.file": r"/etc/x\te3b0c44298fc 644 root:root"}, usual=usual, seen=nothing) != []


@pytest.mark.parametrize("value", [FILE.replace("644", "640"), f"~{FILE}"], ids=["mode", "in a closed folder"])
def test_text_of_a_file_that_others_cannot_read_is_not_asked_for(value: str) -> None:
    (_told,) = judged(
        {"inventory.file": rf"/etc/x\t{OTHER}"}, usual={"inventory.file": rf"/etc/x\t{FILE}"}, files=("/etc/x",)
    )
    odd = value.replace("0123", "4567")
    assert judged({"inventory.file": rf"/etc/x\t{odd}"}, usual={"inventory.file": rf"/etc/x\t{value}"}, files=()) != []


def test_line_that_all_nodes_have_explains_what_all_have_and_no_difference_does() -> None:
    told = judged(
        {"inventory.file": rf"/etc/x\t{FILE}"},
        harm("LMOD_RC is /home/alice/rc.lua", *NODES),
        seen={"c1": {"second_look.bash-login.user": r"set\tLMOD_RC\t/home/alice/.bashrc:3"}},
    )
    assert told == [
        "error c[1-3]: bash-login (alice): LMOD_RC is /home/alice/rc.lua | /home/alice/.bashrc:3 does it: take that line away, unless it is intended",
        "note c2: /etc/x: /etc/x is there, and not on others | take it away, or give it to all",
    ]
    seen = {"c1": {"second_look.bash-login.user": r"set\t:echo\t/home/alice/.profile:9"}}
    note = replace(harm("hi", *NODES).finding, severity="note")
    (told,) = judged({}, replace(harm("hi"), finding=note, names=(":echo",)), usual={}, seen=seen)
    assert told.startswith("note c[1-3]: bash-login (alice): hi | /home/alice/.profile:9 does it")


def test_what_is_wrong_later_in_a_shell_follows_from_what_is_wrong_before() -> None:
    mount = {"inventory.mount": r"/usr/share/lmod\ttmpfs none rw"}
    later = harm("`module load hello/1.0` does nothing", check="loading", where="hello/1.0")
    told = judged(mount, harm("no /usr/share/lmod/lmod/init/bash"), later=(later,))
    assert [text.partition(": ")[0] for text in told] == ["error c2"]
    assert told[0].endswith("> no /usr/share/lmod/lmod/init/bash > `module load hello/1.0` does nothing")


def test_program_that_is_expected_below_a_mount_needs_its_options() -> None:
    bad = Loose(AuditFinding("software", "error", "x/1", "bin/x: cannot be executed", "/sw/store/bin/x", nodes="c2"))
    (on,) = judged({"inventory.mount": r"/sw\tnfs s:/x noexec,rw"}, bad, usual={"inventory.mount": r"/sw\tnfs s:/x rw"})
    assert on.endswith("`mount -o remount,bind,exec /sw` > bin/x: cannot be executed")


def test_what_a_folder_or_mount_hides_is_part_of_it() -> None:
    usual = {"inventory.dir": "\n".join(rf"/opt/{name}\t755 root:root" for name in "abcd")}
    (told,) = judged({"inventory.mount": r"/opt\ttmpfs none rw", "inventory.dir": ""}, usual=usual)
    assert "`umount -l /opt`" in told


def test_folders_on_the_way_to_what_is_named_are_looked_at() -> None:
    ways = r"/usr/share/lmod\t0 dir {} root:root"
    told = judged(
        {},
        harm("cannot read /usr/share/lmod/lmod/init/bash"),
        usual={"inventory.dir": ""},
        seen={"c2": {"second_look.ways": ways.format(700)}},
    )
    assert told[0].startswith("error c2: bash-login")  # nobody is there to compare it with
    told = judged(
        {f"{LOGIN}inventory.env": r"A\tb"},
        harm("cannot read /usr/share/lmod/lmod/init/bash"),
        usual={f"{LOGIN}inventory.env": r"A\ta"},
        seen={"c1": {"second_look.ways": ways.format(755)}, "c2": {"second_look.ways": ways.format(700)}},
    )
    assert told[0].startswith("error c2: /usr/share/lmod: /usr/share/lmod is 700 root:root; 755 root:root on others")


def test_two_that_differ_accuse_nobody() -> None:
    told = judged({"inventory.sysctl": r"vm.x\t1"}, usual={"inventory.sysctl": r"vm.x\t2"}, nodes=NODES[:2])
    assert head(told) == "note c[1-2]: sysctl vm.x: vm.x differs: 2 on c1, 1 on c2"


HOME = {"inventory.account": r"alice\t3:3 /home/alice /bin/bash"}


def test_what_a_file_no_longer_sets_follows_from_what_became_of_the_file() -> None:
    mount = {"inventory.mount": r"/home\ttmpfs none rw", f"{LOGIN}inventory.env": ""}
    place = {"second_look.bash-login.user": r"set\tFOO\t/home/alice/.profile:3"}
    told = judged(
        {**mount, f"{LOGIN}inventory.home": ""},
        usual={f"{LOGIN}inventory.env": r"FOO\ta", f"{LOGIN}inventory.home": r"~/.profile\t~0123456789ab", **HOME},
        seen={"c1": place, "c2": {}},
    )
    assert told == [
        (
            "warning c2: /home: /home is tmpfs none rw here, and nothing is mounted there on others (and 2 differences that "
            "come with it) | on the node: `umount -l /home`, and out of /etc/fstab"
        )
    ]


def test_shell_of_a_user_needs_the_home_and_a_module_its_file() -> None:
    told = judged({"inventory.mount": r"/home\ttmpfs none rw"}, harm("it ends"), usual={"inventory.mount": "", **HOME})
    assert told[0].startswith("error c2: /home: ")
    files = r"/opt/m/gcc/13.1.lua\t{}"
    told = judged(
        {"inventory.modfile": files.format(1)},
        harm("gcc/13.1 cannot be loaded", where="gcc/13.1"),
        usual={"inventory.modfile": files.format(2)},
    )
    assert head(told) == "error c2: /opt/m/gcc/13.1.lua: the modulefile /opt/m/gcc/13.1.lua is not as on others"


def test_file_that_right_nodes_read_explains_a_shell_that_cannot_read_it_to_its_end() -> None:
    told = judged(
        {f"{LOGIN}inventory.env": "", "inventory.file": rf"/etc/x\t{OTHER}"},
        usual={f"{LOGIN}inventory.env": r"FOO\ta", "inventory.file": rf"/etc/x\t{FILE}"},
        seen={"c1": {"second_look.bash-login.user": r"read\t/etc/x"}, "c2": {"second_look.text./etc/x": "if"}},
    )
    assert head(told) == "note c2: /etc/x: /etc/x is not as on others (and 1 difference that come with it)"


def test_halves_that_a_file_of_one_explains_are_not_told_of_the_other() -> None:
    told = judged(
        {f"{LOGIN}inventory.env": r"FOO\tb", "inventory.file": rf"/etc/x\t{OTHER}"},
        usual={f"{LOGIN}inventory.env": r"FOO\ta", "inventory.file": rf"/etc/x\t{FILE}"},
        seen={"c2": {"second_look.bash-login.user": r"set\tFOO\t/etc/x:1"}},
        silent={"c3": f"{LOGIN}inventory.looked.context"},
    )
    assert [text.partition(" | ")[0] for text in told if " c3: " not in text] == [
        "note c2: /etc/x: /etc/x is not as on others (and 1 difference that come with it)"
    ]


def test_modulefiles_of_a_folder_that_a_shell_does_not_have_are_not_missing() -> None:
    usual = {
        "inventory.modfile": "/opt/m/\\tlooked at\n/opt/m/gcc/12.lua\\tx",
        "inventory.modpath": r"/a\tnot there: /opt/m/gcc/12.lua names it",
    }
    assert judged({"inventory.modfile": "", "inventory.modpath": ""}, usual=usual) == []
    assert len(judged({"inventory.modfile": r"/opt/m/\tlooked at"}, usual=usual)) == 1


def test_folder_of_a_file_that_a_shell_reads_explains_what_the_shell_lacks() -> None:
    told = judged(
        {f"{LOGIN}inventory.moddir": "", "inventory.dir": r"/etc/lmod\t700 root:root"},
        usual={f"{LOGIN}inventory.moddir": r"/opt/m\twritable", "inventory.dir": r"/etc/lmod\t755 root:root"},
        seen={"c1": {"second_look.bash-login.user": r"read\t/etc/lmod/.modulespath"}, "c2": {}},
    )
    assert head(told).startswith("error c2: /etc/lmod: /etc/lmod is 700 root:root; 755 root:root on others (and 1 ")


def test_what_harms_all_compute_nodes_is_wrong_though_a_login_node_alone_lacks_it() -> None:
    usual, seen = {"inventory.file": rf"/etc/x.sh\t{FILE}"}, {"second_look.bash-login.user": r"set\tZONE\t/etc/x.sh:1"}
    told = judged(
        usual, harm("ZONE is none", *NODES), usual=usual, login={"inventory.file": ""}, seen=dict.fromkeys(NODES, seen)
    )
    assert head(told) == "error c[1-3]: /etc/x.sh: /etc/x.sh is there, and not on others"


def test_half_that_is_harmed_is_wrong() -> None:
    (told,) = judged(
        {"inventory.mount": r"/dev/shm\ttmpfs shm ro"},
        harm("cannot write to /dev/shm/x"),
        usual={"inventory.mount": r"/dev/shm\ttmpfs shm rw"},
        nodes=NODES[:2],
    )
    assert told.startswith("error c2: /dev/shm: /dev/shm is tmpfs shm ro; tmpfs shm rw on others")


def test_what_has_another_name_is_one_cause_with_its_harm() -> None:
    (told,) = judged(
        {"inventory.modfile": r"/opt/m/gcc/12.9.lua\tx"},
        harm("needs gcc/12.2, which is not there"),
        usual={"inventory.modfile": r"/opt/m/gcc/12.2.lua\tx"},
    )
    assert told.startswith("error c2: /opt/m/gcc/12.2.lua: ")


SPOILT = {"site_modules.loads.hdf5/1": "yes", "site_modules.sets.hdf5/1": "LOADEDMODULES=gcc/12.2:hdf5/1"}


def _account(home: str) -> dict[str, str]:
    return {"inventory.account": rf"alice\t1:1 /home/{home}", f"{LOGIN}inventory.home": rf"~/.x\t{home}"}


@pytest.mark.parametrize(
    ("usual", "odd", "says"),
    [
        (
            {
                **_account("alice"),
                "inventory.dir": r"/opt/a\t755 alice:users",
                "inventory.file": rf"/etc/passwd\t{FILE}",
            },
            {
                **_account("none"),
                "inventory.dir": r"/opt/a\t755 2001:users",
                "inventory.file": rf"/etc/passwd\t{OTHER}",
            },
            "/etc/passwd: /etc/passwd is not as on others: logins go another way (and 3 differences that come with it)",
        ),
        (
            {"inventory.modfile": r"/m/gcc/12.2.lua\tx", **SPOILT},
            {"inventory.modfile": r"/m/gcc/12.2.lua\ty", "site_modules.failed.hdf5/1": "sh: 2: env: not found"},
            "/m/gcc/12.2.lua: the modulefile /m/gcc/12.2.lua is not as on others (and 1 difference that come with it)",
        ),
        (
            {"inventory.modfile": r"/m/gcc/12.2.lua\tx", "site_modules.loads.hdf5/1": "yes"},
            {"inventory.modfile": r"/m/gcc/12.9.lua\tx", "site_modules.failed.hdf5/1": 'unknown: "gcc/12.2"'},
            "/m/gcc/12.2.lua: the modulefile /m/gcc/12.2.lua is not there (and 2 differences that come with it)",
        ),
        (
            {"inventory.modfile": r"/m/gcc/13.1.lua\tx", "site_modules.loads.gcc/12.2": "yes"},
            {"inventory.modfile": r"/m/gcc/13.1.lua\ty", "site_modules.failed.gcc/12.2": "no words"},
            "/m/gcc/13.1.lua: the modulefile /m/gcc/13.1.lua is not as on others (and 1 difference that come with it)",
        ),
    ],
)
def test_difference_comes_with_what_it_needs(usual: Mapping[str, str], odd: Mapping[str, str], says: str) -> None:
    assert head(judged(odd, usual=usual)) == f"warning c2: {says}"


def test_login_node_that_has_no_room_is_told_so_though_it_has_no_like_node() -> None:
    told = judged({}, usual={}, nodes=NODES, login={"inventory.room": r"/home\tfull"})
    assert head(told) == "error x1: /home: /home is full; not there on others"


@pytest.mark.parametrize(
    ("kind", "usual", "odd", "hint"),
    [
        ("file", r"/dev/ptmx\t- 666 root:tty", r"/dev/ptmx\t- 600 root:tty", "chmod 666 /dev/ptmx"),
        (
            "mount",
            r"/dev/pts\tdevpts devpts rw,noexec mode=620,ptmxmode=666",
            r"/dev/pts\tdevpts devpts rw,noexec mode=620,ptmxmode=000",
            None,
        ),
        ("mount", r"/dev/pts\tdevpts devpts rw", "", None),
    ],
)
def test_shell_without_terminal_has_its_device_or_mount(kind: str, usual: str, odd: str, hint: str | None) -> None:
    words = "cannot be probed: exit status 1: script: failed to create pseudo-terminal: Permission denied"
    (told,) = judged({f"inventory.{kind}": odd}, harm(words), usual={f"inventory.{kind}": usual})
    assert told.startswith(f"error c2: {usual[: usual.index(chr(92))]}: ")
    assert hint is None or f"| on the node: `{hint}`" in told


def test_known_harm_of_a_login_node_is_one_though_others_may_differ_from_it() -> None:
    (told,) = judged(
        {}, usual={"inventory.account": r"alice ends\tnever"}, login={"inventory.account": r"alice ends\t1 is over"}
    )
    assert told.startswith("error x1: account alice ends: ")


def test_module_that_does_not_load_is_why_shells_do_not_load_it() -> None:
    shells = (harm(f"`module load hello/1.0` ends: {how}") for how in ("Lmod says no", "no such file"))
    (told,) = judged({}, *shells, later=(harm("hello/1.0 cannot be loaded: no", check="loading", where="hello/1.0"),))
    assert told.count(" > ") == 2


def test_many_differences_of_a_shell_that_nothing_explains_are_one_and_those_of_its_account() -> None:
    odd = {f"{LOGIN}inventory.env": "\n".join(rf"{name}\t1" for name in "ABCDE")}
    usual = {f"{LOGIN}inventory.env": "", "inventory.account": r"alice ends\tnever"}
    (told,) = judged(odd, usual=usual)
    assert told.startswith(
        "note c2: bash-login (user): A is 1; not there on others (and 4 differences that come with it)"
    )
    (told,) = judged(odd | {"inventory.account": r"alice ends\t1 is over"}, usual=usual)
    assert told.startswith(
        "error c2: account alice ends: the account of alice ends is 1 is over; never on others (and 5 "
    )


def test_folder_whose_digest_differs_is_looked_into() -> None:
    lines = (
        "/usr/lib/x/libacl.so.1.1\\t0 prog 644 root:root\n/usr/lib/x/libacl.so.1.1\\t0 prog {} root:root 9"  # two looks
    )
    told = judged(
        {"inventory.tree": r"/usr/lib/x\t1"},
        harm("cp: error while loading shared libraries: libacl.so.1: cannot open shared object file"),
        usual={"inventory.tree": r"/usr/lib/x\t2"},
        seen={"c1": {"second_look.ways": lines.format(644)}, "c2": {"second_look.ways": lines.format(600)}},
    )
    assert [text.partition(" > ")[0] for text in told] == [
        "error c2: /usr/lib/x/libacl.so.1.1: /usr/lib/x/libacl.so.1.1 has another mode | on the node: `chmod 644 /usr/lib/x/libacl.so.1.1`"
    ]


def test_node_alone_in_its_group_is_compared_with_the_majority_of_all_others() -> None:
    told = {node: rf"/etc/x\t{OTHER if node in ('c1', 'x1') else FILE}" for node in (*NODES, "x1")}
    of = evidence(
        {node: {"inventory.file": text, "inventory.looked.node": "yes"} for node, text in told.items()},
        groups={"thin": NODES, "fat": ("x1",)},
    )
    assert {node for each in differences(places_of(of), of) if each.known for node in each.nodes} == {"c1", "x1"}


def test_what_harms_all_that_have_it_is_wrong_though_most_nodes_have_it() -> None:
    usual, odd = {"inventory.dir": r"/opt/a\t700 root:root"}, {"inventory.dir": r"/opt/a\t755 root:root"}
    told = judged(odd, harm("cannot run /opt/a/bin/x", "c1", "c3"), usual=usual)
    assert told == [
        "error c[1,3]: /opt/a: /opt/a is 700 root:root; 755 root:root on others | on the node: `chmod 755 /opt/a` > cannot run /opt/a/bin/x"
    ]


def test_node_that_sshd_turns_away_tells_in_a_job_what_configures_it() -> None:
    def told(text: str, *nodes: str) -> Evidence:
        facts = {"inventory.file": text, "inventory.mount": rf"/tmp\t{nodes[0]}", "inventory.looked.node": "yes"}
        return evidence(dict.fromkeys(nodes, facts), missing=("c2",))

    key = "/etc/ssh/sshd_config"
    of = replace(told(rf"{key}\t{FILE}", "c1", "c3"), in_job=told(rf"{key}\t{OTHER}", "c2").fleet)
    first, *_ = judge(of, {name: get_check(name) for name in ("inventory", "nodes")}).findings
    assert (first.nodes, first.where, [each.found for each in first.consequences]) == (
        "c2",
        key,
        ["unreachable: no route"],
    )


def test_keys_of_the_user_let_it_in() -> None:
    over = {"inventory.mount": r"/home/alice/.ssh\ttmpfs none rw"}
    denied = Loose(AuditFinding("ssh", "error", "sshd", "it does not let alice in", nodes="c2"))
    of_alice = {"inventory.account": r"alice\t1000:1000 /home/alice /bin/bash"}
    (told,) = judged(of_alice | over, denied, usual=of_alice, login=of_alice | over)
    assert told.startswith("error c2,x1: /home/alice/.ssh: ")
    assert told.endswith("> it does not let alice in")


def test_two_login_nodes_may_have_other_daemons() -> None:
    told = {"login": r"slurmd\tdoes not run", "login2": r"slurmd\truns"}
    of = evidence(
        {node: {"inventory.daemon": text, "inventory.looked.node": "yes"} for node, text in told.items()},
        login=frozenset(told),
    )
    assert differences(places_of(of), of) == ()


def test_stage_of_a_login_shell_that_ends_follows_from_what_that_shell_reads() -> None:
    told = judged(
        {"inventory.file": rf"/etc/profile.d/a.sh\t{FILE}"},
        Loose(AuditFinding("contexts", "error", "ssh", "asking Lmod in a login shell: the shell ended", nodes="c2")),
        usual={"inventory.file": ""},
        seen={"c2": {"second_look.bash-login.user": r"read\t/etc/profile.d/a.sh"}},
    )
    assert [text.partition(": ")[0] for text in told] == ["error c2"]
    assert told[0].endswith("> asking Lmod in a login shell: the shell ended")


def test_file_that_a_shell_reads_on_this_node_alone_follows_from_the_lines_that_read_it() -> None:
    told = judged(
        {f"{LOGIN}inventory.env": r"FOO\ta", "inventory.file": rf"/etc/x\t{OTHER}"},
        usual={f"{LOGIN}inventory.env": "", "inventory.file": rf"/etc/x\t{FILE}"},
        seen={
            "c1": {"second_look.text./etc/x": "a"},
            "c2": {"second_look.text./etc/x": ". /etc/l.sh", "second_look.bash-login.user": r"set\tFOO\t/etc/l.sh:4"},
        },
    )
    assert head(told) == "note c2: /etc/x: /etc/x is not as on others (and 1 difference that come with it)"


def test_line_that_sets_it_on_healthy_nodes_too_explains_nothing() -> None:
    told = judged(
        {"inventory.pkg": "", "inventory.mount": r"/var/lib\ttmpfs tmpfs rw"},
        harm("PATH is /bin"),
        usual={"inventory.pkg": "x\\t1\ny\\t1", "inventory.mount": ""},
        seen={key: {"second_look.bash-login.user": "read\\t/x.sh\nset\\tPATH\\t/x.sh:9"} for key in NODES[:2]},
    )
    assert told[0].startswith("error c2: bash-login (alice): PATH is /bin | ")
    assert ("x.sh" in told[0], [text.split(": ")[1] for text in told[1:]]) == (False, ["/var/lib"])


def test_folder_below_the_root_holds_what_is_named_and_what_variables_name() -> None:
    folders = {"inventory.dir": r"/tmp\t1777 root:root", f"{LOGIN}inventory.folder": r"TMPDIR\t/tmp writable"}
    closed = {"inventory.dir": r"/tmp\t750 root:root", f"{LOGIN}inventory.folder": r"TMPDIR\t/tmp closed"}
    told = judged(closed, harm("/tmp/x/context.sh: Permission denied"), usual=folders)
    shells = (harm("no start: /tmp/x: Permission denied"), replace(harm("no start: 2"), context="csh"))
    assert len(judged(closed, *shells, usual=folders)) == 1
    assert told == [
        (
            "error c2: /tmp: /tmp is 750 root:root; 1777 root:root on others (and 1 difference that come with it) | "
            "on the node: `chmod 1777 /tmp` > /tmp/x/context.sh: Permission denied"
        )
    ]


def test_what_two_nodes_lack_is_compared_with_a_node_that_lacks_nothing() -> None:
    ways = r"/srv/x\t0 dir {} root:root"
    modes = {"c1": 755, "c2": 755, "c3": 700}
    told = judged(
        {},
        harm("cannot read /srv/x/y", "c2", "c3"),
        seen={node: {"second_look.ways": ways.format(mode)} for node, mode in modes.items()},
    )
    assert [text.partition(";")[0] for text in told if "/srv/x is" in text] == [
        "error c3: /srv/x: /srv/x is 700 root:root"
    ]
    assert [text.partition(": ")[0] for text in told] == ["error c3", "error c2"]


def test_file_of_node_setup_is_written_by_it_whatever_was_asked() -> None:
    told = judged(
        {},
        harm("cannot read /etc/envmgr/node/x.lua"),
        seen={"c1": {"second_look.ways": r"/etc/envmgr/node/x.lua\t0 file 644 root:root"}, "c2": {}},
    )
    assert told == [
        (
            "error c2: /etc/envmgr/node/x.lua: /etc/envmgr/node/x.lua is not as node-setup writes it | "
            "`envmgr node-setup --apply --nodes c2` > cannot read /etc/envmgr/node/x.lua"
        )
    ]


def test_where_every_node_is_odd_what_is_there_is_not_compared() -> None:
    told = judged(
        {},
        *(harm(f"{node} cannot read /srv/x", node) for node in NODES),
        seen={node: {"second_look.ways": r"/srv/x\t0 prog 644 root:root"} for node in NODES[1:]},
    )
    assert [text.partition(" | ")[0] for text in told] == [
        f"error {node}: bash-login (alice): {node} cannot read /srv/x" for node in NODES
    ]


def test_of_halves_those_are_wrong_which_changed_last() -> None:
    usual, odd = ({"inventory.file": f"/etc/x\\t{n} 644 root:root\n/etc/y\\t{n} 600 root:root"} for n in "12")
    ways = "/etc\\t5 dir 755 root:root\n/etc/x\\t{} file 644 root:root"
    seen = {node: {"second_look.ways": ways.format(at)} for node, at in (("c1", 9), ("c2", 7))}
    told = [text.split(" ")[1] for see in ({}, seen) for text in judged(odd, usual=usual, login=odd, seen=see)]
    assert told == ["c2,x1:"] * 2 + ["c[1,3]:"] * 2
    over = [{**of, "inventory.mount": rf"/etc\text4 a{more} rw"} for of, more in ((usual, ""), (odd, " rw + ext4 b"))]
    assert "c[1,3]:" not in {text.split(" ")[1] for text in judged(over[1], usual=over[0], login=over[1], seen=seen)}
    usual, odd = ({**of, f"{LOGIN}inventory.env": rf"LANG\t{n}"} for n, of in (("a", usual), ("b", odd)))
    jobs = {f"{LOGIN}inventory.env": "", f"{LOGIN}inventory.closed": "env"}  # which a login node has not
    assert {text.split(" ")[1] for text in judged(odd, usual=usual, login={**odd, **jobs}, seen=seen)} == {"c[1,3]:"}


def test_library_that_is_named_is_the_cause_where_nothing_differs() -> None:
    (told,) = judged({}, harm("libx.so.1: cannot", *NODES), usual={"inventory.lib": r"libx.so.1\t/lib/libx.so.1"})
    assert told.endswith("| nothing that differs explains it: is /lib/libx.so.1 there, and does it work?")


def test_login_node_counts_where_shells_start_and_modules_lead() -> None:
    usual, odd = (
        {"inventory.prog": rf"/opt/a/bin/x\t755 a:a {n}", "inventory.file": rf"/etc/csh.x\t{n}"} for n in "12"
    )
    note = Loose(AuditFinding("contexts", "note", "bash", "/etc/csh.x prints", nodes="x1"), names=("/etc/csh.x",))
    told = judged({}, note, usual=usual | {"site_modules.sets.a/1": "PATH=/opt/a/bin:/bin"}, nodes=NODES, login=odd)
    assert [text.split(":")[0] for text in told] == ["warning x1"] * 2


def test_thousands_of_differences_have_their_cause() -> None:
    files = "\n".join(rf"/etc/x/{number}\t{number}" for number in range(3000))  # pairs of them would take minutes
    told = judged(
        {"inventory.mount": r"/etc/x\text4 /dev/b rw", "inventory.file": files}, usual={"inventory.mount": ""}
    )
    assert "(and 3000 differences that come with it)" in head(told)


def test_modulefile_of_two_names_is_one_cause() -> None:
    usual, odd = ({"inventory.modfile": rf"/m/a/1.lua\t{n}", "inventory.file": rf"/o/a/1.lua\t{n}"} for n in "12")
    told = judged(odd, usual=usual, seen={"c2": {"second_look.leads": r"/m/a/1.lua\t/o/a/1.lua"}})
    assert head(told).startswith("warning c2: /m/a/1.lua: the modulefile /m/a/1.lua is not as on others (and 1")
