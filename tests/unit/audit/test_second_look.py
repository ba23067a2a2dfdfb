"""The second look, run for real on this machine, with an /etc, homes and /tmp of the test."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.audit import second_look
from envmgr.audit.second_look import SECRET, Seen, Wanted, second_look_part
from envmgr.probe.model import ShellAccount
from envmgr.probe.shell import join_probes, read_answer
from tests.helpers.evidence import audit_plan, site
from tests.helpers.own_node import ACCOUNTS, AM_ROOT, HOMES, USERS, OwnNode

MARKER = "geheim"


def look(node: OwnNode, wanted: Wanted) -> Seen:
    plan = replace(audit_plan(site()), contexts=(), alone=True)
    part = second_look_part(wanted, USERS, "/sw/generations")
    script = join_probes([part], plan, stages=("prefix",))
    facts, _, _ = read_answer(node.ask(script))
    assert facts["second_look.looked.prefix"] == "yes"
    return Seen({"c1": facts})


@pytest.fixture
def node() -> Iterator[OwnNode]:
    with tempfile.TemporaryDirectory(prefix="second-look-") as folder:
        yield OwnNode(Path(folder))


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
        "source ~/own/sub.csh\nlimit coredumpsize 0\nexit 0\n"
    ),
    "own/sub.csh": "setenv OWN 1\n",
}
ZSH = {"opt/vendor/set.sh": BASH["opt/vendor/set.sh"]} | {
    f"etc/{at}zshenv": "export A=1\n. /opt/vendor/set.sh\n" for at in ("", "zsh/")
}
ZSH_HOME = {
    ".zshenv": "f() { export IN_FUNCTION=1 }\n\nf\numask 027\nalias ll='ls -l'\nmodule() { : }\nmodule load x\n",
    ".zprofile": "set -u\nexport MODULEPATH=/sw/generations/1\nexport MODULEPATH=/other\nexit 0\n",
}
# For each shell the files that it reads, with NAME=LINE of what is set there.
OF_RC = "MODULEPATH=1 :set=2 ll=3 OWN=4 GONE=5"
OF_LOGIN = {
    "/etc/profile": ":umask=2",
    "/etc/profile.d/site.sh": "VENDOR=2 LOADED=3 :module=4",
    "/opt/vendor/set.sh": "",
    "~/.bash_profile": ":exit=2",
    "~/.bashrc": f"{OF_RC} MODULEPATH-=1",
}
OF_OTHERS = {"/etc/bash.bashrc": "INTERACTIVE=1", "~/.bashrc": OF_RC}
OF_CSHRC = "PATH=2 module=3 B=4 LOADED=5 :module=5 BY_EVAL=6 A=7 LOOP=9 MODULEPATH=11 MODULEPATH-=11 OWN=12 :ulimit=13"
OF_CSH = {
    "/etc/csh.cshrc": "",
    "/etc/csh.d/site.csh": ":umask=1 VENDOR=4",
    "/opt/vendor/set.csh": "",
    "~/.cshrc": f"{OF_CSHRC} :exit=14",
}
OF_ZSH = {
    next((at for at in ("/etc/zsh/zshenv", "/etc/zshenv") if Path(at).exists()), "/etc/zshenv"): "A=1 VENDOR=2",
    "/opt/vendor/set.sh": "",
    "~/.zshenv": "IN_FUNCTION=1 :umask=4 ll=5 :module=7",
    "~/.zprofile": ":set=1 MODULEPATH-=3 :exit=4",
}
SHELLS = {
    "bash-login": (BASH, BASH_HOME, OF_LOGIN),
    "bash-job": (BASH, BASH_HOME, OF_LOGIN),
    "bash-ssh": (BASH, BASH_HOME, OF_OTHERS),
    "bash-interactive": (BASH, BASH_HOME, OF_OTHERS),
    "csh": (CSH, CSH_HOME, OF_CSH),
    "zsh": (ZSH, ZSH_HOME, OF_ZSH),
}


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("context", SHELLS)
def test_start_of_a_shell_tells_what_it_read_and_set(context: str, account: ShellAccount, node: OwnNode) -> None:
    etc, home, told = SHELLS[context]
    folder = HOMES[account]
    node.write({**etc, **{f"{folder}/{name}": text for name, text in home.items()}})
    before = node.files()
    seen = look(node, Wanted(("c1",), shells=((context, account),)))
    named = [(file, *pair.rsplit("=", 1)) for file, pairs in told.items() for pair in pairs.split()]
    places = {name: f"{file}:{line}".replace("~", f"/{folder}") for file, name, line in named}
    assert {name: seen.place("c1", context, account, name) for name in places} == places
    assert seen.place("c1", context, account, "ABSENT") == ""
    assert {file.replace("~", f"/{folder}") for file in told} <= seen.read("c1", context, account)
    assert node.files() == before


def test_line_in_a_file_that_all_may_read_is_told_unless_it_has_a_secret(node: OwnNode) -> None:
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
    seen = look(node, Wanted(("c1",), files=tuple(named)))
    told = ["  plain", SECRET, SECRET, SECRET, "x" * 400, "last"]
    of_all = {
        "/etc/open": told,
        "/etc/link": told,
        "/etc/key.pem": [SECRET] * 3 + ["after"],
        "/etc/comments": [],
        "/etc/none": [],
    }
    assert {name: seen.text("c1", name) for name in named} == dict.fromkeys(named) | of_all


def test_path_tells_where_it_leads_and_the_modes_on_its_way(node: OwnNode) -> None:
    node.write({"opt/dir/prog": "#! /opt/bin/run -x\n", "opt/bin/run": "\x7fELF"}, 0o755)
    node.write({"opt/dir/closed": "#!/opt/secret\n"}, 0o700)
    (node.root / "opt/way").symlink_to("dir")
    (node.root / "opt/bin/prog").symlink_to("../way/prog")
    (node.root / "opt/round").symlink_to("round")
    node.write({"etc/envmgr/node/x.lua": "\n"})
    paths = ("/opt/bin/prog", "/opt/dir/closed", "/opt/round", "/opt/absent/prog", "/etc/envmgr/node/x.lua")
    seen = look(node, Wanted(("c1",), paths=paths))
    leads = [{"/opt/way/prog", "/opt/dir/prog", "/opt/bin/run"}, set(), {"/opt/round"}, set(), set()]
    assert [seen.leads(path) for path in paths] == leads
    daemon = "/usr/sbin/chroot"
    assert {Path(of).name for of in look(node, Wanted(("c1",), paths=(daemon,))).leads(daemon)} >= {"libc.so.6"}
    assert {path: " ".join(told.split(" ")[:2]) for path, told in seen.ways("c1").items()} == {
        "/etc": "dir 755",
        "/etc/envmgr": "dir 755",
        "/etc/envmgr/node": "dir 755",
        "/etc/envmgr/node/x.lua": "file 644",
        "/opt": "dir 755",
        "/opt/bin": "dir 755",
        "/opt/bin/prog": "link ->",
        "/opt/way": "link ->",
        "/opt/dir": "dir 755",
        "/opt/dir/prog": "prog 755",
        "/opt/dir/closed": "prog 700",
        "/opt/bin/run": "prog 755",
        "/opt/round": "link ->",
    }


TRACED = "for i in 1 2 3 4; do X=$(head -c 25000000 /dev/zero | tr '\\0' x); done"
FIRST = {
    "bash-login": (".bash_profile", "export A=1", TRACED),
    "bash-ssh": (".bashrc", "export A=1", "yes | head -c 100000000"),
    "csh": (".cshrc", "setenv A 1", "yes | head -c 100000000"),
    "zsh": (".zshenv", "export A=1", TRACED),
}


@pytest.mark.parametrize("loud", [False, True], ids=["never-ends", "prints-100-MB"])
def test_shell_that_never_ends_or_prints_without_end_is_left_behind(
    loud: bool, node: OwnNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.write({"etc/profile": "", "etc/bash.bashrc": "", "etc/csh.cshrc": ""})
    for name, first, many in FIRST.values():
        node.write({f"home/alice/{name}": f"{first}\n{many if loud else 'sleep 1000'}\n"})
    before = node.files()
    wanted = Wanted(("c1",), shells=tuple((context, "user") for context in FIRST), files=("/etc/passwd",))
    lines = {context: f"/home/alice/{name}:1" for context, (name, _, _) in FIRST.items()}
    for seconds in (2, 20, 100):  # a busy machine takes longer to come to the line
        monkeypatch.setattr(second_look, "_SECONDS", seconds)
        seen = look(node, wanted)
        if (places := {context: seen.place("c1", context, "user", "A") for context in FIRST}) == lines:
            break
    assert places == lines
    assert seen.text("c1", "/etc/passwd") is not None
    assert node.files() == before
