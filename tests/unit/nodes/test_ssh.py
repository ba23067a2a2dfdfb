"""ssh's words as reasons, and Slurm's: the real lines of OpenSSH 9.2 and Slurm 22.05."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.nodes import slurm, ssh

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Host key for c2 has changed and you have requested strict checking.
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("said", "reason", "connecting"),
    [
        (CHANGED, "Host key verification failed", True),
        ("ssh: connect to host c1 port 22: Connection refused\r\n", "Connection refused (port 22)", True),
        ("ssh: connect to host c1 port 2222: No route to host\n", "No route to host (port 2222)", True),
        ("ssh: Could not resolve hostname c9: Name or service not known\n", "Could not resolve hostname", True),
        ("root@c1: Permission denied (publickey).\n", "Permission denied (publickey)", True),
        (
            "No ED25519 host key is known for c1 and you have requested strict checking.\nHost key verification failed.\n",
            "Host key verification failed",
            True,
        ),
        (
            "kex_exchange_identification: Connection closed by remote host\nConnection closed by 10.77.0.101 port 22\n",
            "Connection closed",
            False,
        ),
        ("ControlSocket /tmp/x already exists, disabling multiplexing\n", "", False),
        ("mux_client_request_session: read from master failed: Broken pipe\n", "", False),
        ("", "", False),
        ("\n \n", "", False),
    ],
)
def test_reason_is_sshs_last_word_without_the_nodes_name(said: str, reason: str, *, connecting: bool) -> None:
    assert ssh.ssh_reason(said.encode()) == reason
    assert ssh.is_about_connecting(said.encode()) is connecting


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "srun: error: Unable to allocate resources: Requested nodes are busy\n",
            "Unable to allocate resources: Requested nodes are busy",
        ),
        (
            "srun: error: invalid partition specified: nope\nsrun: error: Unable to allocate resources: Invalid partition\n",
            "invalid partition specified: nope",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid node name specified\n",
            "Batch job submission failed: Invalid node name specified",
        ),
        (
            "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n",
            "Unable to contact slurm controller (connect failure)",
        ),
        ("srun: job 5 queued and waiting for resources\nsrun: error: task 0: Killed\n", "task 0: Killed"),
        ("", ""),
    ],
)
def test_reason_is_slurms_first_error(said: str, reason: str) -> None:
    assert slurm.slurm_reason(said.encode()) == reason


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (("idle", ""), ""),
        (("mixed", ""), ""),
        (("idle*", ""), ""),
        (("down*", "Not responding"), "Slurm: down, not responding: Not responding"),
        (("drained", "bad fan"), "Slurm: drained: bad fan"),
        (("draining", ""), "Slurm: draining"),
        (("powering_down", ""), "asleep: Slurm saves its power (powering_down)"),
        (("idle~", ""), "asleep: Slurm saves its power (idle~)"),
        (("down~", "power supply"), "Slurm: down~: power supply"),
    ],
)
def test_why_not_is_about_nodes_that_take_no_job(state: tuple[str, str], words: str) -> None:
    assert slurm.why_no_step({"c1": state}, "c1") == words
    assert slurm.why_no_step({"c1": state}, "c2") == "no partition of Slurm has this node"


def test_control_socket_lies_in_a_folder_of_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Path("/run/user-test-does-not-exist")
    assert ssh.control_socket(str(run)) != run / "envmgr-ssh/%C"  # no runtime folder: /tmp, or nowhere
    short = tmp_path / "r"
    monkeypatch.setattr(ssh, "_MOST_SOCKET", 500)  # pytest's folders are longer than a socket may be
    short.mkdir()
    assert ssh.control_socket(str(short)) == short / "envmgr-ssh/%C"
    (short / "envmgr-ssh").chmod(0o755)
    assert ssh.control_socket(str(short)) != short / "envmgr-ssh/%C"
    (short / "envmgr-ssh").rmdir()
    (short / "envmgr-ssh").symlink_to(tmp_path)
    assert ssh.control_socket(str(short)) != short / "envmgr-ssh/%C"
