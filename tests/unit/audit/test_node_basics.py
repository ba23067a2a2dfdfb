"""What lies below the modules on a node: devices, shared memory, the loopback interface, slurmd's cores, munge for users, the way to the prefix."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.audit.ask.ask_nodes import where_nothing_hangs, why_not
from envmgr.audit.checks import (
    all_checks,
    mount,
    munge,
    names,
    nodes,
    places,
    shell_state,
    site_modules,
    startup_files,
    user_files,
)
from envmgr.audit.model import Check
from envmgr.audit.plan import ExpectedInstall
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import Group
from tests.helpers.context_shell import context_facts
from tests.helpers.evidence import audit_plan, evidence, found, judgement, site, told
from tests.helpers.lmod_evidence import LOGIN

KEY = "ctx.bash-login.user."
LOOKED = {f"{name}.looked.node": "yes" for name in ("places", "names")}
HEALTHY = {"gate": "ok", "current": "generations/0001", **LOOKED}


def lines(check: Check, *answers: dict[str, str], own: dict[str, dict[str, str]] | None = None) -> list[str]:
    nodes = {f"c{n}": HEALTHY | facts for n, facts in enumerate(answers, 1)}
    given = evidence(nodes, own=own, asked=((LOGIN, "user", "ssh"),))
    return [line.split(" | ")[0] for line in told(check, given)]


@pytest.mark.parametrize(
    ("check", "facts", "line"),
    [
        (places, {"places.devices": "/dev/fd"}, "error c2: /dev/fd: is not there"),
        (places, {"places.proc": "not mounted"}, "error c2: /proc: not mounted"),
        (
            names,
            {"names.own": "", "names.loopback": "down"},
            "error c2: lo: the loopback interface is down: 127.0.0.1 does not answer",
        ),
        (
            mount,
            {"mount.user_stopped": "/cluster 750 root:root"},
            "error c2: /sw: alice cannot enter /cluster (mode 750, root:root)",
        ),
    ],
)
def test_fault_of_one_node(check: Check, facts: dict[str, str], line: str) -> None:
    assert line in lines(check, {}, facts, {})
    assert line not in lines(check, {}, {}, {})


def test_home_is_compared() -> None:
    shared, other = {f"{KEY}places.home_is": "131 nfs"}, {f"{KEY}places.home_is": "2 tmpfs"}
    (line,) = lines(places, shared, other, shared)
    assert line == "warning c2: bash-login (alice): the home of alice is another folder than on c[1,3] (tmpfs)"
    own = [{f"{KEY}places.home_is": f"{inode} ext2/ext3"} for inode in (1, 2, 3)]  # each node its own, as on desktops
    assert lines(places, *own) == []


def test_munge_that_users_cannot_reach() -> None:
    given = evidence(
        {"c1": {}, "c2": {"munge.user_failed": "Socket communication error"}}, asked_here={"munge": munge.Decoded({})}
    )
    (line,) = told(munge, given)
    assert line.startswith("error c2: munge: `munge -n` fails for alice, not for root: Socket communication error")


@pytest.mark.parametrize(
    ("sizes", "nodes"), [((8 << 20, 1024, 8 << 20), ["c2"]), ((8 << 20,) * 3, []), ((1024,), ["c1"])]
)
def test_shared_memory_that_is_small(sizes: tuple[int, ...], nodes: list[str]) -> None:
    own = {f"c{n}": {"places.shm_kib": str(size)} for n, size in enumerate(sizes, 1)}
    assert [line.split(":")[0].split()[1] for line in lines(places, *[{}] * len(sizes), own=own)] == nodes


@pytest.mark.parametrize(
    ("took", "slow"),
    [
        ((300, 6500, 280), ["c2"]),
        ((300, 3500, 280), []),
        ((9000, 8000, 9500), []),
        ((3000, 8000, 3000), []),
        ((10, 9000), []),
    ],
)
def test_shell_that_waits_is_told_by_what_the_others_need(took: tuple[int, ...], slow: list[str]) -> None:
    own = {f"c{n}": {f"{KEY}shell_state.waited": str(ms)} for n, ms in enumerate(took, 1)}
    facts = {f"{KEY}shell_state.reader": "bash"}
    assert [line.split(":")[0].split()[1] for line in lines(shell_state, *[facts] * len(took), own=own)] == slow


def test_start_up_file_that_has_signals_ignored() -> None:
    assert context_facts(shell_state, "bash", "trap '' 2 3 15")["shell_state.ignores"] == "TERM"
    for shell in ("bash", "dash", "zsh"):
        assert context_facts(shell_state, shell, "trap '' USR1 USR2 ALRM")["shell_state.ignores"] == "USR1 USR2 ALRM"
    assert "shell_state.ignores" not in context_facts(shell_state, "bash", "trap '' 2; trap : 15")


def test_login_shell_that_ends_otherwise_than_it_was_told() -> None:
    (line,) = lines(
        shell_state, {f"{KEY}shell_state.reader": "bash", f"{KEY}shell_state.ends": "0 /home/alice/.bash_logout:3"}
    )
    assert line.startswith("error c1: bash-login (alice): a login shell that ends by `exit 3` tells 0")


def test_keys_and_settings_of_pip_in_the_home(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir(mode=0o700)
    for name, mode in (("id_ed25519", 0o644), ("id_rsa", 0o600), ("id_rsa.pub", 0o644)):
        (tmp_path / ".ssh" / name).touch()
        (tmp_path / ".ssh" / name).chmod(mode)
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text("[global]\ntimeout = 60\n[install]\nuser = true\n")
    tmp_path.chmod(0o755)
    facts = context_facts(user_files, "bash", "shopt() { :; }", plan=audit_plan(site()), HOME=str(tmp_path))
    assert facts["user_files"].splitlines() == [
        "key ~/.ssh/id_ed25519|644",
        "pipconf ~/.config/pip/pip.conf|user = true",
    ]
    found = lines(user_files, {f"{KEY}user_files": facts["user_files"]})
    assert [line.partition(": ")[2].partition(":")[0] for line in found] == [
        "~alice/.ssh/id_ed25519",
        "~alice/.config/pip/pip.conf",
    ]


def test_files_that_only_sessions_over_ssh_read(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / ".ssh/rc").write_text("echo hello\n")
    (tmp_path / ".ssh/environment").write_text("# nothing\n")
    (tmp_path / ".pam_environment").write_text("# mine\nPATH DEFAULT=/opt/x/bin\nLANG=C\n")
    tmp_path.chmod(0o755)
    facts = context_facts(user_files, "bash", "shopt() { :; }", plan=audit_plan(site()), HOME=str(tmp_path))
    assert facts["user_files"].splitlines() == ["rc ~/.ssh/rc", "session ~/.pam_environment|LANG PATH"]
    rc, session = lines(user_files, {f"{KEY}user_files": facts["user_files"]})
    assert rc.startswith("note c1: ~alice/.ssh/rc: sshd runs it before each session")
    assert session.startswith("note c1: ~alice/.pam_environment: sets LANG, PATH in sessions over ssh")


def test_program_of_a_site_module_that_entries_have_too() -> None:
    facts = {"site_modules.loads.paraview/5": "yes", "site_modules.brings.paraview/5": "/opt/paraview/bin/python3"}
    install = ExpectedInstall("hello/1.0", "/sw/store/hello", "bin/python", "bin/python")
    given = evidence({"c1": facts})
    assert told(site_modules, given) == []  # no entry has one
    (line,) = told(site_modules, replace(given, plan=audit_plan(site(), installs=(install,))))
    assert line.startswith("note c1: paraview/5: brings /opt/paraview/bin/python3")


@pytest.mark.parametrize("text", ["", "x", "1.5", "²", "-"])
def test_number_that_is_none_ends_no_audit(text: str) -> None:
    numbers = (
        "gate_ms",
        "mount.read_ms",
        "places.shm_kib",
        f"{KEY}shell_state.waited",
        "space.free_kb",
        "began",
        "clock.later",
    )
    facts = HEALTHY | {"software.seen": text, "space.inodes": text}
    given = evidence(
        dict.fromkeys(("c1", "c2", "c3"), facts),
        own={"c1": dict.fromkeys(numbers, text)},
        asked=((LOGIN, "user", "ssh"),),
    )
    judgement(given, all_checks())


SITE = "/opt/site fuse.sshfs fs1:/export/site"
EMPTY = {f"{KEY}modulepath": "", f"{KEY}module": "no"}
SOUND = {
    f"{KEY}modulepath": "/sw/generations/0001/modules",
    f"{KEY}module": "yes",
    f"{KEY}contexts.looked.context": "yes",
}


def of_checks(facts: dict[str, str], *checks: str) -> list[str]:
    answers = {f"c{n}": HEALTHY | (facts if n == 2 else SOUND) for n in (1, 2, 3)}
    own = {node: {"host": node} for node in answers}
    given = evidence(answers, own=own, asked=((LOGIN, "user", "ssh"),))
    chosen = {name: check for name, check in all_checks().items() if name in checks}
    found = (f for f in judgement(given, chosen).findings if "c2" in f.nodes)
    return [f"{f.severity} {f.check} {f.nodes}: {f.where}: {f.found}" for f in found]


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"mount.hung": f"{SITE} /etc/lmod/modulespath", **EMPTY}, ", and /etc/lmod/modulespath names it"),
        ({"mount.hung": f"{SITE} ", f"{KEY}end": "no end in 187 s", "login.end": "no end in 187 s"}, ""),
    ],
)
def test_mount_that_hangs_shells_is_the_one_cause_that_is_told(facts: dict[str, str], named: str) -> None:
    assert of_checks(facts, "contexts", "mount", "nodes") == [
        f"error mount c2: /opt/site: does not answer (fuse.sshfs fs1:/export/site){named}: what touches it hangs"
    ]


def test_mount_that_hangs_and_that_no_shell_touches_hides_nothing() -> None:
    found = of_checks({"mount.hung": f"{SITE} ", **EMPTY}, "contexts", "mount", "nodes")
    assert "warning mount c2: /opt/site: does not answer (fuse.sshfs fs1:/export/site): what touches it hangs" in found
    assert "error contexts c2: bash-login (alice): no `module` command" in found


def test_no_job_is_sent_to_a_node_with_a_mount_that_hangs() -> None:
    clean = evidence({"c1": HEALTHY, "c2": HEALTHY | {"mount.hung": f"{SITE} "}}).fleet
    assert where_nothing_hangs(["c1", "c2"], clean) == frozenset({"c1"})
    assert where_nothing_hangs(["c1", "c2"], None) == frozenset({"c1", "c2"})
    reason = "no job was sent: /opt/site does not answer, and a job stuck on it would drain the node"
    assert f"no job was sent: {why_not('c2', clean)}" == reason
    lost = replace(
        clean,
        own={"c1": {"host": "c1"}},
        groups=(Group(HEALTHY, ("c1",)),),
        missing=(Reply("c2", "unreachable", "", reason, 0.0, 1.0),),
    )
    given = evidence({"c1": HEALTHY}, own={"c1": {"host": "c1"}})
    (line,) = told(nodes, replace(given, ways={"ssh": given.fleet, "slurm": lost}))
    assert line.startswith(
        f"note c2: Slurm (inherited environment): unreachable: {reason} | an answer | another finding says why"
    )


def test_device_is_made_beside_its_place_and_what_lies_over_it_is_taken_away(tmp_path: Path) -> None:
    given = found(nodes, evidence({"c1": {"probe": "/dev/null cannot be written"}, "c2": {}}))
    (command,) = [action.command for finding in given for action in finding.actions if action.do == "run"]
    over, _, made = command.partition("; ")
    assert over == "grep -q -w -F /dev/null /proc/self/mountinfo && umount /dev/null"
    device = tmp_path / "null"
    mknod = 'mknod() { [ "$*" = "-m 666 $3 c 1 3" ] && : >"$3"; }'
    subprocess.run(["/bin/sh", "-c", f"{mknod}; {made.replace('/dev/null', str(device))}"], check=True)
    assert [*tmp_path.iterdir()] == [device]


def test_programs_of_a_login_shell_are_compared_by_what_their_names_lead_to(tmp_path: Path) -> None:
    (tmp_path / "gcc-9").touch(mode=0o755)
    for name, target in {"gcc": "gcc-9", "g++": "/etc/alternatives/g++", "perl": "/bin/true"}.items():
        (tmp_path / name).symlink_to(target)
    seen = context_facts(startup_files, "bash", "shopt() { :; }; id() { echo 7; }", PATH=f"{tmp_path}:/usr/bin:/bin")
    lines = seen["startup_programs"].splitlines()
    assert f"gcc {tmp_path}/gcc {tmp_path}/gcc-9" in lines
    assert f"perl {tmp_path}/perl {Path('/bin/true').resolve()}" in lines
    assert not any(line.startswith(f"g++ {tmp_path}") for line in lines)

    key = "ctx.bash-login.user.startup_programs"
    usual, odd = (
        "git /usr/bin/git /usr/bin/git\npython3 /usr/bin/python3 /usr/bin/python3.11",
        "python3 /usr/bin/python3 /usr/bin/python3.8",
    )
    (line,) = told(
        startup_files,
        evidence({"c1": {key: usual}, "c2": {key: odd}, "c3": {key: usual}}, asked=((LOGIN, "user", "ssh"),)),
    )
    assert line.startswith(
        "warning c2: bash-login (alice): git is not there; python3 is /usr/bin/python3 -> /usr/bin/python3.8 | "
        "git is /usr/bin/git; python3 is /usr/bin/python3 -> /usr/bin/python3.11, as on c[1,3] | "
    )
    apart = {"asked": ((LOGIN, "user", "ssh"),), "groups": {"a": ("c1",), "b": ("c2", "c3")}}
    assert told(startup_files, evidence({"c1": {key: usual}, "c2": {key: odd}, "c3": {key: odd}}, **apart)) == []  # type: ignore[arg-type]
