"""Images of the audited cluster's entry, on its nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.helpers.audit_scene import SITE, Audited
from tests.helpers.cluster.disguises import do
from tests.helpers.done import Done
from tests.helpers.waiting import wait_for

ENTRY = "hello/1.0"
LOCAL = "/var/lib/envmgr/images"


class Images:
    """The images of a cluster's entry, and what nodes have of them."""

    def __init__(self, audited: Audited) -> None:
        self.audited, self.cluster = audited, audited.cluster
        # Other tests of the same cluster have made more installs of it.
        current = json.loads((self.cluster.host_prefix / "current/generation.json").read_text())
        host = self.cluster.host_prefix / current["entries"][ENTRY]["path"]
        self.install = f"{self.cluster.prefix}/store/hello/{host.name}"
        self.image = f"{self.cluster.prefix}/images/hello/{host.name}.sqfs"
        self.host_image = self.cluster.host_prefix / "images/hello" / f"{host.name}.sqfs"

    def run(self, *argv: str, code: int = 0, **options: str) -> Done:
        done = self.cluster.envmgr([*argv], **options)  # type: ignore[arg-type]
        assert done.code == code, f"{argv}: exit {done.code}\n{done.stdout}{done.stderr}"
        return done

    def stage(self, *argv: str, code: int = 0, nodes: str = "c[1-3]") -> dict[str, tuple[str, str]]:
        """nodes -> (state, why)."""
        return rows_of(self.run("stage", ENTRY, "--nodes", nodes, "--format", "json", *argv, code=code))

    def staged(self) -> dict[str, tuple[str, str]]:
        return rows_of(self.run("stage", "--status", "--format", "json"))

    def unstage(self, code: int = 0) -> Done:
        return self.run("stage", "--remove", "--all", "--format", "json", code=code)

    def source(self, node: str) -> str:
        """The file that the loop device reads which is mounted over the install; empty where nothing is."""
        script = f"""
        loop=$(sed -n 's#.* {self.install} .* - squashfs /dev/\\(loop[0-9]*\\) .*#\\1#p' /proc/self/mountinfo)
        [ -z "$loop" ] || cat /sys/class/block/$loop/loop/backing_file"""
        return do(self.cluster, node, script).strip()

    def copy(self, node: str) -> str:
        return do(self.cluster, node, f"ls {LOCAL}/*.sqfs").strip()

    @contextmanager
    def working(self, node: str, folder: str) -> Iterator[None]:
        """A process of alice's works in a folder of the install."""
        process = self.cluster.start(node, ["sh", "-c", f"cd {folder} && exec sleep 1277"], user="alice")
        wait_for(lambda: any("sleep 1277" in line for line in self.cluster.processes(node)), what="the process")
        try:
            yield
        finally:
            self.cluster.sh(node, "pkill -f 'sleep 127[7]'")
            process.communicate()

    def audit(self, *argv: str, code: int | None = None) -> list[tuple[str, str, str]]:
        found = self.audited.findings("--via", "ssh", "--check", "images", *argv, code=code)
        return [(severity, nodes, text) for severity, _, nodes, _, text in found]


def rows_of(done: Done) -> dict[str, tuple[str, str]]:
    assert done.data["faults"] == []
    return {row["nodes"]: (row["state"], row["why"]) for row in done.data["images"]}


@pytest.fixture(scope="module")
def made(audited: Audited) -> Iterator[Images]:
    # Over the network: what the file server does itself its clients may see late.
    made = Images(audited)
    made.run("stage", "--image", ENTRY)
    yield made
    do(audited.cluster, "login", f"rm -r {audited.cluster.prefix}/images")


@pytest.fixture
def images(made: Images) -> Iterator[Images]:
    yield made
    made.unstage()
    for node in made.cluster.compute:
        assert do(made.cluster, node, f"ls -A {LOCAL} | grep -v '^\\.' || :").strip() == ""


@contextmanager
def site_with(images: Images, **settings: object) -> Iterator[None]:
    """The site has these top-level keys."""
    path = f"{SITE}/site.yaml"
    before = do(images.cluster, "login", f"cat {path}")
    images.cluster.write("login", path, json.dumps({**json.loads(before), **settings}))
    try:
        yield
    finally:
        images.cluster.write("login", path, before)


def staging(images: Images, **settings: object) -> AbstractContextManager[None]:
    """The site's `staging`."""
    return site_with(images, staging=settings)


def forget(images: Images, node: str) -> None:
    """The node forgets what it has read of the share."""
    do(images.cluster, node, "echo 3 >/proc/sys/vm/drop_caches")
    time.sleep(3.1)  # attributes are kept for three seconds
