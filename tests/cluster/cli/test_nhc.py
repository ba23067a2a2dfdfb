"""contrib/nhc on a real node: healthy, and each way in which a node is not, as NHC's own words.

NHC is what tests/helpers/cluster/nhc.sh says it is; where ENVMGR_NHC names a checkout of NHC, it is that one.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import Cluster, faults
from tests.helpers.places import ROOT
from tests.helpers.waiting import HANGS, wait_for

pytestmark = pytest.mark.xdist_group("audited")

NODE = "c1"
CHECK = ROOT / "contrib/nhc/envmgr.nhc"
STANDIN = ROOT / "tests/helpers/cluster/nhc.sh"
FAILED = "ERROR:  nhc:  Health check failed:  check_envmgr:  "
PROFILE = "/etc/profile.d/zz-envmgr.sh"


@pytest.fixture
def checked(audited: Audited) -> Iterator[Audited]:
    """NHC on a node, with our check alone, as contrib/README.md says."""
    cluster = audited.cluster
    if source := os.environ.get("ENVMGR_NHC"):
        cluster.write(NODE, "/usr/local/sbin/nhc", Path(source, "nhc").read_text(), 0o755)
        cluster.write(NODE, "/etc/nhc/scripts/common.nhc", Path(source, "scripts/common.nhc").read_text())
        cluster.write(NODE, "/etc/default/nhc", "MARK_OFFLINE=0\nLOGFILE=-\n")
    else:
        cluster.write(NODE, "/usr/local/sbin/nhc", STANDIN.read_text(), 0o755)
    cluster.write(NODE, "/etc/nhc/scripts/envmgr.nhc", CHECK.read_text())
    configure(cluster)
    yield audited
    cluster.sh(
        NODE, "rm -rf /etc/nhc /etc/default/nhc /usr/local/sbin/nhc /run/envmgr-nhc /run/nhc-offline", check=True
    )


def configure(cluster: Cluster, options: str = "") -> None:
    cluster.write(NODE, "/etc/nhc/nhc.conf", f"# checks\n * || check_envmgr {options}\n")


def nhc(scene: Audited, *words: str) -> tuple[int, list[str]]:
    """Its exit status, and the lines that it said of a check that failed."""
    done = scene.cluster.exec(NODE, ["/usr/local/sbin/nhc", *words], timeout=HANGS)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("ERROR")]
    said = [line for line in said if not line.endswith(" health checks failed.")]  # the closing line of -a
    assert [line for line in said if not line.startswith(FAILED)] == [], done.stdout + done.stderr
    assert "'" not in "".join(said)
    return done.returncode, list(dict.fromkeys(line.removeprefix(FAILED) for line in said))


METRICS = "/run/envmgr.prom"


def by_audit(scene: Audited, text: str, options: str = "") -> tuple[int, list[str]]:
    """What NHC says where the host that audits has written `text`."""
    scene.cluster.write(NODE, METRICS, text)
    scene.cluster.write(NODE, "/etc/nhc/nhc.conf", f" * || check_envmgr_audit {METRICS} {options}\n")
    return nhc(scene)


def test_a_node_is_drained_for_errors_that_an_audit_from_elsewhere_found(checked: Audited) -> None:
    success = "envmgr_audit_success 1\n"
    folders = 'envmgr_audit_node_findings{node="c1",check="inventory",severity="error"} 1\n'
    other = 'envmgr_audit_node_findings{node="c11",check="inventory",severity="error"} 1\n'
    mild = 'envmgr_audit_node_findings{node="c1",check="software",severity="warning"} 2\n'
    assert by_audit(checked, success + other + mild) == (0, [])
    found = "the audit found: {}; envmgr audit, on the host that wrote " + METRICS + ", says more"
    assert by_audit(checked, success + other + folders + mild) == (1, [found.format("inventory")])
    assert by_audit(checked, success + mild, "-s warning") == (1, [found.format("software")])
    assert by_audit(checked, "envmgr_audit_success 0\n" + folders) == (0, [])  # the audit's fault, not the node's
    assert by_audit(checked, success, "-s all")[0] == 1
    checked.cluster.write(NODE, "/etc/nhc/nhc.conf", f" * || check_envmgr_audit {METRICS}.gone\n")
    assert nhc(checked) == (0, [])
    checked.cluster.sh(NODE, f"touch -d '4 hours ago' {METRICS}", check=True)
    checked.cluster.write(NODE, "/etc/nhc/nhc.conf", f" * || check_envmgr_audit {METRICS}\n")
    assert nhc(checked) == (0, [])


@contextmanager
def hidden(cluster: Cluster, path: str) -> Iterator[None]:
    """A file of the node is not there, and then is again."""
    cluster.sh(NODE, f"mv {path} /run/hidden", check=True)
    try:
        yield
    finally:
        cluster.sh(NODE, f"mv /run/hidden {path}", check=True)


@contextmanager
def start_up_file(cluster: Cluster, text: str) -> Iterator[None]:
    """A start-up file of login shells, after ours."""
    path = "/etc/profile.d/zzz-site.sh"
    cluster.write(NODE, path, text)
    try:
        yield
    finally:
        cluster.sh(NODE, f"rm {path}", check=True)


def test_a_healthy_node_passes_and_says_what_was_looked_at_when_asked(checked: Audited) -> None:
    assert nhc(checked) == (0, [])
    done = checked.cluster.exec(NODE, ["/usr/local/sbin/nhc", "-d"])
    assert (
        f"check_envmgr:  a login shell of nobody has generation {checked.generation:04} of {checked.cluster.prefix}"
        in done.stdout + done.stderr
    )


@pytest.mark.parametrize("options", ["-u alice", "-p /cluster/sw -t 20 -u root"])
def test_other_users_and_a_named_prefix_are_looked_at(checked: Audited, options: str) -> None:
    configure(checked.cluster, options)
    assert nhc(checked) == (0, [])


def test_a_node_without_the_mount_fails(checked: Audited) -> None:
    prefix = checked.cluster.prefix
    with faults.unmounted(checked.cluster, NODE):
        assert nhc(checked) == (1, [f"{prefix}/current is not there; it lies on /: not mounted?"])
    assert nhc(checked) == (0, [])


def test_a_prefix_that_hangs_fails_in_time(checked: Audited) -> None:
    """Each time: what was left behind may be there still, or could be killed, as the file system's client has it."""
    cluster = checked.cluster
    configure(cluster, "-t 1")
    with faults.hung(cluster, NODE):
        for _ in range(3):
            code, (said,) = nhc(checked)
            assert code == 1
            assert said.startswith((f"{cluster.prefix} did not answer in 1 s", f"{cluster.prefix} hangs: process "))
    wait_for(lambda: nhc(checked) == (0, []), what="the end of what was left behind")


