"""`python -m tools.json_page`: write docs/json.md, the page of the JSON that verbs print, from the classes of their results.

A test compares the page with the classes.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envmgr.verbs.schema import result_classes

PAGE = Path(__file__).resolve().parent.parent / "docs" / "json.md"
_HEAD = """\
# JSON

Every verb takes `--format json`, and prints one JSON object on stdout. `schema` names its form, such as `envmgr.lock/1`. The number changes
when a key goes or changes its meaning; new keys may come without that. Errors have the form `envmgr.error/1` ([errors.md](errors.md)).

`envmgr schema VERB` prints the JSON schema (draft 2020-12) of what a verb prints, `envmgr schema error` that of errors, and `envmgr schema` the
names of all. The `$id` of a schema is the name of its form. Keys that a schema does not have are allowed, and a program should ignore them.

`python -m tools.json_page` writes this page from the code.
"""
_NAMES = {
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "true or false",
    "Path": "path",
    "None": "null",
    "Any": "anything",
}
_LISTS = ("tuple", "list", "Sequence", "frozenset", "set")


def page() -> str:
    """Return the text of the page."""
    parts = [_HEAD]
    for _, result in sorted(result_classes().items()):
        parts += [f"## {result.schema}\n", *_described(result)]
        seen = {result.__name__}
        for part in _parts(result, seen):
            parts += [f"### {part.__name__} of {result.schema}\n", *_described(part)]
    return "\n".join(parts)


def _described(kind: type) -> list[str]:
    text = (
        [f"{inspect.cleandoc(kind.__doc__)}\n"]
        if kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}(")
        else []
    )
    rows = [f"| `{name}` | {_words(ast.parse(annotation, mode='eval').body)} |" for name, annotation in _fields(kind)]
    return [*text, "| key | value |", "| --- | --- |", *rows, ""]


def _fields(kind: type) -> list[tuple[str, str]]:
    """Return the fields of a dataclass or a model with their annotations, those of its bases first."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("envmgr."):
            for name, annotation in vars(base).get("__annotations__", {}).items():
                if not str(annotation).startswith("ClassVar") and not name.startswith("_"):
                    found[name] = str(annotation)
    return [*found.items()]


def _words(node: ast.expr) -> str:
    """Return an annotation in words."""
    match node:
        case ast.Constant(value=None):
            return "null"
        case ast.BinOp(left=left, right=right):
            return f"{_words(left)}, or {_words(right)}"
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            each = values.elts if isinstance(values, ast.Tuple) else [values]
            return ", ".join(f"`{ast.literal_eval(one)}`" for one in each)
        case ast.Subscript(value=ast.Name(id=name), slice=part) if name in _LISTS:
            each = [one for one in part.elts if not _is_ellipsis(one)] if isinstance(part, ast.Tuple) else [part]
            return (
                f"list of {' and '.join(map(_words, each))}"
                if len(each) == 1
                else f"list: {', '.join(map(_words, each))}"
            )
        case ast.Subscript(slice=ast.Tuple(elts=[_, value])):
            return f"object of {_words(value)}"
        case ast.Name(id=name):
            return _NAMES.get(name, f"`{name}`")
    return f"`{ast.unparse(node)}`"


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _parts(kind: type, seen: set[str]) -> Iterator[type]:
    """Yield the classes of the values within, each once."""
    for _, annotation in _fields(kind):
        for name in (node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)):
            value: Any = getattr(sys.modules[kind.__module__], name, None)
            if (
                name not in seen
                and isinstance(value, type)
                and value.__module__.startswith("envmgr.")
                and _fields(value)
            ):
                seen.add(name)
                yield value
                yield from _parts(value, seen)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
