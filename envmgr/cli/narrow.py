"""typer reads the parameters of every verb at each start. This leaves it those of the verb that runs."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from typer.main import get_command_name

if TYPE_CHECKING:
    import typer
    from typer.models import CommandInfo


def narrowed(app: typer.Typer, argv: Sequence[str]) -> typer.Typer:
    """A copy of `app` that answers `argv`, what follows the program's name, as `app` would, and reads no more than that needs.

    Where the first word is no verb, it is `app` itself: an option, or a name that typer compares with all there are.
    """
    word = argv[0] if argv else "--help"
    found = copy.copy(app)
    if word in ("-h", "--help"):
        found.registered_commands = [_listed(info) for info in app.registered_commands]
        return found
    found.registered_commands = [info for info in app.registered_commands if _name(info) == word]
    found.registered_groups = [info for info in app.registered_groups if info.name == word]
    return found if found.registered_commands or found.registered_groups else app


def _name(info: CommandInfo) -> str:
    assert info.callback is not None
    return info.name or get_command_name(info.callback.__name__)


def _listed(info: CommandInfo) -> CommandInfo:
    """What the list of verbs shows of one: its name and its text, no parameters."""
    listed = copy.copy(info)
    listed.name, listed.help = _name(info), info.help or inspect.getdoc(info.callback)
    listed.callback = _unread
    return listed


def _unread() -> None:
    raise AssertionError("a verb that is only listed is not run")
