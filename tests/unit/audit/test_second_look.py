"""The second look, run for real on this machine, with an /etc, homes and /tmp of the test."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.audit.second_look import SECRET, Seen, Wanted, read_second_look, second_look_part
from envmgr.probe.model import Fleet, Group, ShellAccount
from envmgr.probe.shell import join_probes, read_answer
from tests.helpers.evidence import audit_plan, site

AM_ROOT = os.geteuid() == 0
UID = os.geteuid() or 61234
ACCOUNTS: tuple[ShellAccount, ...] = ("user", "root") if AM_ROOT else ("user",)
HOMES = {"user": "home/alice", "root": "root"}
SYSTEM = ("alternatives", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")
# Over /etc, homes, /opt and /tmp; whatever is left behind ends with the namespace.
SCENE = """
for at in etc home root opt tmp; do mount --bind "$1/$at" "/$at" || exit; done
shift; exec "$@"
"""


class Node:
    """A machine of the test below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.chmod(0o755)
        for name in ("etc", "home/alice", "root", "opt", "tmp"):
            (root / name).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        for name in SYSTEM:
            subprocess.run(["cp", "-a", f"/etc/{name}", root / "etc"], check=False, capture_output=True)
        self.write(
            {"etc/passwd": f"root:x:0:0::/root:/bin/bash\nalice:x:{UID}:{os.getegid() or UID}::/home/alice:/bin/bash\n"}
        )

    def write(self, files: Mapping[str, str], mode: int = 0o644) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(mode)

    def ask(self, script: str) -> str:
        home = self.root / HOMES["user"]
        for path in (home, *home.rglob("*")):
            os.chown(path, UID, os.getegid() or UID)
        own = [] if AM_ROOT else ["unshare", "--user", f"--map-user={UID}", f"--map-group={os.getegid()}"]
        map_root = [] if AM_ROOT else ["--map-root-user"]
        argv = ["unshare", *map_root, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", SCENE]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
        done = subprocess.run(
            [*argv, "sh", self.root, *own, "sh"], input=script, capture_output=True, text=True, check=True, env=env
        )
        return done.stdout

    def look(self, wanted: Wanted, seconds: int = 10) -> Seen:
        plan = replace(audit_plan(site()), contexts=(), alone=True)
        part = second_look_part(wanted, {"user": "alice", "root": "root"}, "/sw/generations")
        script = join_probes([part], plan, stages=("prefix",)).replace("with_limit 10 ", f"with_limit {seconds} ")
        facts, _, _ = read_answer(self.ask(script))
        assert facts["second_look.looked.prefix"] == "yes"
        return read_second_look(Fleet((Group(facts, ("c1",)),), {}, {}, ()))

    def files(self) -> dict[str, str]:
        """What lies in the homes and in /tmp."""
        tops = (self.root / top for top in ("home", "root", "tmp"))
        return {str(path): path.read_text() for top in tops for path in top.rglob("*") if path.is_file()}


@pytest.fixture
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="second-look-") as folder:
        yield Node(Path(folder))


