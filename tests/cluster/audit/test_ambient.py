"""What shells bring along, on real nodes: each is told with the file and the line that does it; taking that away mends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster.disguises import shadowed_file

pytestmark = pytest.mark.xdist_group("audited")


@contextmanager
def start_up(audited: Audited, nodes: str, path: str, text: str) -> Iterator[None]:
    """A start-up file of some nodes (`c1 c2`); lines are added to one that is there."""
    parked = f"/run/parked{path.replace('/', '-')}"
    put = f"[ ! -e {path} ] || cp -a {path} {parked}; cat >>{path} <<'END'\n{text}\nEND\n"
    for node in nodes.split():
        audited.cluster.sh(node, put, check=True)
    try:
        yield
    finally:
        for node in nodes.split():
            audited.cluster.sh(node, f"if [ -e {parked} ]; then mv {parked} {path}; else rm {path}; fi", check=True)


def told(audited: Audited, check: str, *argv: str) -> list[dict[str, Any]]:
    found = audited.audit("--via", "ssh", "--check", check, *argv, code=1)["findings"]
    return [f for f in found if f["check"] == check]


BAGGAGE = {
    "everywhere": (
        "c1 c2 c3",
        "/etc/profile.d/zzz-sci.sh",
        "# ours\nexport PYTHONPATH=/opt/sci",
        "warning",
        "PYTHONPATH is /opt/sci",
        "/etc/profile.d/zzz-sci.sh:2 sets it: take that line away",
    ),
    "home": (
        "c2",
        "/etc/profile.d/aaa-sci.sh",
        "PYTHONHOME=/opt/py; export PYTHONHOME",
        "error",
        "PYTHONHOME is /opt/py",
        "/etc/profile.d/aaa-sci.sh:1 sets it: take that line away",
    ),
    "preload": (
        "c1",
        "/home/alice/.profile",
        "export LD_PRELOAD=/lib/x86_64-linux-gnu/libdl.so.2",
        "note",
        "LD_PRELOAD is /lib/x86_64-linux-gnu/libdl.so.2",
        "/home/alice/.profile:",
    ),
    "function": (
        "c3",
        "/etc/profile.d/zzz.sh",
        "\n\npython() { echo mine; }",
        "error",
        "`python` is a function",
        "/etc/profile.d/zzz.sh:3 defines it: take it away there",
    ),
    "alias": (
        "c3",
        "/etc/profile.d/zzz.sh",
        "alias python='python3 -s'",
        "error",
        "`python` is an alias: python='python3 -s'",
        "/etc/profile.d/zzz.sh:1 defines it: take that line away",
    ),
    "environment": (
        "c1",
        "/etc/environment",
        "PYTHONPATH=/opt/pam",
        "warning",
        "PYTHONPATH is /opt/pam",
        "/etc/environment:",
    ),
    "csh": (
        "c2",
        "/etc/csh.cshrc",
        "setenv PYTHONPATH /opt/csh",
        "warning",
        "PYTHONPATH is /opt/csh",
        "/etc/csh.cshrc:",
    ),
    "csh-alias": (
        "c1",
        "/etc/csh.cshrc",
        "alias python echo",
        "error",
        "`python` is an alias: python",
        "/etc/csh.cshrc:",
    ),
    "interactive": (
        "c1",
        "/home/alice/.bashrc",
        "alias python='python3 -s'",
        "error",
        "`python` is an alias: python='python3 -s'",
        "/home/alice/.bashrc:",
    ),
    "zsh": (
        "c3",
        "/etc/zsh/zshenv",
        "export PYTHONPATH=/opt/zsh",
        "warning",
        "PYTHONPATH is /opt/zsh",
        "/etc/zsh/zshenv:",
    ),
}


@pytest.mark.parametrize(
    ("contexts", "names"),
    [
        ("bash-login", "everywhere home preload function"),
        ("bash-login", "environment alias"),
        ("csh", "csh csh-alias"),
        ("bash-interactive zsh", "interactive zsh"),
    ],
)
def test_baggage_is_told_with_its_line(audited: Audited, contexts: str, names: str) -> None:
    """Several at once: each is told on its nodes alone."""
    asked = [word for context in contexts.split() for word in ("--context", context)]
    with ExitStack() as stack:
        for name in names.split():
            stack.enter_context(start_up(audited, *BAGGAGE[name][:3]))
        rows = told(audited, "ambient", *asked)
    for name in names.split():
        nodes, path, _, severity, found, hint = BAGGAGE[name]
        of = [f for f in rows if f["found"] == found]
        assert of, rows
        expected = "c[1-3]" if len(nodes.split()) == 3 or path.startswith("/home/") else nodes  # they share the homes
        assert {(f["severity"], f["nodes"]) for f in of} == {(severity, expected)}
        assert all(f["hint"].startswith(hint) for f in of), of


def test_profile_file_after_ours_is_named_and_node_setup_is_not(audited: Audited) -> None:
    with start_up(audited, "c2", "/etc/profile.d/zzz_lmod.sh", "export MODULEPATH=/sw/modules/all"):
        rows = told(audited, "contexts", "--context", "bash-login")
        assert {f["nodes"] for f in rows} == {"c2"}
        assert {f["hint"] for f in rows if f["found"].startswith("MODULEPATH has no modules")} == {
            "/etc/profile.d/zzz_lmod.sh:1 sets MODULEPATH after envmgr does: take that line away"
        }
        audited.cluster.sh("c2", "sed -i 1d /etc/profile.d/zzz_lmod.sh", check=True)
        assert audited.findings("--via", "ssh", code=0) == []  # the file is empty


def test_module_use_of_one_node_is_named(audited: Audited) -> None:
    audited.cluster.sh("c3", "mkdir -p /opt/mods", check=True)
    with start_up(audited, "c3", "/etc/profile.d/zzz_use.sh", "# for us\nmodule use /opt/mods"):
        rows = [f for f in told(audited, "contexts", "--context", "bash-login") if "/opt/mods" in f["found"]]
    audited.cluster.sh("c3", "rmdir /opt/mods", check=True)
    assert {(f["nodes"], f["found"]) for f in rows} == {("c3", "MODULEPATH also has /opt/mods")}
    assert {f["hint"] for f in rows} == {
        "/etc/profile.d/zzz_use.sh:2 sets it on c3: take that line away; no start-up file sets it on c[1-2]"
    }


def test_each_value_has_the_line_of_its_own_node(audited: Audited) -> None:
    with (
        start_up(audited, "c1", "/etc/profile.d/a.sh", "umask 077"),
        start_up(audited, "c2", "/etc/profile.d/z.sh", "umask 000"),
    ):
        rows = told(audited, "limits", "--context", "bash-login")
    assert {(f["between"], f["found"], f["hint"]) for f in rows} == {
        (
            "c[1-3]",
            "umask is 0000 on c2; umask is 0022 on c3; umask is 0077 on c1",
            "/etc/profile.d/z.sh:1 sets it on c2; /etc/profile.d/a.sh:1 sets it on c1; no start-up file sets it on c3",
        )
    }


def test_vendors_profile_of_one_node_is_compared_and_no_line_of_it_taken_away(audited: Audited) -> None:
    """It does not read /etc/profile.d, and is all that gives such a shell its PATH."""
    text = "# the vendor's\nexport PATH=/usr/local/bin:/usr/bin:/bin:/opt/vendor/bin\n"
    with shadowed_file(audited.cluster, "c2", "/etc/profile", text):
        found = audited.audit("--via", "ssh", "--check", "ambient", "--check", "startup-files", code=1)["findings"]
    rows = [f for f in found if "PATH is /usr" in f["found"]]
    assert {(f["nodes"], f["hint"]) for f in rows} == {
        (
            "c2",
            "/etc/profile:2 sets it on c2: a package's file, which is not as on c[1,3]: compare it; no start-up file sets it on c[1,3]",
        )
    }
    assert {step["do"] for f in found for step in f["actions"]} == {"look"}


def test_users_lmod_rc_is_named(audited: Audited) -> None:
    with start_up(audited, "c1", "/home/alice/.bash_profile", ". ~/.bashrc\nexport LMOD_RC=/nowhere/rc.lua"):
        rows = told(audited, "contexts", "--context", "bash-login")
    assert {(f["where"], f["found"], f["hint"]) for f in rows if f["found"].startswith("LMOD_RC")} == {
        (
            "bash-login (alice)",
            "LMOD_RC is /nowhere/rc.lua",
            "/home/alice/.bash_profile:2 sets LMOD_RC after envmgr does: take that line away",
        )
    }


def test_node_without_node_setup_is_told_to_get_it(audited: Audited) -> None:
    audited.cluster.sh("c2", "mv /etc/profile.d/zz-envmgr.sh /run/away", check=True)
    try:
        rows = told(audited, "contexts", "--context", "bash-login")
    finally:
        audited.cluster.sh("c2", "mv /run/away /etc/profile.d/zz-envmgr.sh", check=True)
    hints = {f["hint"] for f in rows if "MODULEPATH has no modules" in f["found"]}
    assert hints <= {"`envmgr node-setup --apply --nodes c2`"}


@pytest.mark.parametrize(
    ("do", "undo", "found"),
    [
        ("mount -t tmpfs -o mode=755 none /tmp", "umount /tmp", "alice cannot write in /tmp"),
        (
            "mount --bind /home/alice /home/alice && mount -o remount,bind,ro /home/alice",
            "umount /home/alice",
            "the home of alice cannot be written",
        ),
        ("mv /home/alice /home/away", "mv /home/away /home/alice", "the home of alice is not there"),
    ],
    ids=["tmp", "read-only-home", "no-home"],
)
def test_places_that_a_user_needs(audited: Audited, do: str, undo: str, found: str) -> None:
    audited.cluster.sh("c1", do, check=True)
    try:
        rows = audited.audit("--via", "ssh", "--check", "places", code=1)["findings"]
    finally:
        audited.cluster.sh("c1", undo, check=True)
    nodes = "c[1-3]" if do.startswith("mv ") else "c1"  # they share the homes
    assert (found, nodes) in {(f["found"], f["nodes"]) for f in rows if f["check"] == "places"}, rows


def test_zsh_is_asked_where_somebody_has_it(audited: Audited) -> None:
    assert "zsh" not in audited.audit("--via", "ssh", "--check", "contexts", code=0)["contexts"]
    for node in audited.cluster.compute:
        audited.cluster.sh(
            node, "cp -a /etc/passwd /run/passwd; sed -i '/^alice:/s|[^:]*$|/usr/bin/zsh|' /etc/passwd", check=True
        )
    try:
        result = audited.audit("--via", "ssh", "--check", "contexts", "--check", "software", code=0)
    finally:
        for node in audited.cluster.compute:
            audited.cluster.sh(node, "cat /run/passwd >/etc/passwd; rm /run/passwd", check=True)
    assert "zsh" in result["contexts"]
    assert result["findings"] == []
