"""`audit --format ganglia`, sent by real gmetrics to a real gmond, which then has the numbers in its XML."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from envmgr.audit.metrics import HELP
from envmgr.cli.render import answer_text
from envmgr.errors import EnvmgrError, Interrupted
from tests.helpers.exposition import WELL, parse, text
from tests.helpers.sandbox import Sandbox
from tests.helpers.waiting import DEADLINE, soon

pytestmark = pytest.mark.skipif(shutil.which("gmond") is None, reason="needs Debian's ganglia-monitor")

# One host, which listens on its loopback alone; no multicast.
CONF = """
globals { daemonize = no  setuid = no  debug_level = 0  max_udp_msg_len = 1472  mute = no  deaf = no  allow_extra_data = yes
  host_dmax = 86400  cleanup_threshold = 300  send_metadata_interval = 30 }
cluster { name = "tests" }
udp_send_channel { host = 127.0.0.1  port = @PORT@ }
udp_recv_channel { port = @PORT@  bind = 127.0.0.1 }
tcp_accept_channel { port = @PORT@  bind = 127.0.0.1 }
"""


@dataclass(frozen=True)
class Gmond:
    port: int
    conf: Path

    def send(self, script: str) -> None:
        """As cron does: `envmgr audit --format ganglia | sh`."""
        env = {"PATH": os.environ["PATH"], "GMETRIC": f"gmetric -c {self.conf}"}
        subprocess.run(
            ["sh", "-e"], input=script, text=True, env=env, check=True, timeout=DEADLINE, cwd=self.conf.parent
        )

    def metrics(self) -> dict[str, ET.Element]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE) as connection:
            said = b"".join(iter(lambda: connection.recv(65536), b""))
        return {each.attrib["NAME"]: each for each in ET.fromstring(said).iter("METRIC")}

    def values(self, count: int) -> dict[str, str]:
        """The value of each metric, once there are `count`."""
        assert soon(lambda: len(self.metrics()) >= count)
        return {name: each.attrib["VAL"] for name, each in self.metrics().items()}


@pytest.fixture
def gmond(tmp_path: Path) -> Iterator[Gmond]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    conf = tmp_path / "gmond.conf"
    conf.write_text(CONF.replace("@PORT@", str(port)))
    process = subprocess.Popen(["gmond", "-f", "-c", conf], stderr=subprocess.DEVNULL)

    def listens() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    try:
        assert soon(listens)
        yield Gmond(port, conf)
    finally:
        process.kill()
        process.wait()


@pytest.mark.always
def test_gmond_has_every_number_that_prometheus_gets_except_those_of_single_nodes(gmond: Gmond) -> None:
    result = replace(WELL, staged={"pytorch/2.7-cuda12.9": 2, "gcc_c++/1": 0})
    gmond.send(text(result, "ganglia"))
    expected = {
        "_".join((name, *(value for _, value in sorted(labels, key=order)))).replace("/", "_"): number
        for name, samples in parse(text(result, "prometheus")).items()
        for labels, number in samples.items()
    }
    found = gmond.values(len(expected) + 1)
    assert found.pop("envmgr_audit_error_info") == "none"
    assert {name: float(value) for name, value in found.items()} == expected
    assert expected["envmgr_entry_staged_nodes_pytorch_2.7-cuda12.9"] == 2
    assert expected["envmgr_audit_findings_mount_error"] == 0
    one = gmond.metrics()["envmgr_audit_findings_mount_error"]
    assert (one.attrib["TMAX"], one.attrib["DMAX"], one.attrib["TYPE"]) == ("3600", "21600", "double")
    extra = {each.attrib["NAME"]: each.attrib["VAL"] for each in one.iter("EXTRA_ELEMENT")}
    assert (extra["GROUP"], extra["DESC"]) == ("envmgr", HELP["envmgr_audit_findings"])


def order(label: tuple[str, str]) -> int:
    """Where a label's value is in the name."""
    return ("way", "status", "check", "severity", "entry").index(label[0])


def test_gmond_has_why_an_audit_of_the_command_line_failed(gmond: Gmond, sandbox: Sandbox) -> None:
    done = sandbox.run("audit", "--nodes", "c1", "--check", "moun", "--format", "ganglia")
    assert (done.code, "there is no check `moun`" in done.stderr) == (2, True)
    gmond.send(done.stdout)
    found = gmond.values(3)
    assert found.pop("envmgr_audit_timestamp_seconds").startswith("1")
    assert found == {"envmgr_audit_success": "0", "envmgr_audit_error_info": "unknown-check"}


def test_names_are_no_commands_of_the_shell(gmond: Gmond) -> None:
    evil = "a/1'; touch pwned; $(touch pwned) `touch pwned`\n\"touch pwned"
    gmond.send(text(replace(WELL, staged={evil: 3}), "ganglia"))
    gmond.send(text(EnvmgrError(evil, "x"), "ganglia"))
    found = gmond.values(1)
    assert not (gmond.conf.parent / "pwned").exists()
    (name,) = [each for each in found if "touch" in each]
    assert name == "envmgr_entry_staged_nodes_a_1___touch_pwned____touch_pwned___touch_pwned___touch_pwned"
    assert answer_text(Interrupted(), "ganglia", now=0) is None
