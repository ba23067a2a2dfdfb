"""A Spack install tree: the database that a real Spack wrote (tests/fixtures/spack), and a small bzip2 where it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from envmgr.backends.spack.models import SpackRecord
from envmgr.catalog.locks import recipe_digest
from envmgr.system.files import sha256_bytes
from envmgr.system.yamlfile import dump_yaml
from tests.helpers.places import ROOT
from tests.helpers.vendor_tree import make_tree

RECORDED = ROOT / "tests" / "fixtures" / "spack"
WAS = "/opt/spack/tree"
HASH = "arnmn6trjfe5shdealklkistl6eire7o"
FOLDER = "bzip2/1.0.8-arnmn6tr"


def recorded(name: str, at: str = WAS) -> str:
    """The text of a recorded file, as if the tree was at `at`."""
    return (RECORDED / name).read_text().replace(WAS, at)


def make_spack_tree(root: Path, at: str | None = None) -> Path:
    """Make the tree at `root`, which is seen at `at`, and return the folder of bzip2."""
    write_database(root, json.loads(recorded("index.json", at or str(root))))
    below = json.loads(recorded("index.json"))["database"]["installs"]
    for row in below.values():
        if row["path"].startswith(WAS):
            (root / row["path"].removeprefix(f"{WAS}/")).mkdir(parents=True)
    return make_tree(root / FOLDER)


def write_database(root: Path, data: dict[str, Any]) -> None:
    (root / ".spack-db").mkdir(parents=True, exist_ok=True)
    (root / ".spack-db" / "index.json").write_text(json.dumps(data))


LOCKED = {"specs": ["bzip2@1.0.8"], "target": "x86_64_v3"}
"""The input for which `environment/spack.lock` was made."""


def write_spack_lock(folder: Path) -> None:
    """Write the recorded lock of an environment beside a recipe whose input is LOCKED."""
    text = recorded("environment/spack.lock")
    record = SpackRecord(
        recipe=recipe_digest("spack", LOCKED),
        lock=sha256_bytes(text.encode()),
        sources=json.loads(recorded("environment/sources.json")),
    )
    (folder / "spack.lock").write_text(text)
    (folder / "spack-lock.yml").write_text(dump_yaml(record.model_dump(mode="json"), width=120))
