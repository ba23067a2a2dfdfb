"""No hint opens what must stay closed, and none changes what a user's link leads to: each is typed as root, as it stands, on a machine with
keys, a shadow file and homes.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import envmgr
from envmgr.audit.checks import mount, saved_collections, signature, software
from envmgr.audit.model import Check
from envmgr.audit.openings import let_in
from envmgr.catalog.recipe_parts import Requires
from envmgr.modules.node_paths import HOME
from envmgr.modules.nodesetup import opening_command, public_paths
from envmgr.probe import shell as probe
from envmgr.probe.model import CONTEXTS
from envmgr.publish.signature import KeySigner
from envmgr.report import Finding, SilentReporter
from envmgr.system.modes import closing, give_place, opening
from envmgr.system.run import Runner
from envmgr.system.shelltext import assign, script_text
from tests.helpers.evidence import audit_plan, evidence, found, site
from tests.helpers.hint_machine import RSW, make_machine, typed
from tests.helpers.signed import SignedPrefix

LOGIN = CONTEXTS[0]
KEY = "ctx.bash-login.user."
# What must stay closed, as a path below a folder of the test, with its mode.
CLOSED = {
    "etc/envmgr/signing_key": 0o600,
    "etc/envmgr/elsewhere/key": 0o400,
    "etc/munge/munge.key": 0o400,
    "etc/shadow": 0o640,
    "etc/ssh/ssh_host_ed25519_key": 0o600,
    "home/alice/.ssh/id_ed25519": 0o600,
    "etc/profile.d/secret.sh": 0o600,
    "srv/unknown file": 0o600,
    "etc/envmgr/node/unknown": 0o600,
    "etc/slurm/slurmdbd.conf": 0o600,
}
FOLDERS = ("home/alice", "root", "etc/munge", "etc/envmgr/elsewhere")


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="what root types")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for name, mode in CLOSED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
        (tmp_path / name).chmod(mode)
    for name in FOLDERS:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name).chmod(0o700)
    return tmp_path


def modes(machine: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mode for path in machine.rglob("*")}


# Each check that a path of a node reaches, with the facts that bring it.
FACTS: dict[Check, Callable[[str], Mapping[str, str]]] = {
    mount: lambda path: {"mount.user_stopped": f"700 root:root {path}", "mount.user_writes": path},
    signature: lambda path: {"signature.open": f"644 {path}"},
    software: lambda path: {
        "software.bad.hello/1.0": f"{path}: Permission denied",
        "software.stopped.hello/1.0": f"700 root:root {path}",
        "software.seen": "1",
    },
}


def healthy(facts: Mapping[str, str]) -> dict[str, str]:
    """What another node says, on which nothing is closed."""
    return {key: value for key, value in facts.items() if not re.search(r"stopped|bad", key)}


def findings(check: Check, path: str) -> Iterator[Finding]:
    facts = FACTS[check](path)
    other = healthy(facts)
    for answers in (
        {"c1": facts},
        {"c1": facts, "c2": other, "c3": other, "c4": other},
        {f"c{n}": facts for n in range(1, 5)},
    ):
        looked = {
            name: {f"{name}.looked.{stage}": "yes" for name in ("signature",) for stage in ("node",)} | dict(each)
            for name, each in answers.items()
        }
        given = evidence(looked, entries={"hello/1.0": Requires()}, asked=((LOGIN, "user", "ssh"),))
        yield from found(check, given)


@pytest.mark.parametrize("check", FACTS, ids=lambda check: check.__name__.rpartition(".")[2])
def test_no_hint_of_a_check_opens_what_must_stay_closed(check: Check, machine: Path) -> None:
    before, tried = modes(machine), 0
    for name in (*CLOSED, *FOLDERS):
        path = str(machine / name)
        for finding in findings(check, path):
            tried += 1
            for command in typed(finding.hint):
                subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True, cwd="/")
    assert tried, "no fact reached this check"
    wider = {path: f"{mode:o}" for path, mode in modes(machine).items() if mode & ~before[path]}
    assert wider == {}


# -- Links of a user -----------------------------------------------------------------------------------------------------

# What alice puts into her home -> where it leads: a file or a folder of root's that a check may tell of.
PLANTED = {
    ".cache": "/srv/etc",
    ".config": "/srv/etc",
    ".lmod.d": "/srv/etc",
    ".local": "/srv/etc",
    ".conda": "/srv/etc",
    ".ssh/id_x": "/srv/etc/passwd",
    ".ssh/authorized_keys": "/srv/etc/authorized_keys",
    ".bash_profile": "/srv/etc/profile",
    "random.py": "/srv/etc/random.py",
    ".bashrc": "/srv/etc/shadow",
}


def hints(check: Check, facts: Mapping[str, str]) -> list[str]:
    return [finding.hint for finding in found(check, evidence({"c1": facts}, asked=((LOGIN, "user", "ssh"),)))]


@as_root
@pytest.mark.parametrize("said", [None, {"collection": "/home/alice/.config/lmod/default"}])
def test_no_hint_follows_a_link_that_a_user_planted(said: Mapping[str, str] | None, tmp_path: Path) -> None:
    """What the check's own text tells in alice's shell, or a lie of that shell, and then what root types of it.

    A link may also come after the audit: so these are as if there had been none.
    """
    there = make_machine(tmp_path)
    (tmp_path / "home/alice/.profile").write_text("[ ! -e ~/.bashrc ] || . ~/.bashrc\n")
    for name, target in PLANTED.items():
        (tmp_path / "home/alice" / name).symlink_to(target)
        there.own(f"home/alice/{name}")
    before, done = there.seen(), []
    facts = there.facts(saved_collections) if said is None else {f"{KEY}{key}": of for key, of in said.items()}
    for hint in hints(saved_collections, facts):
        done += there.type(hint)
    assert said is None or done, "nothing was typed"
    assert there.seen() == before


@as_root
def test_link_of_the_build_user_opens_nothing(tmp_path: Path) -> None:
    there = make_machine(tmp_path)
    where = site(prefix="/home/rsw/sw", build_user="rsw")
    store = tmp_path / "home/rsw/sw/store"
    store.mkdir(parents=True)
    (store / "a-1").symlink_to("/srv/etc/shadow")
    (store / "b-1").mkdir(mode=0o700)
    for name in ("a-1", "b-1"):
        there.own(f"home/rsw/sw/store/{name}", RSW)
    before = there.seen()
    paths = [f"/home/rsw/sw/store/{name}" for name in ("a-1", "b-1")]
    hint = opening_command(where, ["/etc/envmgr", *paths], paths)
    assert hint == "runuser -u rsw -- chmod a+rX /home/rsw/sw/store/a-1 /home/rsw/sw/store/b-1; chmod a+rX /etc/envmgr"
    there.type(f"on the node: `{hint.rpartition('; ')[0]}`")
    assert there.seen() == before
    assert (store / "b-1").stat().st_mode & 0o777 == 0o755


def test_folder_is_given_only_where_nobody_else_can_put_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert give_place("rsw", tmp_path / "mine") == f"chown -h rsw {tmp_path}/mine"
    (tmp_path / "mine").chmod(0o777)
    (tmp_path / "mine/x").mkdir()
    assert give_place("rsw", tmp_path / "mine/x").startswith("`namei -l ")


def test_no_other_code_writes_a_command_that_opens_into_a_hint() -> None:
    writes = re.compile(r"[`\"'](chmod|chown|setfacl) -?\S|(put|echo|printf|say)\b.*\b(chmod|chown|setfacl) ")
    package = Path(envmgr.__file__).parent
    files = [path for of in ("*.py", "*.sh", "*.yaml") for path in package.rglob(of) if writes.search(path.read_text())]
    assert {path.name for path in files} == {
        "modes.py",
        "table.py",
        "kinds.yaml",
        "alike.yaml",
    }  # which say what is right


def test_only_envmgrs_own_public_files_are_opened() -> None:
    where = site()
    assert let_in(where, "/etc/envmgr/node/settings").text == "on the node: `chmod a+rX /etc/envmgr/node/settings`"
    assert opening([HOME, "/etc/envmgr"], public_paths(where)) == "chmod a+rX /etc/envmgr/node /etc/envmgr"
    for path in (
        "/etc/envmgr/signing_key",
        "/etc/envmgr/node/own",
        "/etc/shadow",
        "/sw/var/locks/x",
        "/sw/store/../../etc/shadow",
        "/home/alice",
        "/etc/profile.d/a.sh",
    ):
        assert opening([path], public_paths(where, [path])) == "", path
        assert opening([HOME, path], public_paths(where)) == "", path
        assert "chmod" not in let_in(where, path).text


def test_configured_key_is_none_of_them_wherever_it_lies() -> None:
    where = site(signing={"key": "/etc/envmgr/site.yaml", "allowed_signers": "/etc/envmgr/allowed_signers"})
    assert opening(["/etc/envmgr/site.yaml"], public_paths(where)) == ""


def test_site_that_keeps_others_out_opens_for_its_group_alone() -> None:
    where = site(policies={"umask": "027"})
    assert let_in(where, "/sw/store/a-1", installs=["/sw/store/a-1"]).text == "on the node: `chmod g+rX /sw/store/a-1`"


def test_closing_leaves_a_home_a_home() -> None:
    assert closing("go-rwx", "~alice/a b") == "chmod go-rwx ~alice/'a b'"
    assert closing("o-w", "/a;b") == "chmod o-w '/a;b'"


def open_on_node(machine: Path, home: Path, *keys: Path) -> list[str]:
    """What the text that nodes run tells of keys of the site, and of what lies in `home`."""
    given = assign(signature_home=str(home), signature_keys="\n".join(map(str, keys)))
    library = script_text(probe.__file__ or "", "library.sh")
    script = machine / "node.sh"
    script.write_text(f"mark=\nwho=/etc/passwd\nroom=/tmp\n{library}{given}{script_text(signature.__file__, 'key.sh')}")
    done = subprocess.run(["/bin/sh", str(script)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.removeprefix("@signature.open|") for line in done.stdout.splitlines()]


@pytest.mark.parametrize("place", ["etc/envmgr/elsewhere/key", "etc/envmgr/.kept", "etc/envmgr/a/b/.c/key", "root/key"])
def test_key_that_others_can_read_is_told(machine: Path, place: str) -> None:
    """Of a folder of /etc/envmgr, and of where the site says that its key is."""
    key, home = machine / place, machine / "etc/envmgr"
    (machine / "etc/envmgr/loop").symlink_to(home)
    key.parent.mkdir(parents=True, exist_ok=True)
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    key.chmod(0o600)
    named = [key] if place == "root/key" else []

    def said() -> list[str]:
        return [line for line in open_on_node(machine, home, *named) if "/loop/" not in line]

    assert said() == []
    key.chmod(0o640)
    assert said() == [f"640 {key}"]
    (finding,) = found(signature, evidence({"c1": {"signature.open": f"640 {key}", "signature.looked.node": "yes"}}))
    assert (finding.severity, finding.where, finding.nodes) == ("error", str(key), "c1")
    subprocess.run(["/bin/sh", "-c", typed(finding.hint)[0]], check=True)
    assert said() == []
    key.write_text("ssh-ed25519 AAAA anna\n")
    key.chmod(0o644)
    assert said() == [], "a public key is for all"


@pytest.mark.parametrize("named", ["admin", "admin.pub", "admin-cert.pub"])
def test_open_key_is_told_where_the_site_names_its_public_part(tmp_path: Path, named: str) -> None:
    """ssh-keygen signs by the private key beside it."""
    made = SignedPrefix(tmp_path)
    ca = ["ssh-keygen", "-q", "-s", tmp_path / "stranger", "-I", "anna", "-n", "anna", tmp_path / "admin.pub"]
    subprocess.run(ca, check=True, capture_output=True)
    signing = made.signing.model_copy(update={"key": tmp_path / named})
    signed = (
        KeySigner(signing, Runner()).sign(b"x", SilentReporter()) if named != "admin-cert.pub" else b"SSH SIGNATURE"
    )
    assert b"SSH SIGNATURE" in signed
    assert open_on_node(tmp_path, tmp_path / "none", *signing.key_files) == []
    (tmp_path / "admin").chmod(0o644)
    assert open_on_node(tmp_path, tmp_path / "none", *signing.key_files) == [f"644 {tmp_path}/admin"]
    where = site(signing={"key": str(tmp_path / named), "allowed_signers": "allowed_signers"})
    assert f"{tmp_path}/admin" in signature.probe(audit_plan(where))["node"]
    assert f"{tmp_path}/admin" not in public_paths(where)


def test_open_key_of_many_nodes_is_told_once() -> None:
    said = {"signature.looked.node": "yes", "signature.open": "644 /k"}
    given = evidence(
        {"c1": said, "c2": {**said, "signature.open": "640 /etc/envmgr/x\n644 /k"}},
        asked_here={"signature": signature.Here(open_keys="644 /k\n600 /own")},
    )
    told = sorted((finding.where, finding.nodes) for finding in found(signature, given))
    assert told == [("/etc/envmgr/x", "c2"), ("/k", "c[1-2]"), ("/own", "")]
