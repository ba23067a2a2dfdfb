"""The verbs of the command line, as typer knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from envmgr.cli.app import app


def walk(command: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if subcommands := getattr(command, "commands", None):
        for name, sub in subcommands.items():
            if not sub.hidden and name != "help":  # `_build-item` is what envmgr runs on nodes
                yield from walk(sub, (*way, name))
    else:
        yield " ".join(way), command


VERBS: dict[str, Any] = dict(walk(typer.main.get_command(app)))
"""Verb, with its subcommand (`check`), to typer's command of it."""
