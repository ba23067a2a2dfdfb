"""Whom sshd lets in, by a real ssh of the user: what nodes say, and who is accused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.audit.checks import ssh
from envmgr.probe import shell as probe
from envmgr.system.shelltext import assign, script_text
from tests.helpers.evidence import evidence, told

IN, OUT, NO_JOB = ({"ssh.user": said} for said in ("in", "Permission denied", "no job"))


def findings(*answers: dict[str, str], **more: object) -> list[str]:
    return told(ssh, evidence({f"c{n}": facts for n, facts in enumerate(answers, 1)}, **more))  # type: ignore[arg-type]


def test_sshd_that_lets_users_in_on_other_nodes_only() -> None:
    why = "as alice, `ssh -v` to the node; on the node, sshd's log (`journalctl -u ssh -u sshd`) says why"
    assert findings(IN, OUT, IN) == [
        f"error c2: sshd: it does not let alice in: Permission denied | alice can log in, as on c[1,3] | {why}"
    ]
    assert findings(IN, OUT)[0].startswith("error c2: sshd: it does not let alice in")
    assert findings(IN, OUT, OUT)[0].startswith("error c[2-3]: sshd: it does not let alice in")
    here = {"here": evidence({"x1": OUT}).fleet, "login": frozenset({"x1"})}
    assert findings(IN, NO_JOB, **here)[0].startswith("error x1: sshd: it does not let alice in")
    assert findings(NO_JOB, NO_JOB, **here) == findings(IN, IN, here=here["here"]) == []
    runs = {"ssh.runs": "/bin/sh module ran"}
    here |= {"here": evidence({"x1": {"ssh.runs": "/bin/sh "}}).fleet}
    assert findings(runs, runs, **here)[0].startswith("error x1: sshd: a command of alice over ssh does not run")


@pytest.mark.parametrize("answers", [(OUT, OUT, OUT), (IN, NO_JOB, IN), (IN, {}, IN)])
def test_site_that_lets_users_in_nowhere_or_where_they_have_a_job_is_right(answers: tuple[dict[str, str], ...]) -> None:
    assert findings(*answers) == []
    assert findings(*answers, IN, login=frozenset({f"c{len(answers) + 1}"})) == []


@pytest.mark.parametrize(
    ("said", "status", "fact"),
    [
        ("", 0, "in"),
        ("bash: line 1: exit", 3, "in"),
        ("Banner\nalice@c1: Permission denied (publickey).", 255, "Permission denied"),
        (
            "Access denied by pam_slurm_adopt: you have no active jobs on this node\nConnection closed by 10.0.0.1",
            255,
            "no job",
        ),
        ("Connection closed by 10.0.0.1 port 22", 255, "the connection was closed"),
        ("kex_exchange_identification: read: Connection reset by peer", 255, "the connection was closed"),
        ("ssh: connect to host c1 port 22: Connection refused", 255, "Connection refused"),
        ("ssh: Could not resolve hostname c1: Name or service not known", 255, None),
        ("Bad configuration option", 255, "ssh ends with status 255"),
    ],
)
def test_what_ssh_says_is_one_word_for_all_nodes(said: str, status: int, fact: str | None, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(said)
    stage = tmp_path / "stage.sh"
    (tmp_path / "who").write_text("nobody:x:65534:65534::/:/bin/zsh\n")
    given = assign(mark="", who=str(tmp_path / "who"), room=str(tmp_path), user="nobody", probe_uid="0", host_name="c1")
    as_ = f"as() {{ cat {tmp_path}/said >&2; return {status}; }}; id() {{ echo 0; }}\n"  # the ssh itself, by root
    library = script_text(probe.__file__, "library.sh")
    stage.write_text(f"{given}{library}{as_}{script_text(ssh.__file__, 'node.sh')}")
    done = subprocess.run(["/bin/sh", stage], capture_output=True, text=True, check=True)
    runs = "@ssh.runs=/bin/zsh \n" if fact == "in" else ""
    assert done.stdout == ("" if fact is None else f"{runs}@ssh.user={fact}\n")


def test_command_that_does_not_run_or_has_no_module() -> None:
    runs = ("/bin/bash ran module", "/bin/sh ran", "/bin/bash", "/bin/zsh ran module")
    well, bare, forced, other = ({**IN, "ssh.runs": each} for each in runs)
    lines = [each.split(";")[0].split("over ssh ")[1] for each in findings(bare, well, forced, other)]
    assert sorted(lines) == ["does not run", "has no `module`"]
    assert findings(bare, bare, bare)[0].startswith("warning c[1-3]: sshd: a command of alice over ssh has no `module`")
