"""The words of the command line, for a shell that completes them: verbs, options, and what these take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer


class Word(NamedTuple):
    """A row of the table that `completion.words.sh` reads.

    `kind` is `files`, `entries`, `environments` or `nodes`, `=` with the values that there are, or `any`; it is empty for
    what takes no value.
    """

    verb: str
    option: str
    kind: str
    does: str


def verb_words(command: Any, verb: str = "") -> Iterator[Word]:
    """Yield the words of a typer program: its verbs and groups of verbs, their options and their arguments."""
    yield Word(verb, "", "", (command.help or "").partition("\n")[0])
    arguments = 0
    ctx = typer.Context(command, **command.context_settings)
    for parameter in command.get_params(ctx):
        kind = "" if getattr(parameter, "is_flag", False) else _kind(verb, parameter, ctx)
        if options := [each for each in (*parameter.opts, *parameter.secondary_opts) if each.startswith("-")]:
            yield from (Word(verb, option, kind, parameter.help) for option in options)
        else:
            arguments += 1
            yield Word(verb, "*" if parameter.nargs < 0 else str(arguments), kind, "")
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        if not inner.hidden:  # what envmgr runs on nodes
            yield from verb_words(inner, f"{verb} {name}".strip())


# What a parameter takes, by the word for its value in the help.
_KINDS = {"ENTRY": "entries", "SET": "nodes", "NODE": "nodes", "FILE": "files", "DIR": "files", "FOLDER": "files"}
_KINDS |= {"PATH": "files", "-- COMMAND": "files"}
_DOES = {"import": "read", "export": "write"}  # as a format's file has it


def _kind(verb: str, parameter: Any, ctx: typer.Context) -> str:
    """Return the kind of a parameter's values, as `Word` has it."""
    if choices := re.search(r"[\w-]+(?:\|[\w-]+)+", (parameter.get_help_record(ctx) or [""])[0]):
        return "=" + choices[0].replace("|", " ")
    if parameter.name in {"check", "explain"}:
        checks = Path(__file__).parents[1] / "audit/checks"  # to import that takes longer than all else
        return "=" + " ".join(sorted(each.stem for each in checks.glob("[!_]*.py"))).replace("_", "-")
    if verb in _DOES and parameter.opts[0] in {"--from", "--to"}:
        tools = Path(__file__).parents[1]
        stems = [
            f.stem for f in tools.glob("exchange/formats/[!_]*.py") if f"def {_DOES[verb]}(" in f.read_text("utf-8")
        ]
        stems += [f.stem for f in tools.glob("steps/export/[!_]*.py") if verb == "export"]
        return "=" + " ".join(sorted(stems)).replace("_", "-")
    if parameter.name == "env" or (verb.startswith("user ") and parameter.name == "name" and verb != "user create"):
        return "environments"
    return _KINDS.get((parameter.metavar or "").strip("[]"), "any")
