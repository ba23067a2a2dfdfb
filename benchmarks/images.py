"""Images: a cold import from the shared tree, from the image on the share, from the staged image, and from a tree on the node's own disk.

A test cluster over NFS (tests/helpers/cluster), with `tc` at 1 Gb/s and at 100 Mb/s on each host's network card, one node and three.
Before each import the page caches of the machine are dropped, on which all nodes and the file server run: two cores do the work of all.
Each node has its copies on the machine's own disk.

The payload has as many files and bytes as torch 2.1, and its import reads as many of them: modules, and parts of large libraries.
IMAGES=torch takes torch itself, from the index that pip is configured with (4 GB, kept in tests/.cache).
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Amount, Claim, NotMeasured, Pairs, Ratio, Shown, Took
from benchmarks.users import DRIVER, WITH_CUDA, kept_wheels
from envmgr.system.files import remove_tree
from tests.helpers.audit_scene import SITE, Audited, make
from tests.helpers.cluster import nfs_calls
from tests.helpers.cluster.needs import reason_to_skip
from tests.helpers.places import CACHE
from tests.helpers.standin.wheels import PYTHON
from tests.helpers.wheelhouse import Wheelhouse

ENTRY = "payload/1"
_BASE = "py/1"
_LARGEST = {"zstd": 65, "lz4": 70}  # % of the install
_LOCAL = "/var/lib/envmgr/images"
_FAST, _SLOW = "1gbit", "100mbit"
_NAMES = {_FAST: "1 Gb/s", _SLOW: "100 Mb/s", "": "no limit"}

# As torch 2.1.2 with CUDA has them: 14,800 files with 4.6 GB; its import reads 1,700 modules, and 300 MB of 40 libraries.
_MODULES, _IMPORTED, _DATA = 9_000, 1_700, 5_700
_LIBRARIES, _LIBRARY = 40, 104 << 20
_READ = 7 << 20  # bytes of each library that the import reads

_IMPORT = f"""
import mmap, pathlib
for number in range({_IMPORTED}):
    __import__(f"payload.p{{number % 90}}.m{{number}}")
