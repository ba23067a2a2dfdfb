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
DRIFT_TABLE, DRIFT_SHELL = "envmgr/audit/checks/clock.yaml", "envmgr/audit/checks/clock.prefix.sh"
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
    """Add the rows and the shell lines of the example of a drift to the copy of the package in `folder`; its test row."""
    found = examples()
    table, shell = folder / DRIFT_TABLE, folder / DRIFT_SHELL
    merged = yaml.safe_load(table.read_text())
    for section, rows in yaml.safe_load(found[DRIFT_TABLE]).items():
        of_section = merged.setdefault(section, {})
        assert not of_section.keys() & rows.keys()  # else the check has it already
        of_section |= rows
    table.write_text(yaml.safe_dump(merged, sort_keys=False))
    shell.write_text(shell.read_text() + found[DRIFT_SHELL])
    (drift,) = read_drifts(found[DRIFT_ROW])
    return drift
