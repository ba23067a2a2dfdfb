"""`python -m tools.check_words`: print words that the house does not use, in code, help, messages and pages.

It reads docstrings, comments and other strings of the Python code, the texts of the yaml tables, comments and messages of
shell, csh and Lua files, and all pages but CHANGELOG.md. CONTRIBUTING.md has the word list for people. A line that must have
such a word says why: `# words: …` in code, `<!-- words: … -->` in a page.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "*/README.md")
_MOST_WORDS = 40
"""Of a sentence in a page; 30 is the aim."""

_WORDS: tuple[tuple[str, str], ...] = (
    (r"\btold\b", "reported, said"),
    (r"\bmend(s|ed|ing)?\b", "fix"),
    (r"\banew\b", "again"),
    (r"\bbesides\b", "also, separately"),
    (r"\b(that|which|it|what) (is|are) none\b|\bis none of\b", "there is no …, is not among …"),
    (r"\b(has|have|had) not[,.;:)]", "does not have"),
    (r"\bfor want of\b", "because … is missing"),
    (r"\bof others\b", "other people's, other tools'"),
    (r"\balone\b", "only"),
    (r"\bwhoever\b", "users who"),
    (r"\bis the (server|node|host) well\b", "is it up?"),
    (r"\bis it meant\b", "intended?"),
    (r"…\.? *$", "no ellipsis at the end of a sentence"),
)
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), say) for pattern, say in _WORDS)
_BEGINNINGS = re.compile(
    r"(What|Of|Where|Whether|Why|How|Who|Whose|Which|When|As|By|With|Without|None|Such|Told|Those|That|It|So|And|Raises)\b"
)
"""A docstring begins with a verb, or with the noun that it stands for."""

_TEXT_FOLDERS = ("envmgr", "nodesetup", "modulefiles")
_YAML_CODE = re.compile(r"\s*[\w.*&]+: *(\[.*\]|\w+)$")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_PRINTS = re.compile(r"\b(echo|printf|put|say)\b|\w=\"")


def main() -> int:
    """Print each fault as `file:line: word: say …`; returns 1 if there is one."""
    faults = [*_python_faults(_ROOT / "envmgr"), *_other_faults(_ROOT), *_page_faults()]
    for line in faults:
        sys.stdout.write(f"{line}\n")
    return 1 if faults else 0


def _python_faults(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        excused = {number for number, line in enumerate(text.splitlines(), 1) if "# words:" in line}
        name = path.relative_to(_ROOT)
        for number, words, kind in _texts(text):
            if kind == "docstring" and (found := _BEGINNINGS.match(words.strip())):
                yield f"{name}:{number}: a docstring begins with `{found[0]}`: begin with a verb or a noun"
            for offset, line in enumerate(words.splitlines()):
                if number + offset not in excused:
                    yield from (f"{name}:{number + offset}: {fault}" for fault in _faults(line))


def _texts(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, text and kind (docstring, prose, message) of every string with a space in it, and every comment."""
    tree = ast.parse(text)
    docstrings = {
        node.body[0].lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    }
    prose = {
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# "), "prose"
        elif token.type == tokenize.STRING and " " in token.string:
            words = re.sub(r"^[rRbBfFuU]*('''|\"\"\"|'|\")|('''|\"\"\"|'|\")$", "", token.string)
            line = token.start[0]
            kind = "docstring" if line in docstrings else "prose" if line in prose else "message"
            yield line, words if kind != "message" else _without_values(words), kind


def _without_values(message: str) -> str:
    """Return a message without the values in it: names of code, and values that it shows shortened."""
    return re.sub(r"\{[^{}]*\}…?", "VALUE", message)


def _other_faults(root: Path) -> Iterator[str]:
    """Yield the faults of yaml tables, and of shell, csh and Lua files."""
    for folder in _TEXT_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            read = _READERS.get(path.suffix)
            if read is None or not path.is_file():
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if "words: " not in line:
                    yield from (f"{path.relative_to(root)}:{number}: {fault}" for fault in _faults(read(line)))


def _yaml_text(line: str) -> str:
    """Return what a person reads in a line of a table: comment, description or sentence."""
    return "" if _YAML_CODE.match(line) else _without_values(line)


def _shell_text(line: str) -> str:
    """Return the comment of a line of a shell script, and the strings that it prints or keeps, without variables."""
    comment = re.search(r"(^|\s)# .*", line)
    code = line[: comment.start()] if comment else line
    printed = " ".join(_QUOTED.findall(code)) if _PRINTS.search(code) else ""
    return re.sub(r"\$\{?[\w%=#*.-]+\}?", "VALUE", f"{printed} {comment[0] if comment else ''}")


def _lua_text(line: str) -> str:
    """Return the comment of a line of Lua, and its strings."""
    comment = re.search(r"(^|\s)-- .*", line)
    code = line[: comment.start()] if comment else line
    return " ".join([*_QUOTED.findall(code), comment[0] if comment else ""])


def _faults(line: str) -> Iterator[str]:
    plain = re.sub(r"`[^`]*`", "`…`", line)
    for pattern, say in _COMPILED:
        if found := pattern.search(plain):
            yield f"`{found[0].strip()}`: say `{say}`" if say else found[0]


_READERS = {".yaml": _yaml_text, ".lua": _lua_text, **dict.fromkeys(("", ".sh", ".csh"), _shell_text)}


def _page_faults() -> Iterator[str]:
    for path in sorted(page for pattern in PAGES for page in _ROOT.glob(pattern)):
        name, fenced = path.relative_to(_ROOT), False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            fenced ^= line.startswith("```")
            if fenced or line.startswith("    ") or "<!-- words:" in line:
                continue
            yield from (f"{name}:{number}: {fault}" for fault in _faults(line))
        for number, sentence in _sentences(path.read_text(encoding="utf-8")):
            if (count := len(sentence.split())) > _MOST_WORDS:
                yield f"{name}:{number}: a sentence of {count} words: `{sentence[:50]}…`"


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every sentence of a page; of a table, of every cell."""
    fenced, paragraph, begin = False, list[str](), 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fenced ^= line.startswith("```")
        prose = not fenced and not line.startswith(("    ", "```", "#"))
        if prose and line.startswith("|"):
            for cell in line.strip("|").split(" | "):
                yield from ((number, each) for each in _split(cell))
        elif prose and line.strip() and not re.match(r"\s*([-*]|\d+\.) ", line):
            begin = begin if paragraph else number
            paragraph.append(line)
        else:
            yield from ((begin, each) for each in _split(" ".join(paragraph)))
            paragraph, begin = ([line], number) if prose and line.strip() else ([], 0)


def _split(text: str) -> list[str]:
    """Split at full stops, question marks, colons and semicolons; a command is one word."""
    return re.split(r"(?<=[.!?:;])\s+", re.sub(r"`[^`]*`", "`…`", text.strip()))


if __name__ == "__main__":
    sys.exit(main())
