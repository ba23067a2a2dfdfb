"""`envmgr completion`, which needs the verbs and options as typer knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envmgr.cli import VerbAnswer, answer_with
from envmgr.cli.options import Format, FormatOption, SiteOption
from envmgr.cli.run import open_context, verb

if TYPE_CHECKING:
    from envmgr.commands.completion import VerbWords


def completion_for(app: typer.Typer) -> Callable[..., None]:
    """Return the verb that completes the commands of `app`."""

    @verb
    def completion(
        shell: Annotated[str, typer.Argument(help="Name of the shell: bash, zsh or fish.")] = "bash",
        site: SiteOption = None,
        fmt: FormatOption = Format.table,
    ) -> VerbAnswer:
        """Print the lines that let a shell complete commands.

        Put this into a start-up file of the shell: eval "$(envmgr completion bash)".
        """
        from envmgr.cli.text.people import show_completion
        from envmgr.commands.completion import completion_lines

        ctx = open_context(site, fmt, told=False, anywhere=True, away=True)
        verbs = [*verb_words(typer.main.get_command(app))]
        return answer_with(completion_lines(ctx, shell, verbs), show_completion)

    return completion


def verb_words(group: Any, before: tuple[str, ...] = ()) -> Iterator[VerbWords]:
    """Yield the verbs of a typer program, sorted."""
    from envmgr.commands.completion import VerbWords

    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from verb_words(command, (*before, name))
        elif not command.hidden:  # what envmgr runs on nodes
            long = [each for parameter in command.params for each in parameter.opts if each.startswith("--")]
            entries = any(parameter.name in ("entry", "entries") for parameter in command.params)
            does = (command.help or "").partition("\n")[0]
            yield VerbWords((*before, name), does, (*long, *(["--help"] if "--help" not in long else [])), entries)