def test_while_a_process_that_was_left_behind_waits_no_other_is_started(checked: Audited) -> None:
    cluster = checked.cluster
    began = "set -- $(sed 's/.*) //' /proc/$!/stat); shift 19"
    left = cluster.sh(
        NODE, f"sleep {HANGS} >/dev/null 2>&1 & {began}; echo $! $1 | tee /run/envmgr-nhc", check=True
    ).stdout.split()
    hangs = f"{cluster.prefix} hangs: process {left[0]} of an earlier check still waits for it"
    assert nhc(checked) == (1, [hangs])
    cluster.write(NODE, "/run/envmgr-nhc", f"{left[0]} {int(left[1]) - 1}\n")
    assert nhc(checked) == (0, []), "another process has this id now"
    cluster.write(NODE, "/run/envmgr-nhc", " ".join(left))
    cluster.sh(NODE, f"kill {left[0]}", check=True)
    wait_for(lambda: nhc(checked) == (0, []), what="its end")


def test_a_file_of_node_setup_that_is_missing_is_named_with_what_mends_it(checked: Audited) -> None:
    for path in (PROFILE, "/etc/envmgr/node/pin", "/etc/envmgr/node/settings"):
        with hidden(checked.cluster, path):
            assert nhc(checked) == (1, [f"{path} is not there: envmgr node-setup --apply --nodes {NODE}"])
    assert nhc(checked) == (0, [])


