"""The page of a large site: how long a publish takes for it, and how large it is over a network that compresses."""

from __future__ import annotations

import gzip
import random
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import Amount, Claim, Shown
from envmgr.catalog.site import load_site
from envmgr.page.entries import make_catalog
from envmgr.page.render import render_page
from envmgr.steps.job_text import example_job
from envmgr.wording import size_text
from tests.helpers.page_scene import PageScene

_ENTRIES, _PACKAGES = 1000, 50  # packages of each
_NAMES = 4000  # packages that entries choose from
_HEX = "0123456789abcdef"


def claims() -> Iterator[Claim]:
    """Ten versions of each of a hundred names; versions and builds as conda has them, by chance of a fixed seed."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="envmgr-bench-") as folder:
        scene = PageScene(Path(folder))
        (scene.root / "site.yaml").write_text(f"prefix: {folder}\n")
        site = load_site(scene.root / "site.yaml", {})
        entries = {}
        for number in range(_ENTRIES):
            entry = f"software{number // 10}/{number % 10}.0"
            packages = {f"package-{each:04}": _version(chance) for each in chance.sample(range(_NAMES), _PACKAGES)}
            entries[entry] = (scene.install(entry, packages),)
        first = scene.contents(1, None, entries)
        scene.keep(first)
        second = scene.contents(2, 1, entries)
        start = time.perf_counter()
        catalog, _ = make_catalog(scene.prefix, site.name, second, partial(example_job, site))
        files = dict(render_page(catalog))
        seconds = time.perf_counter() - start
    yield Amount(f"page of {_ENTRIES} entries with {_ENTRIES * _PACKAGES} packages", seconds, 3.0)
    sizes = {name: (len(data), len(gzip.compress(data, 6))) for name, data in files.items()}
    yield Amount("its index.html, compressed", sizes["index.html"][1] / 1e3, 1000, "kB")
    yield Shown("its files, compressed", "; ".join(f"{name} {size_text(all_)}, {size_text(small)}" for name, (all_, small) in sizes.items()))  # fmt: skip


def _version(chance: random.Random) -> str:
    build = "".join(chance.choices(_HEX, k=7))
    return f"{chance.randrange(9)}.{chance.randrange(30)}.{chance.randrange(10)} py3{chance.randrange(9, 14)}h{build}_{chance.randrange(3)}"
