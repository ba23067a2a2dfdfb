"""A verb's function as a command of typer: its signature is its command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

from envmgr.cli.run import finish, open_site
from envmgr.verbs import Format, FormatOption, SiteOption

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def as_command(name: str, verb: Callable[..., Any], *, epilog: str | None, hidden: bool) -> TyperCommand:
    """Return the command of a verb: its parameters after the context, then --site and --format.

    A verb that is not marked by `needs` gets no context, and has no --site. `fmt` is the format of the answer, and
    `report` the file for it; without a file, and with `dry_run`, it goes to stdout.
    """
    needs = vars(verb).get("needs")
    hints = get_type_hints(verb, include_extras=True)
    own = [p.replace(annotation=hints[p.name]) for p in inspect.signature(verb).parameters.values()]
    own = own[1:] if needs else own
    names = {each.name for each in own}
    for each in own:
        info = each.annotation.__metadata__[0] if get_origin(each.annotation) is Annotated else None
        if isinstance(info, OptionInfo) and not info.param_decls and get_args(each.annotation)[0] is bool:
            info.param_decls = (f"--{each.name.replace('_', '-')}",)  # else there would be a --no-… too
    if needs:
        own.append(_option("site", SiteOption, None))
    if "fmt" not in names:
        own.append(_option("fmt", FormatOption, Format.table))

    def run(**given: Any) -> None:
        site: Path | None = given.pop("site", None)
        fmt = str(given["fmt"] if "fmt" in names else given.pop("fmt"))
        dry_run = bool(given.get("dry_run"))

        from envmgr.cli.render import refuse_missing_folder

        def work() -> Any:
            for file, option in _FILES.items():
                refuse_missing_folder(given.get(file), option)  # before minutes of work, and not after them
            if not needs:
                return verb(**given)
            return verb(open_site(site, "mount" if needs == "write" and dry_run else needs, fmt), **given)

        finish(work, fmt, None if dry_run else given.get("report"))

    vars(run)["__signature__"] = inspect.Signature([p.replace(kind=p.KEYWORD_ONLY) for p in own])
    run.__annotations__ = {p.name: p.annotation for p in own}
    run.__doc__ = verb.__doc__
    app = typer.Typer(add_completion=False, rich_markup_mode=None)  # rich help would import rich for every --help
    app.command(name, epilog=epilog, hidden=hidden, context_settings=HELP_OPTIONS)(run)
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand)
    return command


_FILES = {"output": "--output", "report": "--output", "save_baseline": "--save-baseline"}
"""The parameters of verbs that name a file to write."""


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
