"""`envmgr completion`: the words that a shell offers after Tab, as one text that starts no Python.

The verbs and options are those of this envmgr, the nodes those of site.yaml. Entries and a user's environments are read
when Tab is pressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from envmgr.errors import EnvmgrError, InputError
from envmgr.report import Lines, Result, Verbatim
from envmgr.steps import Context
from envmgr.steps.verb_words import Word, verb_words
from envmgr.system.shelltext import assign, quote, script_text
from envmgr.verbs import argument, needs

if TYPE_CHECKING:
    from envmgr.catalog.site import Site

# Shell -> the part with its lines.
_SHELLS = {"bash": "bash.sh", "zsh": "zsh", "fish": "fish"}
_MOST_NODES = 1000  # in a text that each shell reads


@dataclass(frozen=True, slots=True)
class CompletionResult(Result):
    """The text for a shell."""

    schema: ClassVar[str] = "envmgr.completion/1"
    shell: str
    text: str

    def lines(self) -> Lines:
        yield Verbatim(self.text)


@needs("nothing")
def completion(
    ctx: Context, typed: typer.Context, shell: Annotated[str, argument("Name of the shell.", "bash|zsh|fish")] = "bash"
) -> CompletionResult:
    """Print the lines that let a shell complete commands.

    Put this into a start-up file of the shell: eval "$(envmgr completion bash)".
    """
    return completion_lines(ctx, shell, verb_words(typed.find_root().command))


def completion_lines(ctx: Context, shell: str, words: Iterable[Word]) -> CompletionResult:
    """Return the lines for `shell`. Raise InputError `unknown-shell`."""
    if shell not in _SHELLS:
        raise InputError("unknown-shell", f"no lines for the shell `{shell}`", hint=f"known: {', '.join(_SHELLS)}")
    given = assign(
        table="\n".join("|".join(each.replace("|", " ") for each in word) for word in words),
        nodes=" ".join(islice(_nodes(ctx.site), _MOST_NODES)),
        modules=str(ctx.prefix.current / "modules"),
    )
    text = given + script_text(__file__, "words.sh")
    if shell == "fish":  # it reads a backslash within single quotes, too
        head = f"set -g __envmgr_words {quote(text.replace(chr(92), chr(92) * 2))}\n"
        return CompletionResult(shell, head + script_text(__file__, "fish"))
    return CompletionResult(shell, assign(_envmgr_words=text) + script_text(__file__, _SHELLS[shell]))


def _nodes(site: Site) -> Iterator[str]:
    """Yield the groups of site.yaml and the nodes that it names; no source of other groups is asked."""
    from envmgr.nodes.sets import read_folded

    yield from (f"@{name}" for name in site.groups)
    for nodes in dict.fromkeys([*(group.nodes for group in site.groups.values()), site.login_nodes]):
        with suppress(EnvmgrError):
            yield from read_folded(nodes or "")