BASH = {
    "etc/profile": ". /etc/profile.d/site.sh\numask 027\n",
    "etc/bash.bashrc": "export INTERACTIVE=1\n",
    "etc/profile.d/site.sh": (
        "export MODULEPATH=/sw/generations/0001/modules\n. /opt/vendor/set.sh\nmodule() { export LOADED=1; }\nmodule load x\n"
        "export BASH_ENV=/etc/for_all.sh\n"
    ),
    "etc/for_all.sh": "export FOR_ALL=1\n",
    "opt/vendor/set.sh": "# a vendor's\nexport VENDOR=1\n",
}
BASH_HOME = {
    ".bash_profile": ". ~/.bashrc\nexit 0\n",
    ".bashrc": "export MODULEPATH=/other\nset -u\nalias ll='ls -l'\n. ~/.config/own/env\nunset GONE\n",
    ".config/own/env": "export OWN=1\n",
}
CSH = {
    "etc/csh.cshrc": "foreach each (/etc/csh.d/*)\n  source $each   # all\nend\n",
    "etc/csh.d/site.csh": "umask 027\n\nsetenv A 1; setenv B 2\nsource /opt/vendor/set.csh\n",
    "opt/vendor/set.csh": "if ( 0 ) then\n  setenv VENDOR 1\nendif\nsetenv VENDOR \\\n  2\n",
}
CSH_HOME = {
    ".cshrc": (
        "setenv MODULEPATH /sw/generations/0001\nset path = ( $path /opt/x )\nalias module 'setenv LOADED \\!*'\nsetenv B 3\n"
        "module x\neval `echo setenv BY_EVAL 1`\nunsetenv A\nforeach i (1 2)\n  setenv LOOP $i\nend\nsetenv MODULEPATH /other\n"
        "source ~/sub.csh\nlimit coredumpsize 0\nexit 0\n"
    ),
    "sub.csh": "setenv OWN 1\n",
}
ZSH = {"opt/vendor/set.sh": BASH["opt/vendor/set.sh"]} | {
    f"etc/{at}zshenv": "export A=1\n. /opt/vendor/set.sh\n" for at in ("", "zsh/")
}
ZSH_HOME = {
    ".zshenv": "f() { export IN_FUNCTION=1 }\n\nf\numask 027\nalias ll='ls -l'\nmodule() { : }\nmodule load x\n",
    ".zprofile": "set -u\nexport MODULEPATH=/sw/generations/1\nexport MODULEPATH=/other\nexit 0\n",
}
SITE, RC = "/etc/profile.d/site.sh", "~/.bashrc"
OF_RC = {"MODULEPATH": f"{RC}:1", ":set": f"{RC}:2", "ll": f"{RC}:3", "OWN": f"{RC}:4", "GONE": f"{RC}:5"}
OF_LOGIN = OF_RC | {
    "MODULEPATH-": f"{RC}:1",
    ":umask": "/etc/profile:2",
    "VENDOR": f"{SITE}:2",
    "LOADED": f"{SITE}:3",
    ":module": f"{SITE}:4",
    ":exit": "~/.bash_profile:2",
}
ZSHENV = next((at for at in ("/etc/zsh/zshenv", "/etc/zshenv") if Path(at).exists()), "/etc/zshenv")
LOGIN_READS = {"/etc/profile", SITE, "/opt/vendor/set.sh", "~/.bash_profile", RC}
SHELLS = {
    "bash-login": (BASH, BASH_HOME, LOGIN_READS, OF_LOGIN),
    "bash-job": (BASH, BASH_HOME, LOGIN_READS, OF_LOGIN),
    "bash-ssh": (
        BASH,
        BASH_HOME,
        {"/etc/bash.bashrc", RC},
        OF_RC | {"VENDOR": "", ":umask": "", "INTERACTIVE": "/etc/bash.bashrc:1"},
    ),
    "bash-interactive": (
        BASH,
        BASH_HOME,
        {"/etc/bash.bashrc", RC},
        OF_RC | {":module": "", "INTERACTIVE": "/etc/bash.bashrc:1"},
    ),
    "csh": (
        CSH,
        CSH_HOME,
        {"/etc/csh.cshrc", "/etc/csh.d/site.csh", "/opt/vendor/set.csh", "~/.cshrc"},
        {
            ":umask": "/etc/csh.d/site.csh:1",
            "VENDOR": "/etc/csh.d/site.csh:4",
            "MODULEPATH": "~/.cshrc:11",
            "MODULEPATH-": "~/.cshrc:11",
            "PATH": "~/.cshrc:2",
            "module": "~/.cshrc:3",
            "B": "~/.cshrc:4",
            "LOADED": "~/.cshrc:5",
            ":module": "~/.cshrc:5",
            "BY_EVAL": "~/.cshrc:6",
            "A": "~/.cshrc:7",
            "LOOP": "~/.cshrc:9",
            "OWN": "~/.cshrc:12",
            ":ulimit": "~/.cshrc:13",
            ":exit": "~/.cshrc:14",
        },
    ),
    "zsh": (
        ZSH,
        ZSH_HOME,
        {ZSHENV, "/opt/vendor/set.sh", "~/.zshenv", "~/.zprofile"},
        {
            "A": f"{ZSHENV}:1",
            "VENDOR": f"{ZSHENV}:2",
            "IN_FUNCTION": "~/.zshenv:1",
            ":umask": "~/.zshenv:4",
            "ll": "~/.zshenv:5",
            ":module": "~/.zshenv:7",
            ":set": "~/.zprofile:1",
            "MODULEPATH-": "~/.zprofile:3",
            ":exit": "~/.zprofile:4",
        },
    ),
}


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("context", SHELLS)
def test_start_of_a_shell_tells_what_it_read_and_which_line_set_what(
    context: str, account: ShellAccount, node: Node
) -> None:
    etc, home, reads, places = SHELLS[context]
    folder = HOMES[account]
    node.write({**etc, **{f"{folder}/{name}": text for name, text in home.items()}})
    before = node.files()
    seen = node.look(Wanted(("c1",), shells=((context, account),)))
    assert {name: seen.place("c1", context, account, name).replace(f"/{folder}/", "~/") for name in places} == places
    assert {file.replace(f"/{folder}/", "~/") for file in seen.read("c1", context, account)} == reads
    assert node.files() == before


