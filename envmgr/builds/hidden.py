"""What an install puts on PATH, held against the commands that no package may hide without a word of the recipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from envmgr.catalog.accept import HIDDEN, named_in
from envmgr.catalog.lock_rules import COMMANDS
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp
from envmgr.publish.compose import recipe_changes
from envmgr.wording import shortened


def hidden_by(environment: Iterable[EnvOp]) -> dict[str, str]:
    """Command -> the program of its name, in a folder that these put on PATH; sorted."""
    return dict(sorted(_programs(environment)))


def _programs(environment: Iterable[EnvOp]) -> Iterator[tuple[str, str]]:
    for op in environment:
        for folder in op.value.split(op.separator) if op.name == "PATH" and op.kind != "unset" else ():
            with suppress(OSError):  # no folder: nothing lies there
                yield from ((path.name, str(path)) for path in Path(folder).iterdir() if path.name in COMMANDS)


def require_none_hidden(entry: Entry, environment: Iterable[EnvOp], recipe: Recipe, root: Path) -> None:
    """By what its install at `root` brings and by what the recipe itself puts on PATH.

    EnvmgrError `commands-hidden`, but for those that the recipe accepts: those that its reason begins with, up to a colon.
    """
    accepted = named_in(recipe.accept.get(HIDDEN, ""))
    found = hidden_by((*environment, *recipe_changes(recipe, entry, str(root))))
    if wrong := {name: program for name, program in found.items() if name not in accepted}:
        line = f'accept: {{{HIDDEN}: "{", ".join(found)}: why"}}'
        raise EnvmgrError(
            "commands-hidden",
            f"{entry} hides commands of the system or of shells: {', '.join([*wrong][:10])}",
            context=shortened([*wrong.values()]),
            hint=f"leave out the package that brings them; or, where users shall have them, say so in recipe.yaml: `{line}`",
        )
