"""The references of the documentation that are made of the code: verbs and errors."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from envmgr.cli.app import app

CODE = Path(__file__).resolve().parents[2] / "envmgr"
EXIT_CODES = {"EnvmgrError": 3, "InputError": 2, "Row": 3, "StaleLock": 3}
_REFERENCE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (\d+) \| (.*) \| (.*) \|$", re.MULTILINE)


def command_reference() -> str:
    """Return the page of all verbs, with what their `--help` says."""
    parts = [
        "# Command reference\n",
        "All verbs with their options, as `--help` shows them. [Verbs](verbs.md) has them by what they are for.\n",
    ]
    for each in verb_helps(typer.main.get_command(app)):
        example, _, page = each.epilog.partition("\n\n")
        see = re.sub(r".*?([a-z-]+\.md)\.$", r"See [\1](\1).\n", page, flags=re.DOTALL)
        parts += [f"## {each.verb}\n", f"    {each.usage}\n", *(f"{_cell(part)}\n" for part in each.text.split("\n\n"))]
        for heading, rows in each.lists.items():
            if rows:
                parts += [f"| {heading.lower()} | |", "| --- | --- |"]
                parts += [f"| `{_cell(term)}` | {_cell(text).replace('<', '&lt;')} |" for term, text in rows] + [""]
        parts += [f"    {example.removeprefix('Example: ')}\n"] * bool(example)
        parts += [see] * bool(see)
    return "\n".join(parts)


class VerbHelp(NamedTuple):
    """The help of a verb, or of a group of verbs. `lists` has rows of two columns by the heading of their section."""

    verb: str
    usage: str
    text: str
    lists: dict[str, list[tuple[str, str]]]
    epilog: str


def verb_helps(command: Any, name: str = "envmgr", above: typer.Context | None = None) -> Iterator[VerbHelp]:
    """Yield the help of a typer command, and of the commands in it that a help lists."""
    ctx = typer.Context(command, parent=above, info_name=name, **command.context_settings)
    inner = {each: sub for each, sub in sorted(getattr(command, "commands", {}).items()) if not sub.hidden}
    rows = [(each, each.get_help_record(ctx)) for each in command.get_params(ctx)]
    lists = {
        "COMMANDS": [(each, (sub.help or "").partition("\n")[0]) for each, sub in inner.items()],
        "ARGUMENTS": [row for each, row in rows if row and each.param_type_name == "argument"],
        "OPTIONS": [row for each, row in rows if row and each.param_type_name == "option"],
    }
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    yield VerbHelp(ctx.command_path, usage, command.help or "", lists, command.epilog or "")
    for each, sub in inner.items():
        yield from verb_helps(sub, each, ctx)


def error_reference(page: str) -> str:
    """Return the page of all errors, each under its own heading, with where the code raises it; `page` is errors.md, which says what it means.

    Raises KeyError where that page lacks an error of the code.
    """
    rows = {name: rest for name, *rest in _ROW.findall(page)}
    parts = [
        "# Error reference\n",
        "Every error under its own heading, to link to. [Errors](errors.md) explains their form and the exit codes.\n",
    ]
    for name, places in sorted(errors_in_code().items()):
        code, meaning, what = rows[name]
        files = ", ".join(f"`envmgr/{place}`" for place in sorted({place for place, _ in places}))
        parts += [f"## {name}\n", f"Exit code {code}: {meaning}.\n", f"What to do: {what}.\n"]
        parts += [f"Raised in {files}.\n"] * bool(files)
    return "\n".join(parts)


def errors_in_code() -> dict[str, set[tuple[str, int]]]:
    """Return reference -> files below envmgr/ and exit codes, from every call of an error class, or of a row of words, in the package."""
    found: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for name, code in (("bug", 4), ("interrupted", 130), ("command-failed", 3)):
        found[name].add(("errors.py", code))
    for path in sorted(CODE.rglob("*.py")):
        tree, file = ast.parse(path.read_text("utf-8")), str(path.relative_to(CODE))
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
            for keyword in call.keywords:
                if keyword.arg == "reference":  # load_model(…, reference=…) raises InputError
                    for name in _words(keyword.value):
                        found[name].add((file, 2))
            if isinstance(call.func, ast.Name) and call.func.id in EXIT_CODES and call.args:
                first = call.args[0]
                names = _first_of_pairs(tree) if isinstance(first, ast.Name | ast.Starred) else _words(first)
                for name in names:
                    found[name].add((file, EXIT_CODES[call.func.id]))
    return found


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from _words(node.body)
        yield from _words(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _first_of_pairs(tree: ast.AST) -> Iterator[str]:
    """Yield where the reference is a variable: it comes from a pair (reference, text) of the same module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.ctx, ast.Load):
            yield from (word for word in _words(node.elts[0]) if _REFERENCE.fullmatch(word))


def _cell(text: str) -> str:
    """Return text on one line, for a table."""
    return " ".join(text.split()).replace("|", "\\|")
