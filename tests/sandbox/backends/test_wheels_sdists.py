"""`build:` of a wheels recipe: a package is built from its source, locked as the others are, twice, without a network."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import envmgr
from envmgr.backends import get_backend
from envmgr.builds.prepare import can_write
from envmgr.builds.schedule import Work
from envmgr.builds.slurm.folder import JobFolder
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.names import parse_entry
from envmgr.catalog.site import load_site, read_target
from envmgr.nodes.jobs import JobOptions
from envmgr.report import SilentReporter
from envmgr.system.files import remove_tree
from envmgr.system.run import Runner
from tests.helpers.builders import builders, compiled, pure
from tests.helpers.done import Done
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.small_disk import Small
from tests.helpers.standin.server import Fault
from tests.helpers.waiting import wait_for
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "some/1.0"
PATCH = """\
--- a/here.py
+++ b/here.py
@@ -1 +1 @@
-VERSION = "1.0"
+VERSION = "patched"
"""
CONNECT = """\
import urllib.request

try:
    urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open({url!r})
except OSError:
    pass
else:
    raise SystemExit("there is a network")
"""


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox, *builders())


def built_with(scene: WheelBox, name: str) -> dict[str, str]:
    """Name -> file of the wheels that a source is built with."""
    return scene.files(f"{ENTRY}/wheels.build/{name}.lock")


def manifest(scene: WheelBox) -> dict[str, object]:
    root = scene.install(ENTRY)
    return json.loads((root.parent / f"{root.name}.manifest.json").read_text())


def test_source_becomes_a_part_of_the_install(scene: WheelBox) -> None:
    """The newest that fits; what it needs comes as wheels; the record has its wheel."""
    scene.house.sdist("here", "1.0", pure("here"))
    sdist = scene.house.sdist("here", "1.5", pure("here", "1.5", ("dep>=1",)))
    scene.house.sdist("here", "2.0", pure("here", "2.0"))
    scene.house.wheel("here", "1.5")
    scene.house.wheel("dep")
    folder = scene.entry(ENTRY, "here<2", build=["here"])
    assert scene.lock(ENTRY) == {"dep": "1.0", "here": "1.5"}
    sha256 = hashlib.sha256(sdist.read_bytes()).hexdigest()
    text = (folder / "wheels.lock").read_text()
    flit = next(p for p in builders() if p.name.startswith("flit"))
    assert text.splitlines()[-1] == f"here==1.5 --hash=sha256:{sha256}"
    flit_core = f"flit-core==3.12.0 --hash=sha256:{hashlib.sha256(flit.read_bytes()).hexdigest()}"
    assert (folder / "wheels.build/here.lock").read_text().splitlines()[-1] == flit_core
    scene.box.ok("build", ENTRY)
    (made,) = manifest(scene)["provenance"]["made"]
    assert (made["wheel"], made["sdist_sha256"], made["network"]) == ("here-1.5-py2.py3-none-any.whl", sha256, "none")
    loaded = scene.box.shell(f"module load {ENTRY} && python -c 'import here, dep; print(here.VERSION, dep.VERSION)'")
    assert (loaded.stderr, loaded.stdout) == ("", "1.5 1.0\n")
    assert not list((scene.install(ENTRY) / f"lib/python{PYTHON}/site-packages").glob("flit*"))


def test_extension_in_c_and_what_its_build_asks_for(scene: WheelBox) -> None:
    scene.house.sdist("fast", "1.0", compiled("fast"))
    scene.entry(ENTRY, "fast", build=["fast"], python=scene.base())
    scene.lock(ENTRY)
    assert [*built_with(scene, "fast")] == ["setuptools", "wheel"]
    scene.box.ok("build", ENTRY)
    loaded = scene.box.shell(f"module load {ENTRY} && python -c 'import fast; print(fast.answer(), fast.compiled)'")
    assert (loaded.stderr, loaded.stdout) == ("", "42 Jan  1 2021 00:00:00\n")


def test_recipe_without_build_has_the_digest_and_the_lock_that_it_had(scene: WheelBox) -> None:
    """The one that it had before it built a source."""
    scene.house.wheel("one")
    scene.house.sdist("here", "1.0", pure("here"))
    scene.entry(ENTRY, "one", "here", build=["here"])
    scene.lock(ENTRY)
    folder = scene.entry(ENTRY, "one")
    removed = "wheels.build/here.lock: the lock has no such part any more\n"
    assert scene.box.ok("lock", "--dry-run", ENTRY).stdout.endswith(f"  note: would remove {removed}")
    assert [*built_with(scene, "here")] == ["flit-core"]
    assert scene.box.ok("lock", ENTRY).stdout.endswith(f"  note: removed {removed}")
    assert scene.box.ok("lock", ENTRY).stdout.startswith(f"{ENTRY}: unchanged  1 package\n")
    wanted = {
        "python": "system",
        "requirements": ["one"],
        "constraints": [],
        "indexes": ["house"],
        "exclude_newer": None,
        "platform": "x86_64-manylinux_2_28",
    }
    text = json.dumps({"schema": 1, "backend": "wheels", "input": wanted}, sort_keys=True, separators=(",", ":"))
    assert f"# recipe: {hashlib.sha256(text.encode()).hexdigest()}\n" in (folder / "wheels.lock").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["recipe.yaml", "wheels.lock"], "and no empty wheels.build"


def test_pip_and_uv_install_by_a_lock_with_sources(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", pure("here", dependencies=("dep",)))
    scene.house.wheel("dep")
    folder = scene.entry(ENTRY, "here", build=["here"])
    scene.lock(ENTRY)
    words = [
        "--require-hashes",
        "--no-index",
        "--find-links",
        str(scene.house.files),
        "-r",
        str(folder / "wheels.lock"),
    ]
    for number, tool in enumerate((["-m", "pip", "install", "--quiet"], ["-m", "uv", "pip", "install", "--quiet"])):
        place = scene.box.root / f"made{number}"
        subprocess.run([sys.executable, *tool, *words, "--target", str(place)], check=True, timeout=600)
        assert (place / "here.py").is_file()


def test_old_wheel_of_what_is_newer_as_source_says_how_to_build_it(scene: WheelBox) -> None:
    scene.house.wheel("deep", "0.3")
    scene.house.sdist("deep", "0.19", pure("deep", "0.19"))
    scene.entry(ENTRY, "deep")
    assert (
        "or `build` what has no wheel from its source, in a recipe of wheels\n" in scene.refused("lock", ENTRY).stderr
    )
    scene.entry(ENTRY, "deep", build=["deep"])  # the hint
    assert scene.lock(ENTRY) == {"deep": "0.19"}


def test_source_that_nothing_asks_for_and_one_that_is_nowhere(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.house.sdist("here", "1.0", pure("here"))
    scene.entry(ENTRY, "one", build=["here"])
    told = scene.refused("lock", ENTRY).stderr
    assert "error[build-unasked]: input.build names here, which nothing asks for\n" in told
    scene.entry(ENTRY, "one", build=["one"])
    assert "error[unsolvable]: " in scene.refused("lock", ENTRY).stderr


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"build": ["x==1"]}, "`x==1` is not the name of a package"),
        ({"patches": [{"file": "a.patch", "sha256": "0" * 64}]}, "whose is a.patch? Say `package`, a name of `build`"),
        (
            {"build": ["x"], "patches": [{"file": "a.patch", "sha256": "0" * 64, "package": "y"}]},
            "y is not built from its source: name it in `build`",
        ),
        ({"build": ["x"], "patches": [{"file": "../a.patch", "sha256": "0" * 64}]}, "input.patches.0.file: "),
    ],
)
def test_faults_of_the_recipe(scene: WheelBox, fields: dict[str, object], told: str) -> None:
    scene.entry(ENTRY, "one", **fields)
    done = scene.refused("lock", ENTRY).stderr
    assert done.startswith(f"error[recipe-invalid]: the wheels input of {ENTRY} has faults\n")
    assert told in done


def test_patch_changes_what_is_built_and_decides_the_install(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", pure("here"))
    folder = scene.entry(ENTRY, "here")
    patch = folder / "here.patch"
    patch.write_text(PATCH)
    sha256 = hashlib.sha256(patch.read_bytes()).hexdigest()
    scene.entry(ENTRY, "here", build=["here"], patches=[{"file": "here.patch", "sha256": sha256}])
    scene.lock(ENTRY)
    scene.box.ok("build", ENTRY)
    loaded = scene.box.shell(f"module load {ENTRY} && python -c 'import here; print(here.VERSION)'")
    assert loaded.stdout == "patched\n"
    patch.write_text(PATCH.replace("patched", "changed"))
    told = scene.refused("build", ENTRY).stderr
    assert told.startswith(f"error[patch-differs]: {patch} has another sha256 than recipe.yaml says\n")
    other = hashlib.sha256(patch.read_bytes()).hexdigest()
    scene.entry(ENTRY, "here", build=["here"], patches=[{"file": "here.patch", "sha256": other}])
    assert scene.refused("build", ENTRY).stderr.startswith("error[lock-stale]: ")
    scene.lock(ENTRY)
    scene.box.ok("build", "--no-publish", ENTRY)
    assert len([path for path in scene.box.prefix.glob("store/some/1.0-*") if path.is_dir()]) == 2
    patch.unlink()
    assert scene.refused("build", ENTRY).stderr.startswith(f"error[patch-missing]: {patch} does not exist\n")


def test_patch_that_does_not_fit(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", pure("here"))
    folder = scene.entry(ENTRY, "here")
    patch = folder / "here.patch"
    patch.write_text(PATCH.replace("1.0", "0.9"))
    sha256 = hashlib.sha256(patch.read_bytes()).hexdigest()
    scene.entry(ENTRY, "here", build=["here"], patches=[{"file": "here.patch", "sha256": sha256}])
    told = scene.refused("lock", ENTRY).stderr
    assert "error[patch-failed]: here.patch does not fit here-1.0.tar.gz\n" in told
    assert "Hunk #1 FAILED" in told


def test_build_has_no_network(scene: WheelBox) -> None:
    """Neither when it is asked what it needs, nor when it builds."""
    with scene.served() as server:
        scene.house.sdist("here", "1.0", compiled("here", before=CONNECT.format(url=f"{server.url}/simple/")))
        scene.entry(ENTRY, "here", build=["here"])
        scene.lock(ENTRY)
        scene.box.ok("build", ENTRY)
        (made,) = manifest(scene)["provenance"]["made"]
        assert made["network"] == "none"


def test_build_that_cannot_be_kept_off_the_network_is_refused_and_may_be_allowed(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", pure("here"))
    scene.entry(ENTRY, "here", build=["here"])
    for verb in ("lock", "build"):
        told = without_namespaces(scene, verb, ENTRY)
        assert told.code == 3
        assert "error[build-network]: a build from source cannot be kept off the network here\n" in told.stderr
        assert "run the same command with --allow-network" in told.stderr
        assert not list(scene.box.prefix.glob("cache/wheels/*"))  # told before anything is downloaded
        done = without_namespaces(scene, verb, "--allow-network", ENTRY)
        assert done.code == 0, done.stderr
    (made,) = manifest(scene)["provenance"]["made"]
    assert made["network"] == "open"
    assert made["path"].endswith("/here")  # nor can it be seen at the one path of all hosts
    (install,) = (p.relative_to(scene.box.prefix) for p in scene.box.prefix.glob("store/*/*") if p.is_dir())
    assert f"not reproducible: {install}: built in {made['path']}: " in scene.box.ok("verify").stdout
    notes = scene.box.ok("list", ENTRY, "--format", "json").data["notes"]
    assert f"not reproducible: {install} was built in {made['path']}" in notes


def test_two_builds_that_differ_are_refused(scene: WheelBox) -> None:
    before = "import uuid; open('here/made.py', 'w').write(f'MADE = {uuid.uuid4().hex!r}\\n')"
    scene.house.sdist("here", "1.0", compiled("here", before=before))
    scene.entry(ENTRY, "here", build=["here"])
    scene.lock(ENTRY)
    told = scene.refused("build", ENTRY).stderr
    assert "error[build-differs]: two builds of here 1.0 differ\n  here/made.py\n  some/1.0 was not built\n" in told
    assert nothing_left(scene)


def test_build_that_fails_says_why(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", compiled("here", extension="int answer(void) { return unknown; }\n"))
    scene.entry(ENTRY, "here", build=["here"])
    scene.lock(ENTRY)
    told = scene.refused("build", ENTRY).stderr
    assert "error[build-failed]: here 1.0 did not build from its source\n" in told
    assert "here/fast.c:1:27: error: \u2018unknown\u2019 undeclared" in told
    (log,) = scene.box.prefix.glob("var/log/wheels/*-some-1.0-*-here.log")
    assert f"  log: {log}\n" in told
    assert "here/fast.c" in log.read_text()
    assert nothing_left(scene)


def test_build_that_does_not_say_what_it_needs(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", compiled("here", before="import absent"))
    scene.entry(ENTRY, "here", build=["here"])
    told = scene.refused("lock", ENTRY).stderr
    assert "error[build-failed]: here 1.0 did not say what it is built with, and what it needs\n" in told
    assert "ModuleNotFoundError: No module named 'absent'" in told
    assert "`build_requires: {here: [absent]}` in the recipe adds one that it imports and does not ask for" in told


def test_build_gets_what_the_recipe_says_that_it_requires(scene: WheelBox) -> None:
    """flash-attn, for one, imports torch in its setup.py and does not ask for it. A wheel of the cache is not fetched again."""
    scene.house.sdist("here", "1.0", compiled("here", before="import framework\nassert framework.VERSION == '2.0'"))
    scene.house.wheel("framework", "1.0")
    scene.house.wheel("framework", "2.0", requires=["part"])
    scene.house.wheel("framework", "3.0")
    scene.house.wheel("part")
    ask = {"build": ["here"], "build_requires": {"Here": ["framework==2.0"]}}
    scene.entry(ENTRY, "here", "framework==2.0", **ask)
    with scene.served() as server:
        assert scene.lock(ENTRY) == {"framework": "2.0", "here": "1.0", "part": "1.0"}
        assert [*built_with(scene, "here")] == ["framework", "part", "setuptools", "wheel"]
        done = scene.box.ok("build", ENTRY)
        assert f"{ENTRY}: the log of the build of here is " in done.stderr
        assert manifest(scene)["provenance"]["made"][0]["name"] == "here"
        scene.box.ok("lock", "--check", ENTRY)
        server.requests.clear()
        scene.lock(ENTRY)
        whole = [
            each.path
            for each in server.requests
            if (each.method, each.status) == ("GET", 200) and each.path.endswith(".whl")
        ]
    assert whole == []


def test_build_with_another_version_than_the_entry_has_is_refused(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", compiled("here", before="import framework"))
    scene.house.wheel("framework", "1.0")
    scene.house.wheel("framework", "2.0")
    scene.entry(ENTRY, "here", "framework==1.0", build=["here"], build_requires={"here": ["framework==2.0"]})
    told = scene.refused("lock", ENTRY).stderr
    head = "error[build-requires-differ]: here would be built with framework 2.0, and the entry has 1.0\n"
    assert head in told
    assert "`build_requires: {here: [framework==1.0]}`" in told
    scene.entry(
        ENTRY, "here", "framework==1.0", build=["here"], build_requires={"here": ["framework==1.0"]}
    )  # the hint
    scene.lock(ENTRY)


@pytest.mark.parametrize("asked", [["framework==1.0"], ["needs-it"]])
def test_build_gets_the_version_that_the_entry_has(scene: WheelBox, asked: list[str]) -> None:
    """The hint of a build that misses a package names it without a version."""
    scene.house.sdist("here", "1.0", compiled("here", before="import framework"))
    scene.house.wheel("framework", "1.0")
    scene.house.wheel("framework", "2.0")
    scene.house.wheel("needs-it", requires=["framework<2"])
    scene.entry(ENTRY, "here", *asked, build=["here"], build_requires={"here": ["framework"]})
    assert scene.lock(ENTRY)["framework"] == "1.0"
    assert built_with(scene, "here")["framework"] == "framework-1.0-py3-none-any.whl"
    scene.box.ok("build", ENTRY)


def test_what_a_build_requires_is_part_of_the_question(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", pure("here"))
    scene.house.wheel("framework")
    scene.entry(ENTRY, "here", build=["here"])
    scene.lock(ENTRY)
    scene.entry(ENTRY, "here", build=["here"], build_requires={"here": ["framework"]})
    assert "does not match recipe.yaml" in scene.box.run("lock", "--check", ENTRY).stdout
    scene.entry(ENTRY, "here", build_requires={"here": ["framework"]})
    told = scene.refused("lock", ENTRY).stderr
    assert "build_requires: here is not built from its source: name it in `build`" in told


def test_archive_that_reaches_out_of_its_folder(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", {**pure("here"), "../../escaped": "x"})
    scene.entry(ENTRY, "here", build=["here"])
    assert "error[sdist-invalid]: here-1.0.tar.gz cannot be unpacked\n" in scene.refused("lock", ENTRY).stderr
    assert not list(scene.box.root.rglob("escaped"))


def test_source_that_is_another_package(scene: WheelBox) -> None:
    scene.house.sdist("here", "1.0", pure("here", "1.1"))
    scene.entry(ENTRY, "here", build=["here"])
    told = scene.refused("lock", ENTRY).stderr
    assert "error[sdist-invalid]: here-1.0.tar.gz says that it is here 1.1\n" in told


def test_sources_come_from_an_index_a_folder_or_a_carried_cache(scene: WheelBox, tmp_path: Path) -> None:
    """The run-time setuptools is another than the one that builds."""
    scene.house.sdist("here", "1.0", compiled("here"))
    scene.house.wheel("setuptools", "60.0")
    scene.entry(ENTRY, "here", "setuptools==60.0", build=["here"])
    with scene.served():
        assert scene.lock(ENTRY)["setuptools"] == "60.0"
        dry = scene.box.ok("fetch", "--dry-run", ENTRY, "--format", "json").stdout
        assert "/simple/here/" in dry
        scene.box.ok("fetch", ENTRY)
    assert sorted(path.name for path in scene.box.prefix.glob("cache/wheels/*/*")) == [
        "here-1.0.tar.gz",
        "setuptools-60.0-py3-none-any.whl",
        "setuptools-68.2.2-py3-none-any.whl",
        "wheel-0.45.1-py3-none-any.whl",
    ]
    carried = scene.box.prefix.joinpath("cache").rename(tmp_path / "carried")
    for place in (str(scene.house.files), None):
        if place:
            scene.index(house={"url": "http://127.0.0.1:9/simple", "mirrors": [place]})
            scene.box.ok("fetch", ENTRY)
            remove_tree(scene.box.prefix / "cache")
        else:
            scene.index(house="http://127.0.0.1:9/simple")
            scene.box.ok("fetch", ENTRY, "--file", str(carried))
    scene.box.ok("build", ENTRY)


def test_damaged_wheel_of_a_carried_cache_comes_from_the_index_or_is_told(scene: WheelBox, tmp_path: Path) -> None:
    scene.house.wheel("one")
    scene.house.wheel("two")
    scene.entry(ENTRY, "one", "two")
    scene.lock(ENTRY)
    scene.box.ok("fetch", ENTRY)
    carried = scene.box.prefix.joinpath("cache").rename(tmp_path / "carried")
    (damaged,) = carried.glob("wheels/*/two-*.whl")
    damaged.write_bytes(b"damaged")
    scene.index(house="http://127.0.0.1:9/simple")
    told = scene.refused("fetch", ENTRY, "--file", str(carried)).stderr
    assert "error[no-network]: " in told
    assert f"  {damaged.as_uri()}: sha256 is " in told
    remove_tree(scene.box.prefix / "cache")
    scene.index(house=scene.house.simple.as_uri())
    done = scene.box.ok("fetch", ENTRY, "--file", str(carried), "--format", "json").data
    assert [(row["present"], row["fetched"]) for row in done["entries"]] == [(0, 2)]


def test_job_on_a_node_builds_from_what_lies_below_the_prefix(scene: WheelBox) -> None:
    """It sees neither the catalog nor an index."""
    scene.house.sdist("here", "1.0", pure("here"))
    folder = scene.entry(ENTRY, "here")
    (folder / "here.patch").write_text(PATCH)
    sha256 = hashlib.sha256((folder / "here.patch").read_bytes()).hexdigest()
    scene.entry(ENTRY, "here", build=["here"], patches=[{"file": "here.patch", "sha256": sha256}])
    scene.lock(ENTRY)
    site = load_site(scene.box.root / "site.yaml", {})
    entry = open_catalog(site).find(parse_entry(ENTRY))
    lock = get_backend("wheels").load_lock(entry.entry, entry.recipe(), entry.folder, site)
    items = lock.items(site, read_target(site.cpu_level))
    can_write(site, [lock.backend])
    lock.prepare(items, site, Runner(), SilentReporter(), elsewhere=JobOptions())
    job = JobFolder(items[-1].install)
    job.write(Work(entry.recipe(), lock, items[-1]), entry.folder, site, envmgr.__version__)
    remove_tree(folder.parent)
    remove_tree(scene.house.folder)
    scene.box.ok("_build-item", str(job.request))
    (made,) = manifest(scene)["provenance"]["made"]
    assert made["wheel"] == "here-1.0-py2.py3-none-any.whl"


def test_build_that_is_killed_leaves_nothing_to_the_next(scene: WheelBox, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"import os, sys, time\nif 'bdist_wheel' in sys.argv:\n    while not os.path.exists({str(gate)!r}): time.sleep(0.1)"
    scene.house.sdist("here", "1.0", compiled("here", before=wait))
    scene.entry(ENTRY, "here", build=["here"])
    scene.lock(ENTRY)
    scene.box.settings["build_dir"] = str(tmp_path / "builds")
    scene.box.write_site()
    process = scene.box.start("build", ENTRY)
    place = "envmgr-build-*/some-1.0-*/here/source/here-1.0/setup.py"
    wait_for(lambda: list((tmp_path / "builds").glob(place)), what="the source")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not scene.box.processes(), what="the end of what builds")
    gate.touch()
    scene.box.ok("build", ENTRY)
    assert nothing_left(scene, built=True)
    assert not list((tmp_path / "builds").iterdir())


def without_namespaces(scene: WheelBox, *argv: str) -> Done:
    """Where no process can make one."""
    limit = 'echo 0 | tee /proc/sys/user/max_net_namespaces /proc/sys/user/max_mnt_namespaces >/dev/null && exec "$@"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", limit, "sh", *scene.box.command(*argv)],
        cwd=scene.box.root,
        env=scene.box.environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def nothing_left(scene: WheelBox, *, built: bool = False) -> bool:
    return scene.box.leftovers() == [] and (built or not list(scene.box.prefix.glob("store/some/*")))


def test_source_without_end_leaves_min_free_where_temporary_files_go(scene: WheelBox, tmp_path: Path) -> None:
    """Its index tells no size."""
    scene.house.sdist("here", "1.0", pure("here"))
    page = scene.house.simple / "here/index.json"
    told = json.loads(page.read_text())
    files = [{key: value for key, value in file.items() if key != "size"} for file in told["files"]]
    page.write_text(json.dumps({**told, "files": files}))
    small, seen = tmp_path / "small", tmp_path / "seen"
    small.mkdir()
    scene.box.policies |= {"min_free": 40 << 20, "download_retries": 0}
    inside = Small.enter(tmp_path, f"mount -t tmpfs -o size=80m,mode=1777 tmpfs {small}")
    watch = f'while :; do df --output=avail -k {small} | tail -1 >> {seen}; sleep 0.05; done & p=$!; "$@"; rc=$?; kill $p; exit $rc'
    try:
        with scene.served() as server:
            server.faults["files/here-*"] = Fault("endless")
            scene.entry(ENTRY, "here", build=["here"])
            argv = [*inside.words(), "sh", "-c", watch, "sh", *scene.box.command("lock", ENTRY)]
            environ = scene.box.environ(TMPDIR=str(small))
            done = subprocess.run(
                argv, cwd=scene.box.root, env=environ, capture_output=True, text=True, timeout=120, check=False
            )
    finally:
        inside.leave()
    assert done.returncode == 3, done.stdout + done.stderr
    assert "error[disk-full]: " in done.stderr
    assert "hint: name a folder with more room in $TMPDIR" in done.stderr
    assert min(int(row) for row in seen.read_text().split()) > 20 << 10  # of the 40 MiB: it looks every 8 MiB
