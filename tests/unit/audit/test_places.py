"""Room for temporary files, the folder in which a shell ends up, packages in the home: what real shells tell, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.audit.checks import contexts, places, shell_state, user_files
from tests.helpers.context_shell import context_facts
from tests.helpers.evidence import audit_plan, evidence, site, told
from tests.helpers.lmod_evidence import LOGIN

KEY = "ctx.bash-login.user."
ASKED = ((LOGIN, "user", "ssh"),)


def lines(check: object, *answers: dict[str, str]) -> list[str]:
    nodes = {f"c{n}": {f"{KEY}{k}": v for k, v in facts.items()} for n, facts in enumerate(answers, 1)}
    return [line.split(" | ")[0] for line in told(check, evidence(nodes, asked=ASKED))]  # type: ignore[arg-type]


def test_login_shell_tells_that_there_is_room_and_leaves_nothing(tmp_path: Path) -> None:
    login = context_facts(places, "bash", "shopt() { :; }", TMPDIR=str(tmp_path))
    assert "places.full" not in login
    assert list(tmp_path.iterdir()) == []


def test_full_folder_is_told_with_the_systems_words(tmp_path: Path) -> None:
    full = "mktemp() { echo /dev/full; }; shopt() { :; }; chmod() { :; }; rm() { :; }"
    assert context_facts(places, "bash", full, TMPDIR=str(tmp_path))["places.full"].endswith("No space left on device")
    (line,) = lines(places, {"places.full": "context.sh: line 3: printf: write error: No space left on device"})
    assert line.endswith("alice cannot write into the folder for temporary files: No space left on device")


def test_noexec_is_told_of_a_node_that_is_unlike_the_others() -> None:
    runs, not_there = {"places.home_is": "1 nfs"}, {"places.noexec.TMPDIR": "/local"}
    (line,) = lines(places, runs, not_there, runs)
    assert line == "warning c2: bash-login (alice): programs in TMPDIR do not start: /local is mounted noexec"
    assert lines(places, not_there, not_there, not_there) == []  # as some sites want it


def test_home_that_one_node_has_mounted_noexec_is_told() -> None:
    well, sick = {"places.home_is": "1 nfs"}, {"places.noexec.HOME": "/home", "places.noexec.WORK": "/home"}
    given = evidence(
        {f"c{n}": {f"{KEY}{k}": v for k, v in (sick if n == 3 else well).items()} for n in (1, 2, 3)}, asked=ASKED
    )
    assert told(places, given) == [
        (
            "warning c3: bash-login (alice): programs in HOME, WORK do not start: /home is mounted noexec | programs that start, as on c[1-2] | "
            "on the node: `mount -o remount,exec /home`, and its line in /etc/fstab"
        )
    ]
    assert lines(places, well, sick) == []  # of two, nobody can tell
    (note,) = lines(places, sick, sick, sick)
    assert note == "note c[1-3]: bash-login (alice): programs in HOME do not start: /home is mounted noexec"
    shm = {"places.noexec./dev/shm": "/dev/shm"}
    assert lines(places, shm, shm, shm) == []


def test_file_for_sh_is_told_where_it_is_gone(tmp_path: Path) -> None:
    assert "places.file.ENV" not in context_facts(places, "dash", ENV="/etc/passwd")
    assert context_facts(places, "dash", ENV=str(tmp_path / "gone"))["places.file.ENV"] == str(tmp_path / "gone")


def test_real_mounts_that_are_noexec_are_told(tmp_path: Path) -> None:
    login = "shopt() { :; }"
    assert "places.noexec.HOME" not in context_facts(places, "bash", login, HOME=str(tmp_path))
    facts = context_facts(places, "bash", login, HOME="/proc", WORK="/proc/sys", SCRATCH="/nowhere/x")
    points = mounted_noexec()
    assert facts.get("places.noexec.HOME") == ("/proc" if "/proc" in points else None)
    assert "places.noexec.SCRATCH" not in facts
    assert "places.noexec.HOME" not in context_facts(places, "bash", HOME="/proc")  # once a node, in a login shell


def mounted_noexec() -> set[str]:
    rows = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return {row[4] for row in rows if "noexec" in row[5].split(",")}


def test_start_up_file_that_goes_elsewhere() -> None:
    assert context_facts(shell_state, "bash", "cd /usr")["shell_state.folder"] == "/usr"
    (line,) = lines(shell_state, {"shell_state.reader": "bash", "shell_state.folder": "/home/alice/project"})
    assert line.startswith("warning c1: bash-login (alice): a start-up file goes to /home/alice/project")


def test_file_that_a_shell_reads_at_its_end_writes_nothing_into_the_home(tmp_path: Path) -> None:
    (tmp_path / ".bash_logout").write_text("date >>~/left\nrm -rf ~/work\nexit 0\n")
    (tmp_path / "work").mkdir()
    before = {path.name: path.lstat().st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())}
    facts = context_facts(shell_state, "bash", "shopt() { :; }", HOME=str(tmp_path))
    assert facts["shell_state.ends"] == f"0 {tmp_path}/.bash_logout:3"
    assert {path.name: path.lstat().st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())} == before


def test_shell_that_one_node_lacks() -> None:
    there = {"modulepath": "", "module": "yes"}
    asked = lines(contexts, there, {"end": "absent"}, there)
    assert any("is not there" in line and line.startswith("warning c2: ") for line in asked)
    assert not any("is not there" in line for line in lines(contexts, {"end": "absent"}, {"end": "absent"}))
    assert not any("is not there" in line for line in lines(contexts, {"end": "absent"}, {"end": "absent"}, there))


@pytest.mark.parametrize("seen", [False, True])
def test_packages_in_the_home_are_told_where_the_site_lets_python_see_them(tmp_path: Path, seen: bool) -> None:
    (tmp_path / ".local/lib/python3.11/site-packages/numpy-1.26.4.dist-info").mkdir(parents=True)
    plan = audit_plan(site(policies={"user_site": seen}))
    facts = context_facts(user_files, "bash", "shopt() { :; }", plan=plan, HOME=str(tmp_path))
    if not seen:
        assert "user_files" not in facts
        return
    assert facts["user_files"] == "pip ~/.local/lib/python3.11/site-packages|numpy"
    (line,) = lines(user_files, facts)
    assert line.startswith("warning c1: ~alice/.local/lib/python3.11/site-packages: packages of `pip install --user`")


def test_place_that_is_read_only_on_one_node() -> None:
    said = [{}, {"places.readonly": "/var /var /var/log /var/tmp"}, {}]
    assert node_lines(*said) == [
        (
            "error c2: /var: mounted read-only | a place that can be written | on the node: `mount -o remount,rw /var`; was it an error of "
            "the disk? `dmesg` tells, and `fsck` comes first then"
        )
    ]
    assert node_lines(*[{"places.readonly": "/ / /var /var/log"}] * 3) == []  # nodes without disks


def test_jobs_do_not_start_where_slurms_folder_is_read_only() -> None:
    (line,) = node_lines(*[{"places.readonly": "/ / /var SlurmdSpoolDir"}] * 2)
    assert line.startswith("error c[1-2]: /: mounted read-only: SlurmdSpoolDir lies there, and no job starts | ")


def node_lines(*answers: dict[str, str]) -> list[str]:
    looked = {f"c{n}": {"places.looked.node": "yes"} | facts for n, facts in enumerate(answers, 1)}
    return told(places, evidence(looked))
