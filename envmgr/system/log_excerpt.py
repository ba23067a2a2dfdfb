"""The few lines of a long output that say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import dedent

_MOST = 12  # lines
_WIDTH = 200  # characters
_BEFORE = 2  # lines before the first that says what is wrong

# A compiler, or the linker, about one place: gcc, clang, nvcc, gfortran, rustc, ld.
_COMPILER = re.compile(
    r"^\s*(?:\S[^\s:()]*(?::\d+(?::\d+)?|\(\d+\)): (?:\w+ )?error\b|error\[E\d+\]: |(?:Fatal )?Error: .*\bat \(1\)|"
    r".*\bundefined reference to |.*: cannot find -l|.*: multiple definition of |.*: fatal error: )"
)
_PLACE = re.compile(
    r"^\s*(?:In file included from |\s+from |\S+: In |\S+: At |\S+:\d+:\d+:$|\S*\bld: \S+: in function )"
)
_OTHER_WORK = re.compile(
    r"^\s*(?:\S+:\d+:\d+: (?:warning|note)\b.*\[-W|\S*(?:gcc|g\+\+|cc|c\+\+|clang\S*|mpicc|gfortran|nvcc) .*-[co] )"
)
# A configuration's own verdict, which is about what it tried before.
_VERDICT = re.compile(r"^\s*(?:\S*configure: error: |CMake Error|meson\.build:\d+:\d+: ERROR: )")
_WRONG = re.compile(
    r"(\berror\b|undefined reference|cannot |No such file|not "
    r"found|fatal|Traceback|\bFAIL(ED|URE)?\b|Permission denied|Killed|"
    r"No space left|Segmentation|\*\*\*|\bE: |\bunexpected\b)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(-Werror|no error|errors?=|\berror\.[cho]\b|checking |\b0 (errors?|fail\w*)\b|# (FAIL|ERROR): "
    r"+0$|strerror|perror|"
    r"\.\.\. (yes|no|ok)$|ignored\)$)",
    re.IGNORECASE,
)
# EasyBuild's and make's talk, and the frame that pip puts around what a build said.
_NOISE = re.compile(
    r"^(?:==|\s*$|make(?:\[\d+\])?: (?:Entering|Leaving) directory|\s*(?:\u00d7 |│ exit code|╰─> |\[end of output\]|"
    r"note: This error originates from a subprocess|error: subprocess-exited-with-error))"
)
_MAKE_GAVE_UP = re.compile(r"^(?:\S*make(?:\[\d+\])?: \*\*\* \[|ninja: build stopped)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def meaningful(output: str) -> list[str]:
    """Return at most a dozen lines of a failed command's output: the cause, if it can be distinguished from its
    consequences.

    That is a configuration's verdict; else the first complaint of a compiler, with all that it says of that place; else
    the first of the last complaints. An output without any gives its last lines.
    """
    lines = _once(line.rstrip() for line in without_colour(output).splitlines() if not _NOISE.match(line))
    if verdicts := [n for n, line in enumerate(lines) if _VERDICT.match(line)]:
        cmake = "CMake" in lines[verdicts[0]]
        chosen = lines[verdicts[0] if cmake else max(0, verdicts[-1] - _BEFORE) :]
    elif complaints := [n for n, line in enumerate(lines) if _COMPILER.match(line) and not _HARMLESS.search(line)]:
        chosen = _compiler_says(lines, complaints[0])
    elif wrong := [n for n, line in enumerate(lines) if _WRONG.search(line) and not _HARMLESS.search(line)]:
        # What make says at the end is a consequence: the first complaint of the last burst is the cause.
        first = next(n for n in wrong if n >= wrong[-1] - _MOST)
        chosen = lines[max(0, first - _BEFORE) :]
    else:
        chosen = lines[-_MOST:]
    return [line[:_WIDTH] for line in dedent("\n".join(chosen[:_MOST])).splitlines()]


def without_colour(text: str) -> str:
    return _COLOUR.sub("", text)


def _compiler_says(lines: Sequence[str], first: int) -> list[str]:
    """Return the lines from where the compiler names the place, up to the next thing that is no part of it: other jobs
    of make write in between.
    """
    start = first
    for number in range(first - 1, max(-1, first - 7), -1):
        if _PLACE.match(lines[number]):
            start = number
        elif start == first and re.match(r"^\s*(\d+ )?\s*\|", lines[number]):
            continue  # gfortran shows the line before it complains
        else:
            break
    chosen = [*lines[start : first + 1]]
    for line in lines[first + 1 :]:
        if _OTHER_WORK.match(line) or len(chosen) == _MOST - 1:
            break
        chosen.append(line)
    verdict = next((line for line in reversed(lines) if _MAKE_GAVE_UP.match(line)), None)
    return chosen if verdict is None or verdict in chosen else [*chosen, verdict]


def _once(lines: Iterable[str]) -> list[str]:
    """Return the lines without those that repeat the one before."""
    found: list[str] = []
    for line in lines:
        if not found or found[-1] != line:
            found.append(line)
    return found
