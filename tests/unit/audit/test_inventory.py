"""The inventory: its shell text, run for real on this machine, and what is read from it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from envmgr.audit.inventory.facts import NodeInventory, read_inventory
from envmgr.audit.inventory.kinds import KINDS
from envmgr.probe.shell import read_answer
from tests.helpers.inventory_texts import changes, place, run

__all__ = ["place"]  # a fixture

SHELLS = {
    "bash": ["bash", "-c", '. "$0"'],
    "bash login": ["bash", "-l"],
    "dash": ["dash", "-c", '. "$0"'],
    "zsh": ["zsh", "-l", "-c", 'emulate sh; . "$0"'],
}
SECRET = "geheim\n"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def salted(text: str) -> str:
    return f"~{sha256('salt' + text + chr(10))[:12]}"


def node(folder: Path, before: str = ":", *argv: str, seconds: int = 200) -> str:
    """What this machine answers as a node, in a mount namespace with an /etc of its own in which `before` was done."""
    for path in [*folder.glob("node.sh.*"), *folder.glob("etc")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    map_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    steps = f'cp -a /etc {folder}/etc 2>/dev/null; mount --bind {folder}/etc /etc; {before}\nexec "$@"'
    own = (*map_root, "--mount", "--pid", "--fork", "--mount-proc")  # daemons of other tests are none of its own
    return run("node", folder, "unshare", *own, "sh", "-c", steps, "sh", *argv, "sh", seconds=seconds)


def shell(folder: Path, name: str, before: str = "") -> str:
    return run("context", folder, *SHELLS[name], before=before)


def read(answer: str, beginning: str = "") -> NodeInventory:
    facts, _, _ = read_answer(answer.replace("@inventory", f"@{beginning}inventory"))
    return read_inventory(facts, beginning, "shell" if beginning else "node")


def test_healthy_node_says_the_same_bytes_twice_and_what_differs_is_found(place: Path) -> None:
    healthy = node(place)
    assert node(place) == healthy
    whole = read(healthy)
    assert (whole.closed, whole.cut) == (frozenset(), frozenset())
    kinds = {"file", "link", "dir", "prog", "pkg", "mount", "room", "lib", "sysctl", "sys"}
    assert {kind for kind, _ in whole.values} >= kinds
    drift = """
        echo 'umask 000' >>/etc/profile; chmod 600 /etc/shells; ln -sfn nowhere /etc/motd-x; mkdir -m 700 /etc/apt/new
        mount -t tmpfs -o noexec,nr_inodes=4 tmpfs /media; : >/media/1; : >/media/2; : >/media/3
    """
    after = read(node(place, drift))
    found = changes(whole, after)
    assert found.pop(("file", "/etc/profile")) != (None, None)
    old, new = found.pop(("file", "/etc/shells"))
    assert KINDS["file"].told("/etc/shells", new, old, "c2")[2].run == "chmod 644 /etc/shells"
    assert found == {
        ("dir", "/etc/apt/new"): (None, "700 root:root"),
        ("dir", "/media"): ("755 root:root", "1777 root:root"),
        ("inodes", "/media"): (None, "none left"),
        ("link", "/etc/motd-x"): (None, "-> nowhere"),
        ("mount", "/media"): (None, "tmpfs tmpfs rw,noexec"),
        ("room", "/media"): (None, "yes"),
    }


def test_file_that_others_cannot_read_is_a_salted_digest_and_a_key_is_none(place: Path) -> None:
    drift = """
        echo 'machine x password geheim' >/etc/some.conf; chmod 600 /etc/some.conf; mkdir -m 700 /etc/shut; echo geheim >/etc/shut/open
        echo geheim >/etc/own.key; chmod 600 /etc/own.key
    """
    answer = node(place, drift)
    values = read(answer).values
    assert values["file", "/etc/shut/open"] == f"~{sha256('salt' + SECRET)[:12]} 644 root:root"
    assert values["file", "/etc/own.key"] == "- 600 root:root"
    assert values["file", "/etc/some.conf"].startswith("~")
    assert not any(name in values for name in [("file", "/etc/shadow"), ("file", "/etc/gshadow")])
    lines = Path("/etc/shadow").read_text().splitlines() if os.access("/etc/shadow", os.R_OK) else []
    hashes = [word for line in lines if len(word := line.split(":")[1]) > 4]
    assert [secret for secret in (SECRET.strip(), sha256(SECRET)[:12], *hashes) if secret in answer] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as a user already")
def test_user_without_root_reads_what_it_can(place: Path) -> None:
    whole = read(node(place, ":", "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"))
    assert whole.closed == frozenset()
    assert {("account", "root ends"), ("file", "/etc/sudoers")} <= whole.unread
    assert whole.values["file", "/etc/sudoers"] == "- 440 root:root"
    assert len(whole.values["file", "/etc/profile"].split(" ")[0]) == 12


def test_server_that_hangs_is_left_behind_and_what_was_not_looked_at_is_said(place: Path) -> None:
    hanging = place / "find"
    hanging.write_text("#!/bin/sh\nexec sleep 20\n")
    hanging.chmod(0o755)
    whole = read(node(place, f"mount --bind {hanging} /usr/bin/find", seconds=10))
    assert {"file", "link", "dir", "prog", "room", "account"} <= whole.closed
    assert {"mount"} <= {kind for kind, _ in whole.values} <= KINDS.keys() - whole.closed


def test_cores_of_a_daemon_are_told(place: Path) -> None:
    (place / "slurmd").symlink_to("/bin/sleep")
    daemon = f'SECRET=geheim taskset -c 0 {place}/slurmd 60 >/dev/null & sleep 0.2; "$@"'
    answer = node(place, ":", "unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", daemon, "sh")
    cores = "all" if Path("/sys/devices/system/cpu/online").read_text().strip() == "0" else "0"
    assert read(answer).values["daemon", "slurmd's cores"] == f"are {cores}"
    assert "geheim" not in answer


@pytest.mark.parametrize(("text", "told"), [("server=c1\n", "server=NODE\n"), ("server=c1 c2\n", "server=c1 c2\n")])
def test_file_with_the_nodes_own_name_is_told_without_it(text: str, told: str, place: Path) -> None:
    as_c1 = ("unshare", "--uts", "sh", "-c", 'hostname c1; exec "$@"', "sh")
    answer = node(place, f"printf '{text}' >/etc/own.conf", *as_c1)
    assert read(answer).values["file", "/etc/own.conf"].split(" ")[0] == sha256(told)[:12]


@pytest.mark.parametrize("name", SHELLS)
def test_shell_tells_what_start_up_files_left(name: str, place: Path) -> None:
    healthy = shell(place, name)
    assert shell(place, name) == healthy
    drift = """
        umask 027; set -u; IFS=:; alias gone='rm -rf x'; ulimit -Sn 77; awk() { echo no; }; sort() { echo no; }
        export CC=/opt/cc SCRATCH=/nowhere MY_TOKEN=geheim PROXY=http://me:geheim@proxy:1/ LANG=xx_XX.UTF-8; PATH=/nowhere:$PATH
        alias leak='curl -H token:geheim'; export TZ=Europe/Berln FC=/nowhere/fc SLURM_CPU_BIND=none; cd /usr; trap '' TERM; readonly MANPATH
        exec 2>"$HOME/said"; echo "/tmp/envmgr-audit.x1/context.sh: line 3: x: command not found" >&2
    """
    answer = shell(place, name, drift)
    whole, found = read(answer, "ctx.x.user."), changes(read(healthy, "ctx.x.user."), read(answer, "ctx.x.user."))
    assert (whole.closed - {"avail", "home", "func"}, whole.cut) == (frozenset(), frozenset())
    assert found["umask", "umask"][1] in ("0027", "027")
    assert "u" in str(found["flags", "set"][1])
    assert found["ifs", "IFS"] == ("blanks", ":")
    assert str(found["ulimit", "open files"][1]).startswith("77 ")
    assert found["alias", "gone"] == (None, "'rm -rf x'")
    assert found["env", "PROXY"] == (None, "http://***@proxy:1/")
    assert found["folder", "SCRATCH"] == (None, "/nowhere missing")
    assert str(found["locale", "said"][1]).startswith("locale: Cannot set")
    assert str(found["env", "PATH"][1]).startswith("/nowhere:")
    assert whole.values["cmd", "sh"].startswith(("/usr/bin/sh ", "/bin/sh "))
    assert whole.values["env", "MY_TOKEN"] == salted("geheim")
    assert whole.values["alias", "leak"].startswith("~")
    assert "geheim" not in answer
    assert [found["folder", key][1] for key in ("TZ", "FC")] == ["Europe/Berln missing", "/nowhere/fc missing"]
    assert found["env", "SLURM_CPU_BIND"] == (None, "none")
    assert found["state", ":cd"] == (None, "/usr")
    assert found["state", "said"] == (None, "/tmp/envmgr-audit/context.sh: line 3: x: command not found")
    if name.startswith("bash"):
        assert {("state", ":trap TERM"), ("state", ":readonly MANPATH")} <= found.keys()
    if name.startswith("bash"):
        assert found["func", "awk"][1] == f"{place}/context.sh:2"


def test_home_of_the_login_shell_is_told_by_known_names_and_salted_digests(place: Path) -> None:
    (place / ".bashrc").write_text("x=1\n")
    (place / ".condarc").touch()
    (place / "thesis.tex").touch()
    (place / "random.py").touch()
    (place / ".bash_logout").write_text("clear\nexit 0\n")
    (place / ".profile").write_text("# >>> conda initialize >>>\n")
    (place / ".bash_profile").write_text("export MODULEPATH=/etc/profile.d\n")
    (place / ".config/pip").mkdir(parents=True)
    (place / ".config/pip/pip.conf").write_text("[install]\nuser = true\nindex-url = geheim\n")
    (place / ".ssh").mkdir()
    (place / ".ssh/id_rsa").touch(mode=0o644)
    (place / ".lmod.d").mkdir()
    values = read(shell(place, "bash login"), "ctx.x.user.").values
    told = {key: value for (kind, key), value in values.items() if kind == "home" and not value.startswith("~")}
    assert told == {
        "~/.condarc": "is there",
        "~/.lmod.d": "is there",
        "~/random.py": "is there",
        f"{place}/.bash_profile": "hides ~/.profile",
        f"{place}/.ssh/id_rsa": "mode 644",
        f"{place}/.profile": "conda init",
        f"{place}/.bash_logout:2": "it ends the shell",
        f"{place}/.config/pip/pip.conf:2": "user = true",
    }
    assert values["home", "~/.bashrc"] == salted(sha256("x=1\n"))
    assert not KINDS["home"].in_baseline(values["home", "~/.bashrc"])


def test_answer_without_the_look_is_closed_whole_and_other_facts_are_passed_over() -> None:
    facts = {"inventory.file": "/a\\t1\n/b", "inventory.cut": "pkg\nx", "inventory.odd": "a\\tb"}
    looked = read_inventory({**facts, "inventory.looked.node": "yes"})
    assert (dict(looked.values), set(looked.cut)) == ({("file", "/a"): "1"}, {"pkg"})
    gone = read_inventory(facts)
    assert dict(gone.values) == {}
    assert gone.closed == {name for name, kind in KINDS.items() if kind.scope == "node"}
