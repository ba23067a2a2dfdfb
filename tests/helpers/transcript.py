"""Whether a page shows what a demo says. What may be another on another machine or day (times, digests, versions) does not count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PROMPT = re.compile(r"\[\w+@\w+\]\$ ")
SKIPPED = "…"
"""A line of a page that stands for any number of lines, none included."""

# What `demo/` says beside the commands.
_ASIDE = ("ok: ", "# ", "=== ")
_MASKS = (
    (r"\b(\d+(\.\d+)?-)?\d+(\.\d+)? s\b", "N s"),
    (r"\b\d+ files\b", "N files"),
    (r"\b\d+ things of \d+ kinds\b", "N things of M kinds"),
    (r"-[0-9a-f]{8}\b", "-DIGEST"),
    (r"\btree [0-9a-f]{12}\b", "tree DIGEST"),
    (r"\bbatch job \d+", "batch job N"),
    (r"\bdigest [0-9a-f]{8}\b", "digest DIGEST"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\b\d{8}T\d{6}-(\w+)-\d+\.log", r"TIME-\1-PID.log"),
    (r"\bpy3\d+_", "pyN_"),
    (r"\b(numpy|python) \d+\.\d+(\.\d+|\.\*)?", r"\1 V"),
    (r"^\d+\.\d+\.\d+ ", "V "),
    (r"(?<=\S) {2,}", "  "),  # columns are as wide as the widest line, which a page may leave out
)


def missing_lines(page: Path, transcript: str) -> list[str]:
    """What the page shows of a session, at prompts such as `[root@login]$`, and the transcript does not have at that place.

    Empty when all is there, in the page's order. For each block that differs, it is the run of lines that was looked for.
    """
    said, at = masked([line for line in transcript.splitlines() if not line.startswith(_ASIDE)]), 0
    missing = []
    for block in blocks(page):
        for run in _runs(block):
            wanted = masked(run)
            places = range(at, len(said) - len(wanted) + 1)
            found = next((i for i in places if said[i : i + len(wanted)] == wanted), None)
            if found is None:
                missing.append("\n".join(run))
            else:
                at = found + len(wanted)
    return missing


def blocks(page: Path) -> list[list[str]]:
    """The indented blocks of a page that have a prompt, each as its lines."""
    found = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", page.read_text(), re.MULTILINE)
    made = [[line[4:] for line in text.strip("\n").split("\n")] for text in found]
    return [block for block in made if any(PROMPT.match(line) for line in block)]


def _runs(block: list[str]) -> Iterator[list[str]]:
    run: list[str] = []
    for line in [*block, SKIPPED]:
        if line.strip() != SKIPPED:
            run.append(line)
            continue
        if any(run):
            yield run
        run = []


def masked(lines: list[str]) -> list[str]:
    """Without blank lines: the demo's asides stand between them."""
    made = []
    for line in filter(None, (line.rstrip() for line in lines)):
        text = line
        for pattern, word in _MASKS:
            text = re.sub(pattern, word, text)
        made.append(text)
    return made
