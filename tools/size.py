"""`python -m tools.size`: print how much code, text and structure the project has. `--check` compares it with the bounds.

The bounds are `[tool.envmgr.size]` of pyproject.toml. A change that makes the project smaller lowers them; a commit that
raises one says what for.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
import tomllib
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LONG_FUNCTION, LONG_LINE = 60, 120
_FOLDERS = ("envmgr", "tests")
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True, slots=True)
class Measured:
    """The counts of one Python file, in lines. `imports` are part of `code`; a line with code and a comment is code."""

    lines: int
    code: int
    docstrings: int
    comments: int
    imports: int
    long_lines: int
    long_functions: int
    skips: int


def main(arguments: list[str]) -> int:
    """Print one table for each folder, or with `--check` what is over its bound; returns 1 for that."""
    if arguments == ["--check"]:
        over = [*over_bounds(Path())]
        sys.stderr.write("".join(f"{line}\n" for line in over))
        return 1 if over else 0
    for folder in _FOLDERS:
        sys.stdout.write("\n".join(rows(Path(folder))) + "\n")
    audit = [Path("envmgr/audit"), Path("envmgr/probe")]
    code = sum(measure(path.read_text()).code for folder in audit for path in python_files(folder))
    other = [sum(lines_of(folder, ending) for folder in audit) for ending in ("yaml", "sh")]
    sys.stdout.write(f"the audit and its probe\n  {'code, yaml, shell lines':26} {code}, {other[0]}, {other[1]}\n")
    by_hand, generated = pages(Path())
    sys.stdout.write(f"docs\n  {'bytes by hand':26} {by_hand}\n  {'bytes generated':26} {generated}\n")
    return 0


def bounds(root: Path) -> dict[str, Any]:
    """Return `[tool.envmgr.size]` of the project at `root`."""
    settings: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["envmgr"]["size"]
    return settings


def over_bounds(root: Path) -> Iterator[str]:
    """Yield a line for each bound that the project at `root` is over."""
    found = {folder: sum(measure(path.read_text()).code for path in python_files(root / folder)) for folder in _FOLDERS}
    found["docs"] = pages(root)[0]
    for name, size in found.items():
        if size > (bound := bounds(root)[name]):
            unit = "bytes by hand" if name == "docs" else "code lines"
            yield f"{name}: {size} {unit}, over the bound of {bound} in pyproject.toml: take something away"


def pages(root: Path) -> tuple[int, int]:
    """Return the bytes of the pages that people write, and of those that a program writes."""
    generated = [root / name for name in bounds(root)["generated"]]
    files = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    sizes = {path: path.stat().st_size for path in files}
    return sum(sizes[path] for path in files if path not in generated), sum(sizes.get(path, 0) for path in generated)


def rows(folder: Path) -> Iterator[str]:
    """Yield the lines of the table of the Python files below `folder`."""
    files = {path: path.read_text(encoding="utf-8") for path in python_files(folder)}
    found = [measure(text) for text in files.values()]
    code = sum(each.code for each in found)
    lengths = [each.lines for each in found] or [0]
    longest = max(files, key=lambda path: files[path].count("\n"), default=folder)
    table = {
        "code lines": code,
        "docstring lines": sum(each.docstrings for each in found),
        "comment lines": sum(each.comments for each in found),
        "import lines": f"{sum(each.imports for each in found)} ({share(sum(each.imports for each in found), code)})",
        "files": len(files),
        "median file": f"{statistics.median(lengths):.0f} lines",
        "longest file": f"{max(lengths)} lines, {longest}",
        f"functions over {LONG_FUNCTION} lines": sum(each.long_functions for each in found),
        f"lines over {LONG_LINE} columns": sum(each.long_lines for each in found),
        "fmt: skip": sum(each.skips for each in found),
        "import chain": longest_chain(imports_of(folder, files)),
        "yaml lines": lines_of(folder, "yaml"),
        "shell lines": lines_of(folder, "sh"),
    }
    yield f"{folder}/"
    yield from (f"  {name:26} {value}" for name, value in table.items())


def lines_of(folder: Path, ending: str) -> int:
    """Count the lines of all files below `folder` with this ending, as `wc -l` does."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob(f"*.{ending}") if not _hidden(path))


def share(part: int, whole: int) -> str:
    """Return `part` of `whole` as a percentage."""
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def python_files(folder: Path) -> list[Path]:
    """Return the Python files below `folder`, sorted; nothing below a folder whose name begins with a dot."""
    return [p for p in sorted(folder.rglob("*.py")) if p.is_file() and not _hidden(p)]


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def measure(text: str) -> Measured:
    """Count the lines of one file by its tokens and its syntax tree."""
    tree = ast.parse(text)
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    docstrings = {line for node in ast.walk(tree) for line in _docstring(node)}
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    imports = {line for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for line in _span(n)}
    lines = text.splitlines()
    return Measured(
        lines=len(lines),
        code=len(code - docstrings),
        docstrings=len(docstrings),
        comments=len(comments - code),
        imports=len(imports),
        long_lines=sum(len(line) > LONG_LINE for line in lines),
        long_functions=sum(len(_span(each)) > LONG_FUNCTION for each in functions),
        skips=len(re.findall(r"#\s*fmt: skip", text)),
    )


def _docstring(node: ast.AST) -> range:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
        return _span(node.body[0])
    return range(0)


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def imports_of(folder: Path, files: Mapping[Path, str]) -> dict[str, set[str]]:
    """Map each module below `folder` to the modules there that it imports when it is imported itself."""
    modules = {_module(folder, path): ast.parse(text) for path, text in files.items()}
    found = {name: {*_imported(tree, modules.keys())} for name, tree in modules.items()}
    return {
        name: {p for each in there for p in _with_packages(each) if p in modules} - {name}
        for name, there in found.items()
    }


def _with_packages(module: str) -> Iterator[str]:
    """Yield the module and the packages that it is in, which Python imports first."""
    while module:
        yield module
        module = module.rpartition(".")[0]


def _module(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.Module, known: Container[str]) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found = whole if whole in known else node.module
                if found in known:
                    yield found


def longest_chain(graph: Mapping[str, set[str]]) -> int:
    """Return the number of modules in the longest chain of imports; an import that closes a circle is not followed."""
    under_way: set[str] = set()

    @cache
    def depth(name: str) -> int:
        under_way.add(name)
        found = 1 + max((depth(each) for each in graph[name] - under_way), default=0)
        under_way.discard(name)
        return found

    return max((depth(name) for name in graph), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
