"""The examples of CONTRIBUTING.md, put into a copy of the project: what the page says is what works."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import yaml

from tests.helpers.drifts import Drift, read_drifts
from tests.helpers.places import ROOT

EXAMPLE_BACKEND = ROOT / "tests/examples/backend"
_PARTS = ("envmgr", "modulefiles", "recipes", "easyconfigs", "nodesetup")
DRIFT_TABLE = "envmgr/audit/inventory/kinds.yaml"
DRIFT_ROW = "tests/cluster/audit/drifts.yaml"
_BLOCK = re.compile(r"^```(?:python|sh|yaml)\n# ((?:envmgr|tests)/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> dict[str, str]:
    """path -> text, of each block of the page that begins with its path."""
    return dict(_BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8")))


def copy_with(folder: Path, *beginnings: str) -> list[str]:
    """A copy of the package in `folder`, with the examples whose paths begin so, and nothing else changed; these paths."""
    for name in _PARTS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    added = {path: text for path, text in examples().items() if path.startswith(beginnings)}
    for path, text in added.items():
        assert not (folder / path).exists()
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return sorted(added)


def add_drift(folder: Path) -> Drift:
    """Add the row of the example of a drift to the copy of the package in `folder`, before its kind's last one; its test row."""
    found = examples()
    table = folder / DRIFT_TABLE
    kinds = yaml.safe_load(table.read_text())
    for kind, added in yaml.safe_load(found[DRIFT_TABLE]).items():
        kinds[kind]["rows"][-1:-1] = added["rows"]
    table.write_text(yaml.safe_dump(kinds, sort_keys=False))
    (drift,) = read_drifts(found[DRIFT_ROW])
    return drift
