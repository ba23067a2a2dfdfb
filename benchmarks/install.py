"""Installing one lock: against rattler itself, cold and warm.

Cold: nothing in any cache; both sides download over HTTP, check and link. Ours adds the worker process, full validation,
copies instead of hard links, normalising, activation, the manifest's sha256 of every file. Byte-compilation, which bare
rattler leaves out, is taken off ours, with the check of the bytecode: by the times in its own log, where the removal of unpacked
packages goes on beside it, and by the CPU time of the same once more. It stands in the note. Both sides run with bytecode, as
an installed program does: a machine that writes none would compile every module at each start.
Warm: the cache is full. The other side is the same install (no hard links, full validation) and the same compileall.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Claim, Ratio, Took, alternate, took
from benchmarks.site import ENTRY, envmgr, make_site
from envmgr.backends.conda.lockfile import read_lock
from envmgr.system.files import remove_tree

_BARE = """
import asyncio, json, os, subprocess, sys
import rattler
cache, prefix, records, how = sys.argv[1:5]
names = "name version depends constrains size license python_site_packages_path".split()
def record(found):
    package = rattler.PackageRecord(
        **{name: found[name] for name in names if name in found},
        build=rattler.BuildString.new_unchecked(found["build"]),
        build_number=0,
        subdir=found["url"].rsplit("/", 2)[1],
        sha256=bytes.fromhex(found["sha256"]),
        md5=bytes.fromhex(found["md5"]),
    )
    return rattler.RepoDataRecord(package, found["url"].rpartition("/")[2], found["url"], found["url"].rsplit("/", 2)[0])
chosen = [record(found) for found in json.load(open(records))]
more = {}
if how == "same":
    more["package_cache"] = rattler.PackageCache.new_layered([cache], validation_mode=rattler.ValidationMode.full())
    more["config"] = rattler.Config.from_toml("allow-hard-links = false")
asyncio.run(rattler.install(chosen, prefix, cache_dir=cache, installed_packages=[], show_progress=False, **more))
if how == "same":
    lib = next(p for p in os.listdir(prefix + "/lib") if p.startswith("python3."))
    argv = [prefix + "/bin/python", "-s", "-m", "compileall", "-q", "-f", "-j", str(len(os.sched_getaffinity(0)))]
    argv += ["--invalidation-mode", "unchecked-hash", "-s", prefix, "-p", prefix, prefix + "/lib/" + lib]
    subprocess.run(argv, env={"PYTHONHASHSEED": "0"})
sys.stdout.flush()
os._exit(0)
"""


_COMPILE = """
import os, sys
from pathlib import Path
from envmgr.store.bytecode import compile_python
before = os.times()
compile_python(Path(sys.argv[1]), sys.argv[2], len(os.sched_getaffinity(0)), lambda *_, **__: None)
print(sum(os.times()[:4]) - sum(before[:4]))
"""


def claims(channel: str, runs: int) -> list[Claim]:
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    try:
        bytecode = {"PYTHONPYCACHEPREFIX": str(root / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
        env = make_site(root, channel) | bytecode
        plain = {**os.environ, **bytecode}
        took(envmgr("lock", ENTRY), env=env)
        records = root / "records.json"
        records.write_text(json.dumps([each.to_json() for each in read_lock(root / "recipes" / ENTRY)[0].packages]))
        compiling: list[Took] = []

        took(envmgr("build", "--no-publish", ENTRY), env=env)  # writes the bytecode of what a build imports

        def ours_cold() -> Took:
            _set_aside(root / "prefix", root)
            whole = took(envmgr("build", "--no-publish", ENTRY), env=env)
            compiling.append(Took(_compile_seconds(root), _compile_again(root)))
            return whole - compiling[-1]

        def theirs_cold() -> Took:
            _set_aside(root / "bare", root)
            return took(
                [sys.executable, "-c", _BARE, root / "bare/cache", root / "bare/env", records, "plain"], env=plain
            )

        cold = alternate(ours_cold, theirs_cold, runs)

        def ours_warm() -> Took:
            _set_aside(root / "prefix" / "store", root)
            return took(envmgr("build", "--no-publish", ENTRY), env=env)

        def theirs_warm() -> Took:
            _set_aside(root / "bare" / "env", root)
            return took(
                [sys.executable, "-c", _BARE, root / "bare/cache", root / "bare/env", records, "same"], env=plain
            )

        warm = alternate(ours_warm, theirs_warm, runs)
    finally:
        remove_tree(root)
    apart = f"byte-compilation {statistics.median(each.wall for each in compiling):.2f} s apart"
    return [
        Ratio("cold install / bare rattler.install", cold, 3, goal=2.5, note=apart),
        Ratio("warm install / the same rattler.install and compileall", warm, 1.5, goal=1.2),
    ]


def _set_aside(folder: Path, root: Path) -> None:
    """Move a folder to another place in `root`, and let the disk settle: one side's writes must not slow the other.

    It is removed at the end. ext4 without a journal passes over the inodes that were freed in the last minute, so new
    files would cost more after a removal.
    """
    if folder.exists():
        folder.rename(tempfile.mkdtemp(prefix="aside-", dir=root))
    os.sync()


def _compile_seconds(root: Path) -> float:
    """From the worker's events in the log of the newest build."""
    log = max((root / "prefix/var/log").glob("*-build-*.log"), key=lambda p: p.stat().st_mtime_ns).read_text()
    times = [
        datetime.datetime.fromisoformat(match[1])
        for match in re.finditer(r"^(\S+) worker: (\{.*\})$", log, re.MULTILINE)
        if json.loads(match[2])["event"] in ("compiling", "compiled")
    ]
    return (times[1] - times[0]).total_seconds()


def _compile_again(root: Path) -> float:
    """CPU time of the install's byte-compilation and of its proof, in a copy."""
    install = next(path for path in (root / "prefix/store/bench").iterdir() if path.is_dir())
    copy = root / "compiled"
    shutil.copytree(install, copy, symlinks=True)
    subprocess.run(["chmod", "-R", "u+w", copy], check=True)
    said = subprocess.run([sys.executable, "-c", _COMPILE, copy, install], capture_output=True, text=True, check=True)
    _set_aside(copy, root)
    return float(said.stdout.splitlines()[-1])
