"""No circle of imports, not even through an import inside a function or for types only."""

from __future__ import annotations

from collections.abc import Mapping

import grimp


def circles(imports: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Each set of modules that reach each other, sorted."""
    reached: dict[str, set[str]] = {}
    for module in imports:
        found: set[str] = set()
        todo = [module]
        while todo:
            fresh = imports[todo.pop()] - found
            found |= fresh
            todo += fresh
        reached[module] = found
    groups = {frozenset(b for b in imports if b in reached[a] and a in reached[b]) for a in imports if a in reached[a]}
    return sorted(sorted(group) for group in groups)


def test_no_module_imports_itself_by_others() -> None:
    graph = grimp.build_graph("envmgr", cache_dir=None)
    imports = {module: frozenset(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    assert sum(map(len, imports.values())) > 700
    assert circles(imports) == []


def test_circles_are_found() -> None:
    none: frozenset[str] = frozenset()
    assert circles({"a": frozenset("b"), "b": frozenset("c"), "c": none}) == []
    imports = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("da"), "e": frozenset("a")}
    assert circles(imports) == [["a", "b", "c"], ["d"]]
