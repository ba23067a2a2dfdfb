"""A real rsyslogd on a /dev/log of its own: commands that run in the scene have another /dev, and the machine's is not touched."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.waiting import DEADLINE

_DEV = """set -e
mount -t tmpfs none "$1"
for each in null zero full random urandom tty; do : >"$1/$each"; mount --bind "/dev/$each" "$1/$each"; done
ln -s /proc/self/fd "$1/fd"; ln -s fd/0 "$1/stdin"; ln -s fd/1 "$1/stdout"; ln -s fd/2 "$1/stderr"
mkdir "$1/shm"; chmod 1777 "$1/shm"
mount --move "$1" /dev
echo ready
exec sleep 1000000
"""

_TEXT = "%syslogtag%%msg:::sp-if-no-1st-sp%%msg:::drop-last-lf%\\n"
_CONF = """module(load="imuxsock")
template(name="line" type="string" string="%timestamp:::date-rfc3339% %hostname% {text}")
action(type="omfile" file="{file}" template="line")
"""


@dataclass
class Syslog:
    """A folder with the log, and a mount namespace in which /dev/log is the socket of this rsyslogd."""

    folder: Path
    holder: subprocess.Popen[str]
    own: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "log" / "syslog"

    def enter(self, *argv: str) -> list[str]:
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self.holder.pid), *user, "--mount", *argv]

    def run(
        self, *argv: str, env: Mapping[str, str] | None = None, text: str = "", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.enter(*argv),
            input=text,
            env=None if env is None else dict(env),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
            check=False,
        )

    def start(self) -> None:
        """Start rsyslogd, and wait for its socket."""
        conf = self.folder / "rsyslog.conf"
        self.log.parent.mkdir(exist_ok=True)
        conf.write_text(_CONF.format(text=_TEXT, file=self.log))
        argv = ["rsyslogd", "-n", "-f", str(conf), "-i", str(self.folder / f"rsyslog.{len(self.own)}.pid")]
        with (self.folder / "rsyslog.err").open("ab") as errors:
            self.own.append(subprocess.Popen(self.enter(*argv), stderr=errors))
        self.wait_for("test -S /dev/log")

    def wait_for(self, script: str) -> None:
        until = time.monotonic() + DEADLINE
        while self.run("sh", "-c", script).returncode != 0:
            assert time.monotonic() < until, f"{script}: {(self.folder / 'rsyslog.err').read_text()}"
            time.sleep(0.05)

    def lines(self) -> list[str]:
        """What was said of loads so far, behind the tag."""
        self.run("logger", "-t", "envmgr", "--", "end")
        self.wait_for(f"tail -n 1 {self.log} | grep -q 'envmgr: end'")
        texts = self.log.read_text().splitlines()
        return [text.partition("envmgr: ")[2] for text in texts if "envmgr: load" in text]


@contextmanager
def syslog(folder: Path) -> Iterator[Syslog]:
    """Yield the scene; rsyslogd does not run yet, and there is no /dev/log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dev").mkdir()
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    holder = subprocess.Popen(
        ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", _DEV, "sh", str(folder / "dev")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    made = Syslog(folder, holder)
    try:
        assert holder.stdout.readline() == "ready\n"
        yield made
    finally:
        for process in made.own:
            process.kill()
            process.wait()
        holder.kill()
        holder.wait()
        holder.stdout.close()
