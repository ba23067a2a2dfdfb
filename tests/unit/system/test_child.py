"""What a process of envmgr's own gets of the caller's shell, and the words for how it ended."""

from __future__ import annotations

import signal

import pytest

from envmgr.errors import ending, signal_text
from envmgr.system.child import NETWORK, passed


def test_proxies_and_certificates_pass_and_nothing_else() -> None:
    shell = {
        "https_proxy": "http://proxy:3128",
        "NO_PROXY": "localhost",
        "SSL_CERT_FILE": "/etc/site.pem",
        "PYTHONPATH": "/home/ada/lib",
        "LD_PRELOAD": "/home/ada/own.so",
        "SSL_CERT_FILES": "/etc/other.pem",
        "PROXY": "x",
    }
    assert passed(shell, *NETWORK) == {name: shell[name] for name in ("https_proxy", "NO_PROXY", "SSL_CERT_FILE")}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "ended with status 0"),
        (3, "ended with status 3"),
        (-signal.SIGTERM, "was ended by SIGTERM"),
        (-signal.SIGKILL, "was ended by SIGKILL (out of memory?)"),
        (-60, "was ended by signal 60"),
    ],
)
def test_how_a_process_ended_is_said_in_one_way(status: int, words: str) -> None:
    assert ending(status) == words


def test_a_number_that_no_signal_has_stays_a_number() -> None:
    assert signal_text(4096) == "signal 4096"
