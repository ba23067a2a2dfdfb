"""One thing has one name, and one name means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.helpers.places import ROOT


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict[str, list[Path]](list)
    for path in sorted((ROOT / "envmgr").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(ROOT))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
