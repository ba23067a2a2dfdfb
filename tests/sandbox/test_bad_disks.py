"""A full disk, a read-only disk, a disk that goes away: at every step, then a rerun."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.conda.client import INSTALLER, failure_for
from envmgr.errors import EnvmgrError
from envmgr.report import SilentReporter
from envmgr.system.child import call_worker
from envmgr.system.run import Completed, Runner
from envmgr.wording import size_text
from tests.helpers.done import Done
from tests.helpers.scenes import complete, error_of, finish, locked, parts, plain, rerun
from tests.helpers.small_disk import Small, small_in
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.server import Fault, serve
from tests.helpers.waiting import wait_for

FREE = (
    "hint: free some space (`envmgr gc` removes old generations and unused installs), then run the same command again"
)


@pytest.fixture
def small(tmp_path: Path, channel: Channel) -> Iterator[Small]:
    with small_in(tmp_path, channel) as box:
        yield box


def full(box: Small, *argv: str) -> str:
    return full_disk(box.run(*argv), box)


def full_disk(done: Done, box: Small) -> str:
    assert done.code == 3, done.stderr
    text = error_of(done, box)
    assert text.startswith("error[disk-full]: "), text
    assert text.endswith(FREE)
    assert box.leftovers() == []
    assert parts(box) == []
    return text


def until_it_fits(box: Small, *argv: str, pages: int) -> list[str]:
    """Run with ever more room, `pages` of 4096 bytes at a time, until it succeeds. Returns the errors: each is `disk-full`."""
    texts: list[str] = []
    while True:
        room = (len(texts) + 1) * pages * 4096
        box.resize(str(shutil.disk_usage(box.prefix).used + room))
        done = box.run(*argv)
        if done.code == 0:
            return texts
        texts.append(full_disk(done, box))


def test_too_little_space_is_told_before_the_first_byte(small: Small, channel: Channel) -> None:
    small.mount("20m")
    locked(small, "py/1.0", ["python"])  # with its sidecar
    size = next(r["size"] for r in channel.records.values() if r["name"] == "python")
    small.policies["min_free"] = 2 << 30
    small.write_site()
    text = full(small, "build", "py/1.0")
    assert re.sub(r"[\d.]+ [kM]?B are", "SOME are", text) == (
        f"error[disk-full]: py/1.0 needs {size_text(size * 5 + (2 << 30))} under ROOT/prefix, SOME are free\n"
        f"  download {size_text(size)}, install about {size_text(size * 4)}, policies.min_free 2.15 GB\n"
        f"  log: LOG\n"
        f"\n{FREE}"
    )
    assert [
        p
        for p in small.prefix.rglob("*")
        if p.is_file() and p.suffix not in (".log", ".lock") and p.name != "prefix.json"
    ] == []
    small.resize("3g")
    small.ok("build", "py/1.0")
    assert small.current() == 1


def understate_sizes(small: Small, size: int | None = 1) -> None:
    """Locks that say the packages are tiny, or nothing of their size: the check before the first byte lets the build begin."""
    locked(small, "py/1.0", ["python"])
    sidecar = small.root / "recipes/py/1.0/conda-lock.records.json"
    data = json.loads(sidecar.read_text())
    for record in data["packages"].values():
        record["size"] = size
    sidecar.write_text(json.dumps(data))


def test_disk_full_in_a_download(small: Small, channel: Channel) -> None:
    size = next(r["size"] for r in channel.records.values() if r["name"] == "python")
    small.mount(str(size // 2))
    small.ok("build", "kept/1.0")
    understate_sizes(small, None)
    with serve(channel.folder, {"*python*": Fault("flood")}) as server:  # nor does the server tell a size
        small.mirror = server.url
        small.write_site()
        assert full(small, "build", "py/1.0") == (
            f"error[disk-full]: no space left for ROOT/prefix/cache/conda\n"
            f"  [Errno 28] No space left on device\n"
            f"  py/1.0 was not built\n"
            f"  log: LOG\n"
            f"\n{FREE}"
        )
        complete(small, 1)
        small.resize("400m")
        server.faults.clear()
        assert rerun(small, "py/1.0") == 2


# The stages in which an install grows, in their order, and what the error says when the disk is full then.
FULL_WHILE = {
    "unpacking": r"\n  failed to fetch python-",
    "compiling": r"\n  bytecode was not written: lib/\S+\.py: No space left on device\n",
    "manifest": r"/conda-meta/python-\S+\.json\n|\.manifest\.json\n",  # the record that names the mark is written just before
}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> dict[str, tuple[int, int]]:
    """Stage -> bytes of the disk in use before and after it, as py/1.0 is built beside kept/1.0: Pythons differ in size."""
    with small_in(tmp_path_factory.mktemp("used"), channel) as box:
        box.mount("400m")
        box.ok("build", "kept/1.0")
        kept = shutil.disk_usage(box.prefix).used
        understate_sizes(box)
        box.ok("build", "py/1.0", "--no-publish")
        made = shutil.disk_usage(box.prefix).used
        manifest, bytecode = (
            sum(p.lstat().st_blocks * 512 for p in box.prefix.glob(f"store/py/{files}"))
            for files in ("*.manifest.json", "*/**/*.pyc")
        )
    compiled = made - manifest
    linked = compiled - bytecode  # links take no space
    return {"unpacking": (kept, linked), "compiling": (linked, compiled), "manifest": (compiled, made)}


@pytest.mark.parametrize(
    ("stage", "share"), [("unpacking", "20%"), ("unpacking", "90%"), ("compiling", "50%"), ("manifest", "50%")]
)
def test_disk_full_while_an_install_is_made(
    small: Small, used: dict[str, tuple[int, int]], stage: str, share: str
) -> None:
    """The disk has room for all the stages before, and for this share of what the stage itself writes."""
    before, after = used[stage]
    small.mount(str(before + (after - before) * int(share.rstrip("%")) // 100))
    small.ok("build", "kept/1.0")
    understate_sizes(small)
    text = full(small, "build", "py/1.0")
    assert re.search(FULL_WHILE[stage], text), text
    assert "\n  py/1.0 was not built\n" in text
    complete(small, 1)
    small.resize("400m")
    assert rerun(small, "py/1.0") == 2


def test_disk_full_of_what_rattler_reads_again(small: Small) -> None:
    """It takes its cut record of a package as written, and then says that it cannot read it."""
    small.mount("4m")
    small.ok("build", "kept/1.0")
    texts = until_it_fits(small, "build", "--no-publish", "hello/1.0", pages=3)
    again = [text for text in texts if "currently installed packages" in text]
    assert again
    assert re.sub(r"[\d.]+ k?B are", "SOME are", again[0]) == (
        f"error[disk-full]: no space left under ROOT/prefix/store/hello/.staging-1.0-DIGEST\n"
        f"  No space left on device, SOME are free\n"
        f"  failed to determine the currently installed packages: EOF while parsing a value at line 1 column 0\n"
        f"  hello/1.0 was not built\n"
        f"  log: LOG\n"
        f"\n{FREE}"
    )


class Bounded(Runner):
    """Files cannot grow beyond 64 KiB, as on a disk that was full for a moment: what is written is cut, and no error comes."""

    def stream(self, argv: Sequence[str | Path], **options: Any) -> Completed:
        return super().stream(["prlimit", "--fsize=65536", *argv], **options)


def compiled(staging: Path, cache: Path, runner: Runner) -> str:
    """The worker installs no package into `staging`, and compiles the one file there. Returns its error, or nothing.

    Of one file, nothing comes after it that would find the disk full.
    """
    request = {
        "records": [],
        "staging": str(staging),
        "final": "/final",
        "cache": str(cache),
        "jobs": 2,
        "platform": "linux-64",
        "retries": 0,
        "stall_timeout": 60,
        "min_free": 0,
        "unpacked": 4,
        "accepts": [],
        "specs": [],
        "virtual": [],
    }
    (staging / ".unpacked").mkdir(exist_ok=True)
    try:
        call_worker(INSTALLER, request, runner, SilentReporter(), failure=failure_for("x/1"))
    except EnvmgrError as error:
        return error.render().replace(str(staging), "STAGING")
    return ""


def test_bytecode_that_is_cut_is_never_an_install(small: Small) -> None:
    small.mount("4m")
    staging = small.prefix / "staging"
    library = staging / "lib" / f"python3.{sys.version_info.minor}"
    library.mkdir(parents=True)
    (staging / "bin").mkdir()
    (staging / "bin/python").symlink_to(Path(sys.executable).resolve())
    (library / "large.py").write_text(f"text = '{'x' * 200_000}'\n")
    (library / "python2.py").write_text("print 1\n")  # has no bytecode, which is no fault
    written = f"__pycache__/large.{sys.implementation.cache_tag}.pyc"
    cut = f"bytecode was not written: lib/{library.name}/large.py"
    assert (
        compiled(staging, small.root, Bounded())
        == f"error[worker-failed]: {cut}: File too large\n\nhint: report it with the log if it fails again"
    )
    (library / written).unlink(missing_ok=True)
    small.resize(str(shutil.disk_usage(small.prefix).used + (100 << 10)))
    full = f"error[disk-full]: no space left under STAGING\n  {cut}: No space left on device\n\n{FREE}"
    assert compiled(staging, small.root, Runner()) == full
    small.resize("4m")
    assert compiled(staging, small.root, Runner()) == ""
    assert (library / written).stat().st_size > 100 << 10


def test_disk_full_while_a_generation_is_staged(small: Small) -> None:
    small.mount("4m")
    small.ok("build", "kept/1.0")
    small.ok("build", "--no-publish", "hello/1.0")
    small.fill()
    done = small.run("publish", "hello/1.0")
    assert done.code == 3
    assert (
        re.sub(r"(?<=done in )[0-9.]+(?= s\n)", "SOME", plain(done.stderr, small))
        == (
            "warning: the log ROOT/prefix/var/log/"
            + re.search(r"var/log/(\S+) ", done.stderr)[1]  # type: ignore[index]
            + " cannot be written: No space left on device\n"
            "hello/1.0 verify: done in SOME s\n"
            "error[disk-full]: no space left for ROOT/prefix/var/jobs/holds/generation-0002.json\n"
            "  [Errno 28] No space left on device\n"
            f"\n{FREE}\n"
        )
    )
    assert small.leftovers() == []
    assert not list(small.prefix.glob("var/jobs/holds/*"))
    assert small.current() == 1
    small.ok("test")  # who loads modules does not notice
    small.empty()
    number = small.ok("publish", "hello/1.0", "--format", "json").data["generation"]
    assert number == 2  # it was not taken: what says who stages it comes first
    complete(small, 2)


def test_disk_full_at_any_page_of_a_publish(small: Small) -> None:
    small.mount("4m")
    small.ok("build", "kept/1.0")
    small.ok("build", "--no-publish", "hello/1.0")
    texts = until_it_fits(small, "publish", "hello/1.0", pages=1)
    cache = next(text for text in texts if "/spider\n" in text)
    number = cache.partition("/spider\n")[0][-4:]
    assert re.sub(r"[\d.]+ k?B are", "SOME are", cache).splitlines()[:2] == [
        f"error[disk-full]: no space left for ROOT/prefix/generations/{number}/spider",
        "  SOME are free",
    ]
    assert "/update_lmod_system_cache_files -d " in cache.splitlines()[2]
    complete(small, small.current())


def test_disk_full_at_the_very_end_of_a_publish(small: Small) -> None:
    """The smoke test fills the disk: all is staged, and the record does not fit any more."""
    small.mount("4m")
    small.ok("build", "kept/1.0")
    fill = f"cat /dev/zero >{small.root}/prefix/ballast 2>/dev/null; true"
    small.recipe("hello/1.0", ["hello-prefix"], tests=[{"name": "fills", "run": fill}])
    text = full(small, "build", "hello/1.0")
    assert text == (
        f"error[disk-full]: no space left for ROOT/prefix/generations/0002/generation.json\n"
        f"  [Errno 28] No space left on device\n"
        f"  log: LOG\n"
        f"\n{FREE}"
    )
    assert small.current() == 1
    small.empty()
    small.recipe("hello/1.0", ["hello-prefix"])
    assert rerun(small, "hello/1.0") == 3


def test_read_only_prefix(small: Small) -> None:
    small.mount("4m")
    small.ok("build", "kept/1.0")
    assert small.inside is not None
    small.inside.sh(f"mount -o remount,ro {small.root}/prefix")
    done = small.run("build", "hello/1.0")
    assert done.code == 3
    assert error_of(done, small) == (
        "error[not-writable]: cannot write ROOT/prefix\n"
        "  it is mounted read-only\n"
        "\n"
        "hint: run as the site's build user (as root, envmgr changes to it), or give this user the whole prefix"
    )
    assert small.ok("build", "kept/1.0").stdout == "nothing to do: kept/1.0 is published in generation 1\n"
    small.ok("test")
    small.inside.sh(f"mount -o remount,rw {small.root}/prefix")
    assert rerun(small, "hello/1.0") == 2


def test_mount_that_is_lost_in_a_publish(small: Small) -> None:
    small.mount("4m")
    small.ok("build", "kept/1.0")
    assert small.inside is not None
    saved = small.root / "saved"
    saved.mkdir()
    small.inside.sh(f"mount --bind {small.root}/prefix {saved}")
    test = f"cd /; touch {small.root}/testing; while [ ! -e {small.root}/gone ]; do sleep 0.02; done"
    small.recipe("hello/1.0", ["hello-prefix"], tests=[{"name": "waits", "run": test}])
    process = small.start("build", "hello/1.0")
    wait_for((small.root / "testing").exists, what="the smoke test")
    small.inside.sh(f"umount -l {small.root}/prefix")
    (small.root / "gone").touch()
    done = finish(process)
    assert done.code == 3
    start = done.stderr.index("error[")
    assert re.sub(r"\n  log: .*", "", plain(done.stderr[start:], small)) == (
        "error[mount-lost]: ROOT/prefix/generations/0002 is gone\n"
        "  [Errno 2] No such file or directory: 'ROOT/prefix/generations/0002'\n"
        "\n"
        "hint: is the file system still mounted? Mount it again; the next run cleans up\n"
    )
    small.inside.sh(f"mount --bind {saved} {small.root}/prefix")
    complete(small, 1)
    small.recipe("hello/1.0", ["hello-prefix"])
    assert rerun(small, "hello/1.0") == 3
