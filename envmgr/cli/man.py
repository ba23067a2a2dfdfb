"""`envmgr man`, which needs the verbs and options as typer knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from envmgr.cli import VerbAnswer, answer_with
from envmgr.cli.options import DryRun, Format, FormatOption
from envmgr.cli.run import verb


def man_for(app: typer.Typer) -> Callable[..., None]:
    """Return the verb that makes the manual pages of `app`."""

    @verb
    def man(
        words: Annotated[
            list[str] | None, typer.Argument(metavar="VERB", help="The verb, such as build or user create.")
        ] = None,
        output: Annotated[
            Path | None,
            typer.Option(
                "--output",
                "-o",
                metavar="DIR",
                help="Write all pages to man1 in this folder, such as /usr/local/share/man.",
            ),
        ] = None,
        dry_run: DryRun = False,
        fmt: FormatOption = Format.table,  # noqa: ARG001 - `verb` looks at it
    ) -> VerbAnswer:
        """Print the manual page of a verb, or write all pages.

        `man` finds them in folders that belong to PATH: in /usr/local/share/man, and in share/man beside a bin.
        """
        from envmgr.cli.text.nodes import show_man
        from envmgr.commands.man import ManPage, manual, page_text

        helps = ((each.verb.replace(" ", "-"), each) for each in verb_helps(typer.main.get_command(app)))
        pages = (ManPage(name, page_text(name, *each[1:])) for name, each in helps)
        return answer_with(manual(pages, words or (), output, dry_run=dry_run), show_man)

    return man


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