def test_a_login_shell_without_the_modules_or_with_others_fails(checked: Audited) -> None:
    prefix, number = checked.cluster.prefix, f"{checked.generation:04}"
    with start_up_file(checked.cluster, "export MODULEPATH=/etc/lmod/modules\n"):
        said = f"a login shell of nobody has no modules of {prefix}: MODULEPATH is /etc/lmod/modules"
        assert nhc(checked) == (1, [said])
    old = f"{prefix}/generations/0000/modules"
    with start_up_file(checked.cluster, f"export MODULEPATH={old}:$MODULEPATH\n"):
        assert nhc(checked) == (1, [f"a login shell of nobody has {old}, and generation {number} is current"])
    with start_up_file(checked.cluster, "unset -f module ml; unset BASH_ENV\n"):
        assert nhc(checked) == (1, ["a login shell of nobody has no module: is Lmod installed?"])
    with start_up_file(checked.cluster, "export LMOD_CMD=/gone/lmod; unset BASH_ENV\n"):
        assert nhc(checked) == (1, ["the command of Lmod cannot be run: /gone/lmod"])
    assert nhc(checked) == (0, [])


def test_a_login_shell_that_does_not_end_is_ended(checked: Audited) -> None:
    configure(checked.cluster, "-t 5")  # the prefix has to answer in that time, on a busy machine too
    with start_up_file(checked.cluster, "case $USER in nobody) sleep 86399 ;; esac\n"):
        assert nhc(checked) == (1, ["a login shell of nobody did not end in 10 s"])
    assert [line for line in checked.cluster.processes(NODE) if "86399" in line] == []


def test_words_of_the_node_reach_no_shell(checked: Audited) -> None:
    """NHC puts what a check says between single quotes, and evaluates that."""
    evil = "/x'; touch /run/evil; echo '$(touch /run/evil)"
    with start_up_file(checked.cluster, f"export MODULEPATH={shlex.quote(evil)}\n"):
        code, (said,) = nhc(checked)
    assert (code, said) == (
        1,
        f"a login shell of nobody has no modules of {checked.cluster.prefix}: MODULEPATH is {evil.replace(chr(39), '')}",
    )
    assert checked.cluster.exec(NODE, ["test", "-e", "/run/evil"]).returncode == 1


def test_a_current_that_leads_nowhere_fails(checked: Audited) -> None:
    """A copy of the prefix on this node, as a broken mirror would be."""
    cluster, prefix = checked.cluster, checked.cluster.prefix
    number = f"{checked.generation:04}"
    with faults.old_copy(cluster, NODE):
        assert nhc(checked) == (0, [])
        cluster.sh(NODE, f"rm -f {prefix}/generations/{number}/generation.json", check=True)
        code, (said,) = nhc(checked)
        assert (code, said.partition(";")[0]) == (1, f"{prefix}/generations/{number}/generation.json cannot be read")
        cluster.sh(NODE, f"ln -sfn elsewhere {prefix}/current", check=True)
        code, (said,) = nhc(checked)
        assert (code, said.partition(";")[0]) == (1, f"{prefix}/current names no generation, but elsewhere")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-x", "-x is no option, or lacks its value: [-p PREFIX] [-t SECONDS] [-u USER]"),
        ("-t soon", "-t soon: not a number of seconds"),
        ("-u nosuchuser", "there is no user nosuchuser"),
        ("-p /nowhere/sw", "/nowhere/sw is not there; it lies on /: not mounted?"),
    ],
)
def test_a_line_of_nhc_conf_that_is_wrong_is_told(checked: Audited, options: str, said: str) -> None:
    configure(checked.cluster, options)
    assert nhc(checked) == (1, [said])


def test_with_all_checks_asked_for_one_failure_is_told_once(checked: Audited) -> None:
    """Then `die` comes back."""
    with hidden(checked.cluster, PROFILE):
        code, said = nhc(checked, "-a")
    assert (code, len(said)) == (1, 1)
