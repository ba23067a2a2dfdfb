"""Shell and Lua text: read from files beside the module that uses it, and the one place where a value becomes a word of
it.

A text is a file that an editor and a linter can read: `clock.prefix.sh` is the part `prefix` of `clock.py`. No value is
put into its middle. What a text needs is set in front of it (`assign`), or follows as the arguments of a function that
it defines (`words`); it names what it is given in a line such as `: "${prefix?}"`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path


def script_text(module: str, part: str) -> str:
    """Return the file `part` of a module, whose `__file__` is given, without the comments at its head: they are for its
    readers.

    `script_text(__file__, "prefix.sh")` in `clock.py` is `clock.prefix.sh`.
    """
    with Path(module).with_suffix(f".{part}").open(encoding="utf-8") as file:
        return "".join(dropwhile(_is_comment, file))


def _is_comment(line: str) -> bool:
    # `--` begins a comment in Lua.
    return not line.strip() or line.startswith(("#", "--"))


UNTRACED_END = "command exec /bin/sh -c :\n"
"""The end of a user's shell that must leave no trace: no trap and no logout file runs, and no history is written."""


def untraced() -> str:
    """Return lines of sh to put behind a user's start-up files, so that the shell leaves no trace in a home. Pair it
    with `UNTRACED_END`.
    """
    return script_text(__file__, "untraced.sh")


def assign(**values: str | int | Sequence[str]) -> str:
    """Return lines of sh that set variables; a sequence becomes an array, which only bash has."""
    return "".join(
        f"{name}={quote(str(value)) if isinstance(value, (str, int)) else f'({words(*value)})'}\n"
        for name, value in values.items()
    )


def appended(text: str, file: str) -> str:
    """Return the command that adds a line to a file, also to one whose last line has no end."""
    return f"printf '\\n%s\\n' {quote(text)} >>{quote(file)}"


def words(*texts: str) -> str:
    """Return each text as one word, for the arguments of a command."""
    return " ".join(map(quote, texts))


def quote(text: str) -> str:
    """Return `text` as one word of a POSIX shell, without NUL bytes, which no shell can hold."""
    return shlex.quote(text.replace("\0", ""))