def test_line_in_a_file_that_all_may_read_is_told_unless_it_has_a_secret(node: Node) -> None:
    files = {
        "etc/open": f"# a comment\n\n  plain\nexport API_TOKEN=\\\n  {MARKER}\nproxy=http://me:{MARKER}@proxy:1/\n{'x' * 500}\nlast",
        "etc/key.pem": f"-----BEGIN RSA PRIVATE KEY-----\n{MARKER}\n-----END RSA PRIVATE KEY-----\nafter\n",
        "etc/comments": "# nothing\n",
        "etc/none": "",
        "etc/shut/open": f"{MARKER}\n",
    }
    node.write(files)
    node.write({"etc/closed": f"{MARKER}\n"}, 0o640)
    (node.root / "etc/shut").chmod(0o700)
    (node.root / "etc/link").symlink_to("open")
    named = [f"/{name}" for name in (*files, "etc/closed", "etc/link", "etc/absent", "etc/alternatives")]
    named = [name for name in named if AM_ROOT or name != "/etc/shut/open"]  # a user may read what is its own
    seen = node.look(Wanted(("c1",), files=tuple(named)))
    told = ["  plain", SECRET, SECRET, SECRET, "x" * 400, "last"]
    of_all = {
        "/etc/open": told,
        "/etc/link": told,
        "/etc/key.pem": [SECRET] * 3 + ["after"],
        "/etc/comments": [],
        "/etc/none": [],
    }
    assert {name: seen.text("c1", name) for name in named} == dict.fromkeys(named) | of_all


def test_path_tells_where_it_leads_and_the_modes_on_its_way(node: Node) -> None:
    node.write({"opt/dir/prog": "#! /opt/bin/run -x\n", "opt/bin/run": "\x7fELF"}, 0o755)
    node.write({"opt/dir/closed": "#!/opt/secret\n"}, 0o700)
    (node.root / "opt/way").symlink_to("dir")
    (node.root / "opt/bin/prog").symlink_to("../way/prog")
    (node.root / "opt/round").symlink_to("round")
    paths = ("/opt/bin/prog", "/opt/dir/closed", "/opt/round", "/opt/absent/prog")
    seen = node.look(Wanted(("c1",), paths=paths))
    leads = [{"/opt/way/prog", "/opt/dir/prog", "/opt/bin/run"}, set(), {"/opt/round"}, set()]
    assert [seen.leads(path) for path in paths] == leads
    owner = "root:root"
    assert {path: mode.replace(f"{owner}", "OWNER") for path, mode in seen.pairs("c1", "ways")} == {
        "/opt": "directory 755 OWNER",
        "/opt/bin": "directory 755 OWNER",
        "/opt/bin/prog": "link 777 OWNER",
        "/opt/way": "link 777 OWNER",
        "/opt/dir": "directory 755 OWNER",
        "/opt/dir/prog": "file 755 OWNER",
        "/opt/dir/closed": "file 700 OWNER",
        "/opt/bin/run": "file 755 OWNER",
        "/opt/round": "link 777 OWNER",
    }


@pytest.mark.parametrize(
    "lines",
    ["sleep 1000\n", "for i in $(seq 20); do X=$(head -c 5000000 /dev/zero | tr '\\0' x); echo $X; done\n"],
    ids=["never-ends", "prints-100-MB"],
)
@pytest.mark.parametrize("context", ["bash-login", "csh", "zsh"])
def test_shell_that_never_ends_or_prints_without_end_is_left_behind(context: str, lines: str, node: Node) -> None:
    first, name = {
        "bash-login": ("export A=1", ".bash_profile"),
        "csh": ("setenv A 1", ".cshrc"),
        "zsh": ("export A=1", ".zshenv"),
    }[context]
    node.write(
        {
            "etc/profile": "",
            "etc/csh.cshrc": "",
            f"home/alice/{name}": f"{first}\n{lines if context != 'csh' else lines_of_csh(lines)}",
        }
    )
    before = node.files()
    seen = node.look(
        Wanted(("c1",), shells=((context, "user"), ("bash-ssh", "user")), files=("/etc/passwd",)), seconds=2
    )
    assert seen.place("c1", context, "user", "A") in (f"/home/alice/{name}:1", "")
    assert seen.text("c1", "/etc/passwd") is not None
    assert node.files() == before