for path in sorted((pathlib.Path(__file__).parent / "lib").iterdir()):
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        sum(held[each] for each in range(0, {_READ}, 4096))
"""

# Runs on a node: prints the seconds that the import took there.
_TIMED = """
import subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True)
print(time.perf_counter() - start)
"""


def claims(runs: int) -> Iterator[Claim]:
    if reason := reason_to_skip():
        yield NotMeasured("images", reason)
        return
    root = Path(
        tempfile.mkdtemp(prefix="bench-images-", dir=CACHE)
    )  # nodes see the checkout, and nothing else of the host
    root.chmod(0o755)
    scene = None
    try:
        wheels, module = _wheels(root)
        scene = make(root / "lab", "nfs")
        yield from Bench(scene, module).claims(wheels, min(runs, 3))
    finally:
        if scene is not None:
            scene.cluster.down()
        remove_tree(root)


def _wheels(root: Path) -> tuple[Path, str]:
    """Return an index with the payload, and the module to import."""
    house = Wheelhouse(root / "house")
    if os.environ.get("IMAGES") != "torch":
        house.wheel("payload", files=dict(_payload()))
        return house.simple, "payload"
    folder = kept_wheels(*WITH_CUDA)
    if folder is None:
        sys.exit("pip finds no torch 2.10")
    for path in folder.glob("*.whl"):
        (house.files / path.name).hardlink_to(path)
        house.uploaded[path.name] = "2026-01-21T00:00:00Z"
    house.write()
    return house.simple, "torch"


def _payload() -> Iterator[tuple[str, str | bytes]]:
    """Yield path and content of files that compress about as well as torch's."""
    some = random.Random(1)
    yield "payload/__init__.py", _IMPORT
    for folder in range(90):
        yield f"payload/p{folder}/__init__.py", ""
    for number in range(_MODULES):
        names = [f"f{some.getrandbits(64):x}" for _ in range(60)]
        text = "".join(
            f"def {name}(a, b=None):\n    '''{name * 4}'''\n    return a if b is None else {name}(b)\n\n"
            for name in names
        )
        yield f"payload/p{number % 90}/m{number}.py", text
    for number in range(_DATA):
        yield f"payload/data/d{number}.h", "".join(f"#define N{some.getrandbits(64):x} {at}\n" for at in range(200))
    block = 64 << 10
    for number in range(_LIBRARIES):
        parts = [some.randbytes(int(block * 0.55)) + bytes(block - int(block * 0.55)) for _ in range(_LIBRARY // block)]
        yield f"payload/lib/lib{number}.so", b"".join(parts)


class Bench:
    """The scene with the payload as an entry, `module` being what is imported."""

    def __init__(self, scene: Audited, module: str) -> None:
        self.scene, self.cluster, self.module = scene, scene.cluster, module
        self.paths: list[str] = []

    def claims(self, wheels: Path, runs: int) -> Iterator[Claim]:
        self._build(wheels)
        yield self._image("zstd")
        yield from self._staging()
        yield from self._calls()
        for rate, nodes, times in ((_FAST, 1, runs), (_FAST, 3, runs), (_SLOW, 1, runs), (_SLOW, 3, 1)):
            yield from self._imports(rate, self.cluster.compute[:nodes], times)
        self._set("tree", self.cluster.compute)
        self._run("stage", "--remove", "--all", "--nodes", "c[1-3]")
        yield self._image("lz4")
        self._run("stage", ENTRY, "--nodes", "c1")
        with self._wire(_FAST):
            took = self._turns(("staged", "local", "share", "tree"), ["c1"], runs)
        yield Ratio("cold import, lz4: staged / local tree, one node", _pairs(took, "staged", "local"), 1.2)
        yield Shown("cold import, lz4, 1 Gb/s, one node", _medians(took))

    # -- what is there -------------------------------------------------------------------------------------------------

    def _build(self, wheels: Path) -> None:
        cluster = self.cluster
        path = f"{SITE}/site.yaml"
        site = json.loads(cluster.exec("login", ["cat", path], check=True).stdout)
        site["backends"]["wheels"] = {"indexes": {"house": {"url": wheels.as_uri()}}}
        wanted = {"python": _BASE, "requirements": [self.module], "indexes": ["house"]}
        for node in ("login", "fs1"):
            cluster.write(node, path, json.dumps(site))
        cluster.recipe(_BASE, [f"python {PYTHON}.*"])
        driver = {"requires": {"nvidia_driver": DRIVER}} if self.module == "torch" else {}
        cluster.recipe(ENTRY, [], backend="wheels", input=wanted, **driver)
        self._run("lock", _BASE, ENTRY)
        recipes = cluster.sh("login", f"tar -C {SITE} -c recipes | base64", check=True).stdout
        cluster.sh("fs1", f"base64 -d | tar -C {SITE} -x", stdin=recipes, check=True)
        for node in cluster.compute:  # a disk, where a node of the test cluster has memory
            cluster.sh(node, f"mkdir -p /home/.{node} {_LOCAL}; mount --bind /home/.{node} /var/lib/envmgr", check=True)
        self._run("build", "--no-publish", _BASE, ENTRY, node="fs1")
        # What is replaced on its own disk, such as `current`, the file server does not notice.
        self._run("publish", _BASE, ENTRY)

    def _image(self, compression: str) -> Claim:
        """Make the images, and say how large the payload's is."""
        done = self._run("stage", "--image", ENTRY, "--compression", compression, node="fs1")
        self.paths = [f"{self.cluster.prefix}/{row['install']}" for row in done["images"]]
        self.bytes = sum(row["size"] for row in done["images"])
        installs = sum(row["of"] for row in done["images"])
        return Amount(f"image, {compression}, of its install", 100 * self.bytes / installs, _LARGEST[compression], "%")

    def _run(self, *argv: str, code: int = 0, node: str = "login") -> dict[str, Any]:
        done = self.cluster.envmgr([*argv, "--format", "json"], node=node, timeout=3600)
        if done.code != code:
            sys.exit(f"{argv}: exit {done.code}\n{done.stdout}{done.stderr}")
        return done.data

    @contextmanager
    def _wire(self, rate: str) -> Iterator[None]:
        """Bound what each host sends."""
        hosts = ("fs1", *self.cluster.compute)
        for host in hosts:
            self.cluster.sh(
                host, f"tc qdisc replace dev eth0 root tbf rate {rate} burst 512k latency 200ms", check=True
            )
        try:
            yield
        finally:
            for host in hosts:
                self.cluster.sh(host, "tc qdisc del dev eth0 root", check=True)

    # -- what is measured ----------------------------------------------------------------------------------------------

    def _staging(self) -> Iterator[Claim]:
        """Three nodes at 1 Gb/s: seconds, and what leaves the file server."""
        with self._wire(_FAST):
            before, start = self._sent(), time.monotonic()
            self._run("stage", ENTRY, "--nodes", "c[1-3]")
            seconds, sent = time.monotonic() - start, self._sent() - before
        yield Shown("staging on three nodes at 1 Gb/s", f"{seconds:.0f} s for {self.bytes / 1e6:.0f} MB each")
        yield Amount("sent by the file server, of the images", 100 * sent / self.bytes, 120, "%")

    def _sent(self) -> int:
        return int(self.cluster.sh("fs1", "cat /sys/class/net/eth0/statistics/tx_bytes", check=True).stdout)

    def _calls(self) -> Iterator[Claim]:
        """What one import asks of the file server, counted there."""
        for state in ("tree", "share", "staged"):
            self._set(state, ["c1"])
            _drop_caches()
            counter = self.cluster.start("fs1", [sys.executable, nfs_calls.__file__])
            assert counter.stdout is not None
            counter.stdout.readline()
            self._import(["c1"])
            calls = json.loads(counter.communicate()[0])
            told = ", ".join(f"{calls.get(name, 0)} {name}" for name in ("READ", "LOOKUP", "GETATTR", "ACCESS"))
            yield Shown(f"calls at the file server, {_STATES[state]}", f"{told}; {calls['bytes'] / 1e6:.1f} MB sent")
            if state == "staged":
                yield Amount("READ at the file server, staged", calls.get("READ", 0), 0, "calls")

    def _imports(self, rate: str, nodes: Sequence[str], runs: int) -> Iterator[Claim]:
        with self._wire(rate):
            took = self._turns(_STATES, nodes, runs)
        where = f"{_NAMES[rate]}, {'one node' if len(nodes) == 1 else 'three nodes at once'}"
        yield Shown(f"cold import at {where}", _medians(took))
        if rate == _FAST and len(nodes) == 1:
            yield Ratio(f"cold import, zstd: staged / local tree, {where}", _pairs(took, "staged", "local"), 1.35)
            yield Ratio(
                f"cold import: image on the share / shared tree, {where}",
                _pairs(took, "share", "tree"),
                1 / 1.5,
                goal=1 / 1.7,
            )
        if len(nodes) > 1:
            # Two cores import for three nodes: the local tree takes twice as long as for one, too.
            limit, goal = (1 / 2.5, 1 / 4) if rate == _FAST else (1 / 12, 1 / 15)
            yield Ratio(f"cold import: staged / shared tree, {where}", _pairs(took, "staged", "tree"), limit, goal=goal)

    def _turns(
        self, states: Mapping[str, str] | Sequence[str], nodes: Sequence[str], runs: int
    ) -> dict[str, list[Took]]:
        """Import in each state in turn, `runs` times."""
        found: dict[str, list[Took]] = {state: [] for state in states}
        for _ in range(runs):
            for state in states:
                self._set(state, nodes)
                _drop_caches()
                found[state].append(Took(self._import(nodes)))
        return found

    def _import(self, nodes: Sequence[str]) -> float:
        """Return the seconds of the slowest node."""
        python = next(path for path in self.paths if "/payload/" in path) + "/bin/python"
        argv = [sys.executable, "-c", _TIMED, python, "-c", f"import {self.module}"]
        started = [self.cluster.start(node, argv, user="alice") for node in nodes]
        said = [process.communicate() for process in started]
        if any(process.returncode for process in started):
            sys.exit(f"import {self.module}: {said}")
        return max(float(out) for out, _ in said)

    # -- the four states -----------------------------------------------------------------------------------------------

    def _set(self, state: str, nodes: Sequence[str]) -> None:
        for node in nodes:
            self.cluster.sh(node, "; ".join(f"while umount {path} 2>/dev/null; do :; done" for path in self.paths))
            if state == "local":
                for path in self.paths:
                    tree = f"/var/lib/envmgr/trees/{Path(path).name}"
                    copy = f"[ -e {tree} ] || {{ mkdir -p {Path(tree).parent}; cp -a {path} {tree}; }}"
                    self.cluster.sh(node, f"{copy}; mount --bind {tree} {path}", check=True, timeout=900)
        if state == "staged":
            self._stage(nodes, "local")
        if state == "share":
            self._stage(nodes, "share", folder=f"{_LOCAL}/none", quota=1)

    def _stage(self, nodes: Sequence[str], source: str, **settings: object) -> None:
        path = f"{SITE}/site.yaml"
        site = self.cluster.exec("login", ["cat", path], check=True).stdout
        self.cluster.write("login", path, json.dumps({**json.loads(site), "staging": settings}))
        self.cluster.envmgr(["stage", ENTRY, "--nodes", ",".join(nodes)])
        self.cluster.write("login", path, site)
        for node in nodes:
            for install in self.paths:
                mounts = self.cluster.sh(node, f"grep ' {install} ' /proc/self/mountinfo", check=True).stdout
                (loop,) = re.findall(r" - squashfs /dev/(loop\d+) ", mounts)
                file = self.cluster.sh(node, f"cat /sys/class/block/{loop}/loop/backing_file", check=True).stdout
                if file.startswith("/var") != (source == "local"):
                    sys.exit(f"{node}: {install} is mounted from {file}")


_STATES = {"tree": "shared tree", "share": "image on the share", "staged": "staged image", "local": "local tree"}


def _drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def _pairs(took: Mapping[str, list[Took]], ours: str, theirs: str) -> Pairs:
    return list(zip(took[ours], took[theirs], strict=True))


def _medians(took: Mapping[str, list[Took]]) -> str:
    return ", ".join(f"{_STATES[state]} {median(each.wall for each in found):.2f} s" for state, found in took.items())
