"""Files of the system, the kernel's settings, links: which lines differ, and the command that makes them alike."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.audit.baseline import Baseline, HowAsked
from envmgr.audit.checks import system_files
from tests.helpers.evidence import evidence, told

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
        f"warning c3: {LIMITS}: also has * hard memlock 64 | the same lines, as on c[1-2] | on the node: `sed -i -e 11d {LIMITS}`"
    ]


@pytest.mark.parametrize(
    "have",
    [
        ["a", "b", "c", "d"],
        ["b", "c"],
        ["a", "x y", "c"],
        ["x", "b"],
        ["a", "  b \\r", "c"],
        ["c", "a", "b"],
        ["a"],
        [],
    ],
)
def test_command_makes_the_lines_of_the_others(have: list[str], tmp_path: Path) -> None:
    file = tmp_path / "limits.conf"
    file.write_text("# first\n" + "".join(f"{line}\n# of {line}\n" for line in have))
    numbered = [f"{file}:{2 * n}:{line}" for n, line in enumerate(have, 1)]
    right = node(f"{file}:1:a", f"{file}:2:  b ", f"{file}:3:c")
    said = hint(right, right, node(*numbered))
    subprocess.run(said.split("`")[1], shell=True, check=True)
    assert [line for line in file.read_text().splitlines() if line[0] != "#"] == ["a", "  b ", "c"]


def test_where_nobody_is_right_or_too_much_differs_no_command_is_told() -> None:
    other = node(f"{LIMITS}:5:* soft nofile 1024", f"{LIMITS}:9:* hard nofile 65536")
    (line,) = findings(WELL, other)
    assert line.startswith(
        f"warning : {LIMITS}: * soft nofile 1024 on c2; * soft nofile 65536 on c1 | the same everywhere"
    )
    many, secret = node(*(f"{LIMITS}:{n}:line {n}" for n in range(1, 9))), node(f"{LIMITS}:1:password = ***")
    for right, odd in ((WELL, many), (secret, WELL)):
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
    zone = pair("/etc/localtime", "UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", zone="/usr/share/zoneinfo/Europe/Berlin")
    assert hint(*zone) == "on the node: `ln -sfn /usr/share/zoneinfo/Etc/UTC /etc/localtime`"
    mlx = node("driver mlx5_core:1:rdma_ucm", "driver mlx5_core:1:ib_uverbs")
    assert hint(mlx, mlx, node("driver mlx5_core:1:ib_uverbs")) == "on the node: `modprobe -a rdma_ucm`"
    assert findings(mlx, mlx, node(), node("locale -a:1:C.utf8")) == []  # another kernel, another network


def test_node_of_another_image_is_one_finding() -> None:
    right = node(*(f"/etc/pam.d/{name}:1:auth required" for name in "abcdefgh"), f"{LIMITS}:1:* soft core 0")
    image = node(*(f"/etc/pam.d/{name}:1:auth optional" for name in "abcdefgh"), f"{LIMITS}:1:* soft core 0")
    also = node(*(f"/etc/pam.d/{name}:1:auth required" for name in "abcdefgh"))
    one, other = findings(right, right, right, image, also)
    assert one.startswith("warning c4: files and settings of the system: 8 differ: /etc/pam.d/a, /etc/pam.d/b, ")
    assert other.startswith(f"warning c5: {LIMITS}: lacks * soft core 0")


def test_file_of_users_that_only_root_can_read_is_told_wherever_it_is() -> None:
    closed = node(closed="/etc/gitconfig")
    (line,) = findings(closed, closed, closed)
    assert line == (
        "warning c[1-3]: /etc/gitconfig: users cannot read it, root can | readable by all users | on the node: `chmod a+rX /etc/gitconfig`"
    )
