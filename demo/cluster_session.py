"""The cluster's side of a demo: commands typed on its nodes, in fresh login shells, shown with their output as it comes."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

from demo.session import DemoError, LoginShell, Told, watched
from tests.helpers.cluster import Cluster


class ClusterSession(Told):
    """`cluster` is up. What is typed runs on its login node."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster = cluster

    def type(self, command: str, *, user: str = "root", status: int = 0) -> str:
        """Run a command line as this user would; DemoError for another exit status than `status`. Returns its output."""
        print(f"\n[{user}@login]$ {command}", flush=True)
        process = self.cluster.start("login", ["bash", "-lc", f"exec 2>&1 </dev/null\n{command}"], user=user)
        assert process.stdout is not None
        lines = []
        with watched(lambda: _kill(process)):
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
            process.wait()
        if process.returncode != status:
            raise DemoError(f"`{command}`: exit status {process.returncode}, expected {status}")
        return "".join(lines).strip("\n")

    def write(self, path: str, text: str, *, user: str = "root") -> None:
        """Write a file on the login node, and show what was written."""
        print(f"\n[{user}@login]$ cat > {path}\n{text.strip()}", flush=True)
        self.cluster.exec(
            "login", ["install", "-D", "-o", user, "-g", user, "-m", "644", "/dev/stdin", path], stdin=text, check=True
        )

    def login(self, user: str) -> LoginShell:
        """Open a login shell, which stays open until the cluster's end."""
        print(f"\n[{user}@login] logs in: a fresh `bash -l`", flush=True)
        return LoginShell(f"{user}@login", self.cluster.start("login", ["sh", "-c", "exec bash -l 2>&1"], user=user))


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
