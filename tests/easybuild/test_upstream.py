"""EasyBuild on installs of an upstream: used where they are, by the build and by the module, and never built again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.easybuild.workshop import Workshop, make_workshop

CHECK = "#!/bin/sh\nset -e\nbase_dir=$EBROOTBASE\ntest -x $base_dir/bin/toy\n"


@pytest.fixture
def own(workshop: Workshop) -> Iterator[Workshop]:
    """A second site; `workshop` has built `base/1.0`, and is its upstream. `toy/1.0` needs both at build and at run time."""
    workshop.toy("low")
    workshop.toy("base", dependencies=[("low", "1.0")])
    workshop.toy(dependencies=[("base", "1.0")], prebuildopts='toy >/dev/null && test -n "$EBROOTBASE" && ')
    workshop.locked("base/1.0", "base-1.0.eb")
    workshop.locked("toy/1.0", "toy-1.0.eb")
    workshop.ok("build", "base/1.0")
    box = make_workshop(upstream=str(workshop.prefix))
    for name in ("easyconfigs", "mirror", "recipes"):
        shutil.copytree(workshop.root / name, box.root / name, dirs_exist_ok=True)
    yield box
    remove_tree(box.root)


def state(prefix: Path) -> list[tuple[str, float]]:
    return sorted((str(path), path.lstat().st_mtime) for path in prefix.rglob("*"))


def test_chain_is_built_on_what_the_upstream_has(workshop: Workshop, own: Workshop) -> None:
    before = state(workshop.prefix)
    planned = own.ok("build", "toy/1.0", "--dry-run").stdout
    assert [line.split()[0] for line in planned.splitlines() if line.startswith("  ")].count("upstream") == 2, planned
    own.ok("build", "toy/1.0")
    assert [item.partition("/")[0] for item in own.items()] == ["toy"]
    loaded = own.shell("module load toy && toy && echo $EBROOTBASE $EBROOTLOW")
    base, low = (next(workshop.prefix.glob(f"store/{name}/*-*[0-9a-f]")) for name in ("base", "low"))
    assert (loaded.stdout.splitlines()[-1], loaded.stderr) == (f"{base} {low}", "")
    assert own.ok("verify").stdout.endswith("0 differ from their manifest\n")
    assert own.ok("build", "toy/1.0").stdout == "nothing to do: toy/1.0 is published in generation 1\n"
    assert state(workshop.prefix) == before


def test_entry_that_the_upstream_has_is_published_and_not_built(workshop: Workshop, own: Workshop) -> None:
    workshop.ok("build", "toy/1.0")
    # The own prefix has a part of the chain, on which nothing of the upstream's stands.
    own.settings.pop("upstream")
    own.write_site()
    own.ok("build", "base/1.0", "--no-publish")
    mine = own.items()
    own.settings["upstream"] = str(workshop.prefix)
    own.write_site()
    own.ok("build", "toy/1.0")
    assert own.items() == mine
    (toy,) = (path for path in workshop.prefix.glob("store/toy/*") if path.is_dir())
    assert own.shell("module load toy && command -v toy").stdout == f"{toy}/bin/toy\n"
    assert own.ok("list", "--format", "json").data["entries"]
