"""Golden module trees: `python -m tests.helpers.golden_cases` renders `input/` of each case into its `expected/`; read the diff."""

from __future__ import annotations

import json
import shutil

from envmgr.modules.render import render_tree
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.system.files import shipped
from tests.helpers.places import TESTS

GOLDEN = TESTS / "golden"
GENERATION = 42


def cases() -> list[str]:
    """The cases that are module trees: those with `input/specs.json`."""
    return sorted(path.parent.parent.name for path in GOLDEN.glob("*/input/specs.json"))


def render_case(case: str) -> dict[str, str]:
    """`specs.json` is a list of ModuleSpec, `policies.json` a ModulePolicies."""
    folder = GOLDEN / case / "input"
    specs = [ModuleSpec.model_validate(value) for value in json.loads((folder / "specs.json").read_text("utf-8"))]
    policies = ModulePolicies.model_validate_json((folder / "policies.json").read_text("utf-8"))
    return render_tree(specs, generation=GENERATION, policies=policies, templates=shipped("modulefiles"))


def read_expected(case: str) -> dict[str, str]:
    folder = GOLDEN / case / "expected"
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes().decode() for path in files}


def rewrite(case: str) -> None:
    expected = GOLDEN / case / "expected"
    shutil.rmtree(expected, ignore_errors=True)
    for path, text in render_case(case).items():
        (expected / path).parent.mkdir(parents=True, exist_ok=True)
        (expected / path).write_bytes(text.encode())


if __name__ == "__main__":
    for name in cases():
        rewrite(name)
        print(f"wrote {GOLDEN / name / 'expected'}")
