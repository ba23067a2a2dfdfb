"""The EasyBuild backend beside EasyBuild itself: building Python, finding nothing to do, and loading what was built.

Bare `eb` has the same version, configuration, environment, user, cores and sources; it installs under its own prefix, with its
own naming scheme and without our hooks. What is also ours: checks of sources, the manifest, the flat module, smoke tests,
the generation with its spider cache.

The chain is a closure of EasyBuild's own modules, ten levels of four or of eight below the one that is loaded, each with three
dependencies: 41 modules that name 112, 81 that name 224. GROMACS 2024.1 (foss-2023b) runs with 40 modules on 11 levels that name
103, PyTorch 2.1.2 (foss-2023a) with 78 on 11 that name 227. It lies in a tree of 300 other modules, as those of EasyBuild sites do;
Lmod's default, to look at the tree at every load, stays. It is read over NFS, as nodes do, and from this machine's disk, where
Lmod's own start is nearly all that a flat module costs, and five times is out of reach for the smaller. The flat module is what
`envmgr` makes of it, in a generation with its cache.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Amount, Claim, NotMeasured, Ratio, Took, alternate, took
from envmgr.backends.easybuild.flat import flatten, read_shown
from envmgr.backends.easybuild.installation import EasyBuild, Places
from envmgr.backends.easybuild.settings import EASYBUILD, optarch
from envmgr.modules.lmod import Lmod, find_lmod
from envmgr.modules.render import render_tree
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.system.files import remove_tree, shipped
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.config import PREFIX
from tests.helpers.cluster.needs import reason_to_skip
from tests.helpers.easybuild.workshop import AM_ROOT, BUILD_USER, Workshop, easybuild_home, make_workshop, real_sources

CORES = 2
DEPTH, GROMACS, PYTORCH, OTHERS = 10, 4, 8, 300  # levels; modules on one, in two closures; other modules
_LISTS = (
    ("CMAKE_PREFIX_PATH", ""),
    ("CPATH", "include"),
    ("LD_LIBRARY_PATH", "lib"),
    ("LIBRARY_PATH", "lib"),
    ("PATH", "bin"),
)


def claims(runs: int) -> list[Claim]:
    box = make_workshop()
    try:
        return [*_builds(box, max(2, runs // 2)), *_nothing(box, runs), *_loads(runs)]
    finally:
        remove_tree(box.root)


def _builds(box: Workshop, runs: int) -> list[Claim]:
    real_sources("Python")
    box.locked("python/3.11", "Python-3.11.2.eb")
    box.ok("fetch", "python/3.11")
    bare = Bare(box)

    def ours() -> Took:
        for name in ("store", "generations", "easybuild/modules"):
            remove_tree(box.prefix / name)
        (box.prefix / "current").unlink(missing_ok=True)
        return took(box.command("build", "python/3.11", "-j", str(CORES)), env=box.environ(), cwd=box.root)

    def theirs() -> Took:
        remove_tree(bare.prefix)
        return bare.build("Python-3.11.2.eb")

    return [Ratio("build of Python 3.11.2 / eb", alternate(ours, theirs, runs), 1.05)]


def _nothing(box: Workshop, runs: int) -> list[Claim]:
    bare = Bare(box)
    argv, env = box.command("build", "python/3.11"), box.environ()
    pairs = alternate(lambda: took(argv, env=env, cwd=box.root), lambda: bare.build("Python-3.11.2.eb"), runs * 2)
    return [
        Ratio("build of an EasyBuild entry with nothing to do / eb", pairs, 1 / 3),
        Amount(
            "build of an EasyBuild entry with nothing to do", statistics.median(ours.wall for ours, _ in pairs), 0.3
        ),
    ]


class Bare:
    """`eb` as it would be run without us."""

    def __init__(self, box: Workshop) -> None:
        self.prefix = box.root / "bare"
        self._box = box
        self._sources = box.root / "sources"  # EasyBuild writes there, too
        if not self._sources.exists():
            shutil.copytree(real_sources("Python") / "p", self._sources / "p")
            box.give(self._sources)
        home = easybuild_home()
        places = Places(next(home.glob("lib/python3*/site-packages")), home)
        self._tool = EasyBuild(home / "bin/python", places, EASYBUILD, find_lmod(None, os.environ).commands / "lmod")

    def build(self, easyconfig: str) -> Took:
        wanted = optarch("x86-64-v2")
        options = [
            f"--prefix={self.prefix}",
            f"--sourcepath={self._sources}",
            f"--buildpath={self._box.root}/build/bare",
            f"--robot-paths={shipped('easyconfigs')}:{self._tool.easyconfigs}",
            f"--optarch={wanted}",
            "--disable-rpath",
            f"--parallel={CORES}",
            "--disable-show-progress-bar",
            "--disable-trace",
            "--umask=022",
        ]
        if not self.prefix.exists():
            self.prefix.mkdir()
            self._box.give(self.prefix)
        user = ["runuser", "-u", BUILD_USER, "--"] if AM_ROOT else []
        argv = [*user, str(self._tool.places.home / "bin" / "eb"), easyconfig, *options]
        env = self._tool.environment(HOME=str(self.prefix), EB_PYTHON=str(self._tool.python))
        return took(argv, env=env, cwd=self.prefix)


def _loads(runs: int) -> list[Claim]:
    found = [
        _load(width, "on this disk", runs, *each, limit)
        for width, limit in ((GROMACS, 1 / 3), (PYTORCH, 1 / 5))
        for each in _on_disk(width)
    ]
    if reason := reason_to_skip():
        return [*found, NotMeasured("module load over NFS", reason)]
    return [*found, *(_load(GROMACS, "over NFS", runs, *each, 1 / 5) for each in _over_nfs(GROMACS))]


def _load(width: int, where: str, runs: int, run: Callable[[str], Took], flat: str, chain: str, limit: float) -> Claim:
    run(flat), run(chain)
    pairs = alternate(lambda: run(flat), lambda: run(chain), runs * 2)
    return Ratio(f"module load of a flat module / of EasyBuild's chain of {DEPTH * width + 1}, {where}", pairs, limit)


@contextmanager
def _folder() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="ev."))
    try:
        yield root
    finally:
        remove_tree(root)


def _on_disk(width: int) -> Iterator[tuple[Callable[[str], Took], str, str]]:
    with _folder() as root:
        lmod = find_lmod(None, os.environ)
        flat, chain = _make_trees(width, root, root, lmod)

        def run(script: str) -> Took:
            return _timed(["bash", "--noprofile", "--norc", "-c", script])

        yield run, flat, chain


def _over_nfs(width: int) -> Iterator[tuple[Callable[[str], Took], str, str]]:
    with _folder() as root:
        cluster = Cluster(root / "lab", nodes=1, share="nfs")
        try:
            cluster.up()
            flat, chain = _make_trees(width, cluster.host_prefix, PREFIX, find_lmod(None, os.environ))

            def run(script: str) -> Took:
                done = cluster.sh(
                    "c1", f"s=$(date +%s%N); {script} || exit; e=$(date +%s%N); echo $((e - s))", check=True
                )
                return Took(int(done.stdout.split()[-1]) / 1e9)

            yield run, flat, chain
        finally:
            cluster.down()


def _timed(argv: list[str]) -> Took:
    return took(argv, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})


def _make_trees(width: int, folder: Path, seen: Path, lmod: Lmod) -> tuple[str, str]:
    """Both trees under `folder`, which the loading shells see as `seen`. Returns the shell text that loads each."""
    private = folder / "easybuild" / "modules"
    closure = [
        *((level, number, min(width, 3)) for level in range(DEPTH) for number in range(width)),
        (DEPTH, 0, width),
    ]
    names = [_write_easybuilds(private, seen, *each, width) for each in closure]
    for number in range(OTHERS):
        (private / f"other{number}").mkdir(parents=True)
        (private / f"other{number}/1.0-01234567.lua").write_text('help("other")\n')
    top = names[-1]
    shown = {}
    for name in names:
        text = lmod.show_modules([private], [name]).partition(":\n")[2].partition("\n")[2]
        shown[name] = read_shown((name, text))
    _, ops = flatten(top, shown)
    spec = ModuleSpec(
        name="flat", version="1.0", root=f"{seen}/store/flat/1.0", digest="0" * 64, description="flat", environment=ops
    )
    modules = folder / "generations/0001/modules"
    for path, text in render_tree(
        [spec], generation=1, policies=ModulePolicies(), templates=shipped("modulefiles")
    ).items():
        (modules / path).parent.mkdir(parents=True, exist_ok=True)
        (modules / path).write_text(text)
    spider = folder / "generations/0001/spider"
    # The cache names the paths as the loading shells see them.
    lmod.build_spider_cache(modules, spider)
    for file in spider.iterdir():
        if file.suffix == ".lua":
            file.write_text(file.read_text().replace(str(folder), str(seen)))
    (spider.parent / "lmodrc.lua").write_text(lmod.lmodrc_text(seen / "generations/0001/spider"))
    command = lmod.commands / "lmod"
    clean = "env -i PATH=/usr/bin:/bin HOME=/nonexistent"
    ours = (
        f"MODULEPATH={seen}/generations/0001/modules LMOD_RC={seen}/generations/0001/lmodrc.lua LMOD_CACHED_LOADS=yes"
    )
    check = "| grep -q 'level0n0'"
    return (
        f"{clean} {ours} {command} bash load flat/1.0 {check}",
        f"{clean} MODULEPATH={seen}/easybuild/modules {command} bash load {top} {check}",
    )


def _write_easybuilds(private: Path, seen: Path, level: int, number: int, needed: int, width: int) -> str:
    """A module that needs so many of the level below, the ones from its own number on; returns its name."""
    name = f"level{level}n{number}"
    root = f"{seen}/store/{name}/1.0-01234567"
    below = [(number + step) % width for step in range(needed)] if level else []
    needs = [f'depends_on("level{level - 1}n{n}/1.0-01234567")' for n in below]
    lists = [f'prepend_path("{variable}", pathJoin(root, "{part}"))' for variable, part in _LISTS]
    stem = name.upper()
    lines = [
        f"help([==[\n\nDescription\n===========\n{name} for benchmarks\n]==])",
        f"whatis([==[Description: {name}]==])",
        f'local root = "{root}"',
        f'conflict("{name}")',
        *needs,
        *lists,
        f'setenv("EBROOT{stem}", root)',
        f'setenv("EBVERSION{stem}", "1.0")',
    ]
    (private / name).mkdir(parents=True)
    (private / name / "1.0-01234567.lua").write_text("\n".join(lines) + "\n")
    return f"{name}/1.0-01234567"
