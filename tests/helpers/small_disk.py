"""A prefix on a disk of its own, as small as a test wants it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import locked
from tests.helpers.standin.channel import Channel
from tests.helpers.waiting import wait_for


@dataclass
class Inside:
    """A mount namespace that a sleeping process keeps; what is mounted in it is seen nowhere else."""

    process: subprocess.Popen[bytes]

    def words(self) -> list[str]:
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", f"--target={self.process.pid}", *user, "--mount"]

    def sh(self, script: str) -> None:
        subprocess.run([*self.words(), "sh", "-ec", script], check=True, capture_output=True)

    def leave(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Small(Sandbox):
    """A sandbox whose prefix is a small disk, mounted for its own processes only. The prefix is looked at through /proc."""

    inside: Inside | None = None

    @staticmethod
    def enter(root: Path, script: str) -> Inside:
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        ready = root / "mounted"
        ready.unlink(missing_ok=True)
        text = f"set -e; {script}\ntouch {ready}; exec sleep infinity"
        process = subprocess.Popen(["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", text])
        inside = Inside(process)
        try:
            wait_for(lambda: ready.exists() or process.poll() is not None, what="the mount")
            assert process.poll() is None, script
        except BaseException:
            inside.leave()
            raise
        return inside

    def mount(self, size: str) -> None:
        (self.root / "prefix").mkdir()
        self.inside = self.enter(self.root, f"mount -t tmpfs -o size={size},mode=755 tmpfs {self.root}/prefix")

    def resize(self, size: str) -> None:
        assert self.inside is not None
        self.inside.sh(f"mount -o remount,size={size} {self.root}/prefix")

    @property
    def prefix(self) -> Path:
        return Path(f"/proc/{self.inside.process.pid}/root{self.root}/prefix") if self.inside else self.root / "prefix"

    def command(self, *argv: str) -> list[str]:
        assert self.inside is not None
        return [*self.inside.words(), *super().command(*argv)]

    def fill(self) -> None:
        """Take the last byte of the disk."""
        with (self.prefix / "ballast").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1024))
            except OSError:
                return

    def empty(self) -> None:
        (self.prefix / "ballast").unlink()


@contextmanager
def small_in(root: Path, channel: Channel) -> Iterator[Small]:
    """Locks without sidecars: sizes are not known, so that the check before the first byte lets everything through."""
    box = Small(root, str(channel.folder))
    box.settings["prefix"] = str(root / "prefix")
    box.write_site()
    plainly = Sandbox(root, str(channel.folder))  # `box` itself needs its mount
    locked(plainly, "kept/1.0", ["hello-activate"])
    locked(plainly, "hello/1.0", ["hello-prefix"])
    locked(plainly, "py/1.0", ["python"])
    for sidecar in root.glob("recipes/*/*/conda-lock.records.json"):
        sidecar.unlink()
    try:
        yield box
    finally:
        if box.inside:
            box.inside.leave()
