"""Boots the test cluster, runs things on its nodes, ends it. What a node is: node.sh; its files: config.py."""

from __future__ import annotations

import compileall
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal

from envmgr.system.files import remove_tree
from tests.helpers.cluster import config, site
from tests.helpers.done import Done
from tests.helpers.places import ROOT
from tests.helpers.sites import with_backends
from tests.helpers.waiting import DEADLINE

Share = Literal["bind", "sshfs", "nfs"]
_SCRIPT = Path(__file__).with_name("node.sh")


class ClusterError(RuntimeError):
    """The cluster did not do what it must, with the log that says why."""


class Cluster:
    """`nodes` compute nodes, a login node and a file server; everything of it in `folder`, which must not exist.

    `share` is how the prefix reaches the nodes: `bind` has no cache and cannot hang; `sshfs` is read-only (the login node
    has the server's disk); `nfs` is a real NFSv3 server, with attributes cached 3 s. `mount_options` is for the client, as
    words (`-A 1 -E 1` of nfsfuse.c, `-o dcache_timeout=5` of sshfs), or for the bind mount (`nosuid`).
    The cluster lives as long as its owner, the process that called `up`, unless `detached`.
    """

    def __init__(self, folder: Path, *, nodes: int = 3, share: Share = "bind", mount_options: str = "") -> None:
        self.folder = folder
        self.share = share
        self.mount_options = mount_options
        self.compute = tuple(f"c{i}" for i in range(1, nodes + 1))
        self.names = ("login", "fs1", *self.compute)
        self.prefix = config.PREFIX
        self._holder: subprocess.Popen[bytes] | None = None
        self._control: IO[bytes] | None = None
        self._started: list[subprocess.Popen[str]] = []

    @classmethod
    def attach(cls, folder: Path) -> Cluster:
        """The cluster that another process started, detached, in `folder`."""
        state = json.loads((folder / "state.json").read_text())
        cluster = cls(folder, nodes=state["nodes"], share=state["share"], mount_options=state["mount_options"])
        cluster._control = os.fdopen(os.open(folder / "control", os.O_RDWR), "wb", buffering=0)
        return cluster

    @property
    def host_prefix(self) -> Path:
        """The prefix as the file server has it, readable and writable from outside of the cluster."""
        return self.folder / "export/sw"

    @property
    def holder(self) -> int:
        """The id of the process that all others of the cluster end with; its network namespace has the bridge."""
        pid = self._holder_pid()
        if pid is None:
            raise ClusterError("the cluster is not up")
        return pid

    def bound(self, node: str) -> bool:
        """Whether the prefix is a bind mount on this node, so that it cannot hang. See node.sh."""
        return self.share == "bind" or (self.share == "sshfs" and node == "login")

    # -- its life ------------------------------------------------------------------------------------------------------

    def up(self, *, detached: bool = False, timeout: float = DEADLINE) -> None:
        """Boot every node and wait until Slurm can use all; on failure nothing stays."""
        self.folder.mkdir(parents=True)
        compileall.compile_dir(ROOT / "envmgr", quiet=2)  # nodes cannot write there: each command would compile
        try:
            config.write_files(self.folder, self.compute, self.share, self.mount_options)
            self._start_holder(detached=detached)
            self._wait((self.folder / "holder").exists, "the holder", timeout)
            self.boot(*self.names, timeout=timeout)
            self.wait_idle(timeout)
        except BaseException:
            self.down()
            raise

    def _start_holder(self, *, detached: bool) -> None:
        stdin: int = subprocess.PIPE
        if detached:  # open for reading and writing at its own end: never at its end
            os.mkfifo(self.folder / "control", 0o600)
            stdin = os.open(self.folder / "control", os.O_RDWR)
        with (self.folder / "log/holder").open("wb") as log:
            self._holder = subprocess.Popen(
                [
                    "unshare",
                    "--net",
                    "--mount",
                    "--pid",
                    "--propagation",
                    "private",
                    "--fork",
                    "--kill-child",
                    "bash",
                    _SCRIPT,
                    "holder",
                    self.folder,
                ],
                stdin=stdin,
                stdout=log,
                stderr=log,
                env=config.CLEAN,
                start_new_session=True,
            )
        self._control = os.fdopen(stdin, "wb", buffering=0) if detached else self._holder.stdin
        state = {"nodes": len(self.compute), "share": self.share, "mount_options": self.mount_options}
        state["holder"] = self._holder.pid
        (self.folder / "state.json").write_text(json.dumps(state))

    def boot(self, *nodes: str, timeout: float = DEADLINE) -> None:
        """Start nodes that are not there, and wait until their services run and the prefix is mounted."""
        assert self._control is not None, "the cluster is not up"
        for node in nodes:
            (self.folder / "pids" / node).unlink(missing_ok=True)
            self._control.write(f"boot {node}\n".encode())
            self._control.flush()
        for node in nodes:
            self._wait(lambda node=node: self._ready(node), node, timeout)  # type: ignore[misc]

    def _ready(self, node: str) -> bool:
        with suppress(ClusterError):
            pid = self.pid(node)
            if not self.alive(node):
                raise ChildProcessError(node)
            return Path(f"/proc/{pid}/root/run/node-ready").exists()
        return False

    def down(self) -> None:
        """End every process of the cluster, and with them all mounts and networks; remove its folder."""
        holder = self._holder_pid()
        if holder is not None:
            with suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)
        if self._control is not None:
            with suppress(OSError):
                self._control.close()
            self._control = None
        pids = [int(text) for path in self.folder.glob("pids/[!.]*") if (text := path.read_text())]
        if self._holder is not None:
            self._holder.wait()
        self._wait(lambda: not any(_runs(pid, self.folder) for pid in pids), "the nodes' end", DEADLINE)
        self._holder = None
        if self.folder.exists():
            remove_tree(self.folder)

    def _holder_pid(self) -> int | None:
        """The holder, unless it is gone and its id another process's by now."""
        if self._holder is not None:
            return self._holder.pid
        with suppress(OSError):
            pid = int(json.loads((self.folder / "state.json").read_text())["holder"])
            return pid if _runs(pid, self.folder) else None
        return None

    def running(self) -> bool:
        pid = self._holder_pid()
        return pid is not None and _runs(pid, self.folder)

    def _wait(self, condition: Callable[[], bool], what: str, timeout: float) -> None:
        end = time.monotonic() + timeout
        try:
            while not condition():
                if time.monotonic() > end:
                    raise ClusterError(f"{what}: not there after {timeout:.0f} s\n{self._log(what)}")
                time.sleep(0.02)
        except ChildProcessError:
            raise ClusterError(f"{what}: died\n{self._log(what)}") from None

    def _log(self, node: str) -> str:
        files = [self.folder / "log/holder", self.folder / "log" / node]
        return "".join(path.read_text(errors="replace")[-4000:] for path in files if path.is_file())

    # -- its nodes -----------------------------------------------------------------------------------------------------

    def pid(self, node: str) -> int:
        """The id, on this machine, of the first process of a node."""
        with suppress(OSError, ValueError):
            return int((self.folder / "pids" / node).read_text())
        raise ClusterError(f"{node} has not started")

    def alive(self, node: str) -> bool:
        return _runs(self.pid(node), self.folder)

    def _command(self, node: str, argv: Sequence[str | Path], user: str, env: Mapping[str, str] | None) -> list[str]:
        if not self.alive(node):
            raise ClusterError(f"{node} is dead")
        home = "/root" if user == "root" else f"/home/{user}"
        become = [] if user == "root" else ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
        environ = {"HOME": home, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", **(env or {})}
        return [
            "nsenter",
            "-t",
            str(self.pid(node)),
            "-m",
            "-u",
            "-i",
            "-n",
            "-p",
            "-r",
            "-w",
            "--",
            *become,
            "env",
            "-C",
            home,
            *(f"{name}={value}" for name, value in environ.items()),
            *map(str, argv),
        ]

    def start(
        self, node: str, argv: Sequence[str | Path], *, user: str = "root", env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a program on a node, in a process group of its own and an environment without anything of the host's."""
        process = subprocess.Popen(
            self._command(node, argv, user, env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=config.CLEAN,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def exec(
        self,
        node: str,
        argv: Sequence[str | Path],
        *,
        user: str = "root",
        stdin: str = "",
        timeout: float = DEADLINE,
        env: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on a node to its end. `timeout` is seconds, after which it is killed and TimeoutExpired raised."""
        process = self.start(node, argv, user=user, env=env)
        try:
            stdout, stderr = process.communicate(stdin, timeout)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()  # nsenter; what hangs on a dead mount is left behind
            for stream in (process.stdin, process.stdout, process.stderr):
                with suppress(OSError):
                    stream.close()  # type: ignore[union-attr]
            raise
        if check and process.returncode:
            raise ClusterError(f"{node}: {argv}: exit {process.returncode}\n{stdout}{stderr}")
        return subprocess.CompletedProcess(list(map(str, argv)), process.returncode, stdout, stderr)

    def interactive(self, node: str, argv: Sequence[str | Path], *, user: str = "root") -> int:
        """Run a program on a node in this terminal; returns its exit status."""
        term = {"TERM": os.environ.get("TERM", "dumb")}
        return subprocess.run(self._command(node, argv, user, term), env=config.CLEAN, check=False).returncode

    def sh(self, node: str, script: str, user: str = "root", **options: Any) -> subprocess.CompletedProcess[str]:
        return self.exec(node, ["bash", "-c", script], user=user, **options)

    def write(self, node: str, path: str | Path, text: str, mode: int = 0o644) -> None:
        self.exec(node, ["install", "-D", "-m", f"{mode:o}", "/dev/stdin", path], stdin=text, check=True)

    def processes(self, node: str) -> list[str]:
        """The command lines of all that runs on a node, oldest first."""
        found = []
        for folder in Path(f"/proc/{self.pid(node)}/root/proc").glob("[0-9]*"):
            with suppress(OSError):  # ended meanwhile
                line = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
                found.append((int(folder.name), line))
        return [line for _, line in sorted(found) if line]

    def slurm_state(self, node: str) -> str:
        """As sinfo says it: `idle`, `down*`, `drained`…"""
        return self.exec("login", ["sinfo", "-h", "-N", "-n", node, "-o", "%T"]).stdout.strip()

    def wait_idle(self, timeout: float = DEADLINE) -> None:
        """Wait until Slurm has all compute nodes free for work."""
        want = set(self.compute)
        self._wait(lambda: want == self._idle(), "Slurm's idle nodes", timeout)

    def _idle(self) -> set[str]:
        return set(self.exec("login", ["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"]).stdout.split())

    def clear(self) -> None:
        """End what a test has left, if it has: programs that it started, jobs, dead nodes. Slurm has all nodes free then."""
        for process in self._started:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                with suppress(OSError):
                    stream.close()  # type: ignore[union-attr]
        self._started.clear()
        for node in self.names:
            if not self.alive(node):
                self.boot(node)
        if self.exec("login", ["sh", "-c", "squeue -h; sinfo -h -N -t idle -o %N | wc -l"]).stdout.split() == [
            str(len(self.compute))
        ]:
            return
        self.sh("login", "squeue -h -o %i | xargs -r scancel")
        self._wait(lambda: not self.exec("login", ["squeue", "-h"]).stdout, "an empty queue", DEADLINE)
        for node in set(self.compute) - self._idle():  # for a node that is only late this is refused, and does no harm
            self.exec("login", ["scontrol", "update", f"nodename={node}", "state=resume"])
        self.wait_idle()

    # -- envmgr on it --------------------------------------------------------------------------------------------------

    def envmgr(
        self,
        argv: Sequence[str],
        *,
        node: str = "login",
        user: str = "root",
        env: Mapping[str, str] | None = None,
        timeout: float = 2 * DEADLINE,
    ) -> Done:
        """Run `envmgr ARGV…` to its end; a traceback on stderr fails the test whatever the exit code."""
        environ = {"ENVMGR_SITE": str(site.SITE), **(env or {})}
        done = self.exec(node, [sys.executable, "-m", "envmgr", *argv], user=user, env=environ, timeout=timeout)
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def put_envmgr_on_path(self) -> None:
        """In shells of the login node, `envmgr` is this checkout's."""
        text = f'#!/bin/sh\nexec {sys.executable} -m envmgr "$@"\n'
        self.write("login", "/usr/local/bin/envmgr", text, 0o755)

    def write_site(self, **overrides: Any) -> None:
        """Write the site of this cluster on the login node; `overrides` replace whole top-level keys."""
        self.exec("login", ["install", "-d", "-o", "rsw", "-g", "rsw", site.SITE.parent / "recipes"], check=True)
        self.write("login", site.SITE, json.dumps(with_backends(site.settings(self.compute) | overrides), indent=1))

    def empty_prefix(self, owner: str = "root") -> None:
        """Nothing was ever published, whatever tests before have left there; the store and the cache stay."""
        script = f"cd /export/sw && rm -rf generations current flips var/history.jsonl && chown {owner}: ."
        self.sh("fs1", script, check=True)

    def recipe(self, entry: str, specs: list[str], **fields: Any) -> Path:
        """Write a conda recipe and its software.yaml into the site's catalog; returns the recipe's folder on the login node."""
        folder, files = site.recipe(entry, specs, fields)
        for path, text in files.items():
            self.write("login", path, text)
        self.exec("login", ["chown", "-R", "rsw:", site.SITE.parent / "recipes"], check=True)
        return folder


def _runs(pid: int, folder: Path) -> bool:
    """Whether a process of the cluster in `folder` has this id: not a zombie, nor one of another cluster."""
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
