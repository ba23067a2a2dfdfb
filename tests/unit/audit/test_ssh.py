"""What the check of ssh says of nodes: whom sshd lets in, and whose keys are known."""

from __future__ import annotations

import pytest

from envmgr.audit.checks import ssh
from tests.helpers.evidence import evidence, told

LOOKED = {
    "ssh.looked.node": "yes",
    "ssh.sshd": "acceptenv LANG\nmaxsessions 10\nusepam yes",
    "ssh.groups": "alice users",
    "ssh.known": "a" * 64,
    "ssh.lacks": "",
    "ssh.config": "/etc/ssh/ssh_config 0a1b",
}
WHEEL = LOOKED | {
    "ssh.sshd": f"{LOOKED['ssh.sshd']}\nallowgroups root\nallowgroups wheel",
    "ssh.places": "AllowGroups /etc/ssh/sshd_config:13",
}
RELOAD = "then `systemctl reload sshd` (`ssh` on Debian)"


def findings(*answers: dict[str, str], **more: object) -> list[str]:
    return told(ssh, evidence({f"c{n}": facts for n, facts in enumerate(answers, 1)}, **more))  # type: ignore[arg-type]


def test_sshd_that_lets_users_in_on_the_other_nodes_alone() -> None:
    assert findings(LOOKED, WHEEL, LOOKED) == [
        (
            "error c2: sshd: it does not let alice in: AllowGroups root wheel | alice can log in, as on c[1,3] | "
            f"/etc/ssh/sshd_config:13 keeps users out: take that line away, or name one of the user's groups there; {RELOAD}"
        )
    ]


def test_site_that_lets_users_in_nowhere_or_on_login_nodes_alone_is_not_accused() -> None:
    assert findings(WHEEL, WHEEL, WHEEL) == []
    given = evidence(
        {"c1": WHEEL, "c2": WHEEL, "c3": WHEEL, "login": LOOKED | {"ssh.known": "none"}}, login=frozenset({"login"})
    )
    assert told(ssh, given) == []


def test_other_settings_of_a_session_are_compared() -> None:
    other = LOOKED | {"ssh.sshd": "acceptenv LANG\nmaxsessions 1\nusepam yes"}
    assert findings(LOOKED, other, LOOKED) == [
        (
            "warning c2: sshd: maxsessions 1 | maxsessions 10, as on c[1,3] | "
            f"the same /etc/ssh/sshd_config, and files in sshd_config.d, {RELOAD}"
        )
    ]


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        ("", ""),
        ("allowusers bob", "AllowUsers bob"),
        ("allowusers al?ce", ""),
        ("allowusers *\nallowusers !alice", "AllowUsers * !alice"),
        ("allowusers alice@10.0.0.*", ""),
        ("denyusers alice@10.0.0.*", ""),
        ("denyusers ali*", "DenyUsers ali*"),
        ("allowgroups wheel\nallowgroups user?", ""),
        ("allowgroups wheel", "AllowGroups wheel"),
        ("denygroups users", "DenyGroups users"),
        ("denygroups wheel", ""),
        ("allowusers alice\nallowgroups wheel", "AllowGroups wheel"),
    ],
)
def test_rule_that_keeps_a_user_out(rules: str, rule: str) -> None:
    assert ssh.refused({"ssh.sshd": rules, "ssh.groups": "alice users"}, "alice") == rule


def test_groups_that_are_not_known_keep_nobody_out() -> None:
    assert ssh.refused({"ssh.sshd": "allowgroups wheel"}, "alice") == ""


def test_key_of_another_node_that_one_node_lacks() -> None:
    lacks = LOOKED | {"ssh.known": "b" * 64, "ssh.lacks": "c3"}
    file = "/etc/ssh/ssh_known_hosts"
    assert findings(lacks, LOOKED, LOOKED) == [
        (
            f"warning c1: {file}: has no key of c3: ssh from there ends in `Host key verification failed` | the keys of all nodes, as on c[2-3] | "
            f"`scp -3p c2:{file} c1:{file}`, once it is clear that c2 has what is right"
        )
    ]
    both = findings(lacks, lacks, LOOKED, LOOKED, LOOKED)[0]
    assert f"`scp -3p c3:{file} c1:{file} && scp -3p c3:{file} c2:{file}`, once it is clear that c3 has what" in both
    assert findings(lacks, LOOKED, LOOKED, groups={"a": ("c1",), "b": ("c2", "c3")}) == []
    (line,) = findings({**LOOKED, "ssh.known": "none"}, LOOKED, LOOKED)
    assert line.startswith(f"warning c1: {file}: is not there: ")
    (line,) = findings(lacks, LOOKED)  # of two nobody knows who is right
    assert line.startswith(
        f"warning : {file}: content aaaaaaaaaaaa on c2; content bbbbbbbbbbbb on c1 | the same everywhere"
    )


def test_settings_of_ssh_that_differ_are_told_with_their_files() -> None:
    other = LOOKED | {"ssh.config": "/etc/ssh/ssh_config 0a1b\n/etc/ssh/ssh_config.d/proxy.conf 77"}
    (line,) = findings(LOOKED, LOOKED, other)
    assert line.startswith(
        "warning c3: /etc/ssh/ssh_config: other content: /etc/ssh/ssh_config.d/proxy.conf | the same, as on c[1-2]"
    )
