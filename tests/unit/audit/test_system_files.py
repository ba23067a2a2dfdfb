"""Files of the system, the kernel's settings, links: which lines differ, and the command that makes them alike."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.audit.baseline import Baseline, HowAsked
from envmgr.audit.checks import system_files
from envmgr.probe import shell as probe
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import as_check, audit_plan, evidence, site, told

LIMITS = "/etc/security/limits.conf"


def node(
    *lines: str, system: str = "debian 12", zone: str = "/usr/share/zoneinfo/Etc/UTC", **more: str
) -> dict[str, str]:
    said = {"lines": "\n".join(lines), "os": system, "zone": zone, **more}
    return {"system_files.looked.node": "yes", **{f"system_files.{key}": text for key, text in said.items() if text}}


def findings(*answers: dict[str, str]) -> list[str]:
    return told(system_files, evidence({f"c{n}": facts for n, facts in enumerate(answers, 1)}))


def hint(*answers: dict[str, str]) -> str:
    (line,) = findings(*answers)
    return line.rpartition(" | ")[2]


WELL = node(f"{LIMITS}:5:* soft nofile 65536", f"{LIMITS}:9:* hard nofile 65536")


def test_comments_and_other_systems_make_no_difference() -> None:
    commented = node(f"{LIMITS}:50:* soft nofile 65536", f"{LIMITS}:90:* hard nofile 65536")
    assert findings(WELL, WELL, commented) == []
    assert findings(WELL, WELL, WELL, node(system="rocky 9")) == []


def test_lines_that_differ_are_told_with_the_command_that_changes_just_them() -> None:
    more = node(f"{LIMITS}:5:* soft nofile 65536", f"{LIMITS}:9:* hard nofile 65536", f"{LIMITS}:11:* hard memlock 64")
    assert findings(WELL, WELL, more) == [
        f"warning c3: {LIMITS}: also has * hard memlock 64 | the same lines, as on c[1-2] | on the node: `sed -i --follow-symlinks -e '/^\\* hard memlock 64[[:space:]]*$/d' {LIMITS}`"
    ]


@pytest.mark.parametrize(
    "have",
    [
        ["a", "b", "c", "d"],
        ["b", "c"],
        ["a", "x y", "c"],
        ["x", "b"],
        ["a", "  b \\r", "c"],
        ["a"],
        ["a*", "b", "c"],
        ["[a]", "a", "b", "c", "^d/$"],
        [],
    ],
)
def test_command_makes_the_lines_of_the_others(have: list[str], tmp_path: Path) -> None:
    file, real = tmp_path / "limits.conf", tmp_path / "real.conf"
    file.symlink_to("real.conf")
    real.write_text("# first\n" + "".join(f"{line}\n# of {line}\n" for line in have).replace("\\r", "\r"))
    numbered = [f"{file}:{2 * n}:{line}" for n, line in enumerate(have, 1)]
    right = node(f"{file}:1:a", f"{file}:2:  b ", f"{file}:3:c")
    said = hint(right, right, node(*numbered))
    for _ in range(2):
        subprocess.run(said.split("`")[1], shell=True, check=True)
        assert [line for line in real.read_text().splitlines() if line[0] != "#"] == ["a", "  b ", "c"]
        assert file.is_symlink()


def test_where_nobody_is_right_or_too_much_differs_no_command_is_told() -> None:
    other = node(f"{LIMITS}:5:* soft nofile 1024", f"{LIMITS}:9:* hard nofile 65536")
    (line,) = findings(WELL, other)
    assert line.startswith(
        f"warning : {LIMITS}: * soft nofile 1024 on c2; * soft nofile 65536 on c1 | the same everywhere"
    )
    many, secret = node(*(f"{LIMITS}:{n}:line {n}" for n in range(1, 9))), node(f"{LIMITS}:1:password = ***")
    twice = node(f"{LIMITS}:1:a", f"{LIMITS}:2:b", f"{LIMITS}:3:a")  # a line by its text is two lines
    moved, once = node(f"{LIMITS}:1:b", f"{LIMITS}:2:a"), node(f"{LIMITS}:1:a", f"{LIMITS}:2:b")
    for right, odd in ((WELL, many), (secret, WELL), (once, twice), (once, moved)):
        assert hint(right, right, odd).startswith("which is right, and who changed it? ")
    known = Baseline(Path("b"), HowAsked(nodes="c[1-3]", user="alice", shells=(), checks=("system-files",)), {})
    given = evidence({"c1": WELL, "c2": WELL, "c3": other}, baseline=known)
    assert not [line for line in told(system_files, given) if "sed" in line]


def test_settings_links_and_zones_have_commands_of_their_own() -> None:
    def pair(name: str, right: str, wrong: str, **more: str) -> tuple[dict[str, str], ...]:
        return node(f"{name}:1:{right}"), node(f"{name}:1:{right}"), node(f"{name}:1:{wrong}", **more)

    assert hint(*pair("/proc/sys/vm/overcommit_memory", "0", "2")).startswith(
        "on the node: `echo 0 >/proc/sys/vm/overcommit_memory`"
    )
    assert "`grep -rsn pid_max " in hint(*pair("/proc/sys/kernel/pid_max", "enough", "4096"))
    assert (
        hint(*pair("/etc/alternatives/awk", "/usr/bin/mawk", "/usr/bin/gawk"))
        == "on the node: `update-alternatives --set awk /usr/bin/mawk`"
    )
    berlin, zone = "CET-1CEST,M3.5.0,M10.5.0/3", "/usr/share/zoneinfo/Europe/Berlin"
    assert hint(*pair("/etc/localtime", "UTC0", berlin, zone=zone)) == (
        "on the node: `ln -sfn /usr/share/zoneinfo/Etc/UTC /etc/localtime`"
    )
    copy = node("/etc/localtime:1:UTC0", zone="/etc/localtime")  # a link to itself would be none
    assert hint(copy, copy, node(f"/etc/localtime:1:{berlin}", zone=zone)) == "`timedatectl set-timezone ZONE`"
    assert hint(*pair("/etc/pki/tls/certs/ca-bundle.crt", "1", "2")).endswith("then `update-ca-trust` on the node")


def test_modules_of_a_driver_that_is_loaded() -> None:
    mlx = node("driver ib_core:1:ib_core", "driver ib_core:1:rdma_ucm", "driver ib_core:1:ib_uverbs")
    without = node("driver ib_core:1:ib_core", "driver ib_core:1:ib_uverbs")
    assert hint(mlx, mlx, without) == "on the node: `modprobe -a rdma_ucm`"
    peer = node("driver nvidia:1:nvidia", "driver nvidia:1:nvidia_peermem")
    assert hint(peer, node("driver nvidia:1:nvidia"), peer) == "on the node: `modprobe -a nvidia_peermem`"
    assert findings(mlx, mlx, node(), node("locale -a:1:C.utf8")) == []  # another kernel, another network


def test_pam_and_files_of_which_parts_are_told_have_no_command() -> None:
    for name, line in {
        "/etc/pam.d/sshd": "session required pam_limits.so",
        "/etc/ssl/openssl.cnf": "[d] A = b",
    }.items():
        (said,) = findings(node(f"{name}:4:{line}"), node(f"{name}:4:{line}"), node())
        assert said.startswith(f"warning c3: {name}: lacks {line} | ")
        assert "sed" not in said
        assert "printf" not in said


def test_file_with_two_names_is_told_once() -> None:
    names = ("/etc/R/Rprofile.site", "/usr/lib/R/etc/Rprofile.site")
    odd = node(*(f"{name}:16:q()" for name in names), same=f"{names[1]} {names[0]}")
    (line,) = findings(node(), node(), odd)
    assert line.startswith(f"warning c3: {names[0]}: also has q()")
    copied = node(*(f"{name}:16:q()" for name in names))
    assert len(findings(node(), node(), copied)) == 2


def test_node_of_another_image_is_one_finding() -> None:
    right = node(*(f"/etc/pam.d/{name}:1:auth required" for name in "abcdefgh"), f"{LIMITS}:1:* soft core 0")
    image = node(*(f"/etc/pam.d/{name}:1:auth optional" for name in "abcdefgh"), f"{LIMITS}:1:* soft core 0")
    also = node(*(f"/etc/pam.d/{name}:1:auth required" for name in "abcdefgh"))
    one, other = findings(right, right, right, image, also)
    assert one.startswith("warning c4: files and settings of the system: 8 differ: /etc/pam.d/a, /etc/pam.d/b, ")
    assert other.startswith(f"warning c5: {LIMITS}: lacks * soft core 0")


def test_file_that_users_cannot_read_is_told_where_like_nodes_open_it_and_only_its_owner_opens_it() -> None:
    closed = node(closed="/etc/pip.conf")  # with a token
    assert findings(closed, closed, closed) == []
    (line,) = findings(node(), node(), closed)
    assert line.startswith("warning c3: /etc/pip.conf: users cannot read it, root can | ")
    assert "chmod" not in line
    assert "is for the owner to say" in line
    system = node(closed="/etc/ssl/openssl.cnf")
    (line,) = findings(system, system, system)
    assert line.endswith("readable by all users | on the node: `chmod a+rX /etc/ssl/openssl.cnf`")


def test_what_a_node_says_of_its_files(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    for file, text in {
        "pam.d/common-password": "# ours\npassword [success=1] pam_unix.so new_authtok_reqd=done\n",
        "pip.conf": "[global]\npassword = x\nindex-url = https://me:x@there/simple\n",
        "ssl/openssl.cnf": "a = b\n[ d ]\nMinProtocol = TLSv1.2 # old\n",
        "conda/condarc": "x: y\n",
        "R/Rprofile.site": "q()\n",
    }.items():
        (etc / file).parent.mkdir(parents=True, exist_ok=True)
        (etc / file).write_text(text)
    (etc / "R/Other.site").symlink_to("Rprofile.site")
    library = script_text(probe.__file__ or "", "library.sh")
    text = as_check(system_files).probe(audit_plan(site()))["node"].replace("/etc/", f"{etc}/")
    stage = tmp_path / "stage.sh"
    stage.write_text(f'mark=\nroom=/tmp\njob=\nuser=nobody\n{library}as() {{ shift; "$@"; }}\n{text}')
    done = subprocess.run(["/bin/sh", stage], capture_output=True, text=True, check=True)
    said = read_lines(line.replace(f"{etc}/", "/etc/") for line in done.stdout.splitlines())
    lines = said["system_files.lines"].splitlines()
    for line in (
        "/etc/pam.d/common-password:2:password [success=1] pam_unix.so new_authtok_reqd=done",
        "/etc/pip.conf:2:password =***",
        "/etc/pip.conf:3:index-url = https://***@there/simple",
        "/etc/ssl/openssl.cnf:1:a = b",
        "/etc/ssl/openssl.cnf:3:[d] MinProtocol = TLSv1.2 # old",
    ):
        assert line in lines
    assert said["system_files.same"] == "/etc/R/Rprofile.site /etc/R/Other.site"
