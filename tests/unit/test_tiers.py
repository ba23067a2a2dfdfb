"""The tiers of tests/README.md: what a folder's tests may use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import ROOT, TESTS

TIERS = ("unit", "sandbox", "cluster", "easybuild", "torch")
SANDBOX = {"channel", "sandbox", "make_sandbox"}
CLUSTER = {"cluster", "sshfs_cluster", "nfs_cluster", "cluster_possible", "audited", "shop"}
EASYBUILD = {"workshop"}
# What the tests of a tier never ask for. A source build of the slow ones runs its programs on a cluster of its own.
FORBIDDEN = {
    "unit": SANDBOX | CLUSTER | EASYBUILD,
    "sandbox": CLUSTER | EASYBUILD,
    "cluster": set[str](),
    "easybuild": CLUSTER,
    "torch": CLUSTER,
}
FILES = sorted(path for tier in TIERS for path in (TESTS / tier).rglob("test_*.py"))


def fixtures(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (
            node.name.startswith("test_") or "fixture" in " ".join(map(ast.unparse, node.decorator_list))
        ):
            given = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)  # by parametrize, at times
            names = (argument.arg for argument in (*node.args.args, *node.args.kwonlyargs))
            yield from (name for name in names if f"'{name}'" not in given)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_file_uses_what_its_tier_has(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert set(fixtures(tree)) & FORBIDDEN[path.relative_to(TESTS).parts[0]] == set()
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [name for name in imported if name.startswith(tuple(f"tests.{tier}" for tier in TIERS))] == []


def test_every_room_in_a_tier_is_a_room_of_the_package() -> None:
    rooms = {path.name for path in (ROOT / "envmgr").iterdir() if (path / "__init__.py").exists()}
    folders = {path.name for tier in TIERS for path in (TESTS / tier).iterdir() if (path / "__init__.py").exists()}
    assert folders - rooms == set()


def test_every_fixture_and_folder_of_the_page_is_there() -> None:
    page = (TESTS / "README.md").read_text()
    assert [name for name in sorted(SANDBOX | CLUSTER | EASYBUILD) if f"`{name}`" not in page] == ["cluster_possible"]
