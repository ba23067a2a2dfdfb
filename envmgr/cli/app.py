"""The command line: the table of verbs with their help, and the entry point.

A verb's module is imported when the verb is typed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from envmgr import __version__
from envmgr.cli.command import HELP_OPTIONS, as_command
from envmgr.cli.run import refuse_other_values
from envmgr.verbs import SiteOption

# Objects between two runs of Python's collector. A start makes some 50,000 that stay; collecting takes a twelfth of it.
_COLLECTED = 100_000
_BEFORE = {"site": "--site", "fmt": "--format"}
"""Options that may stand before the verb, by their names in the functions."""
_WITHOUT_SITE = ("schema", "help")
"""Verbs that look at no site, and are typed by aliases with one."""
_PACKAGE = Path(__file__).resolve().parents[1]
# As `shipped("docs")`, whose module is too much for a help.
_PAGES = next((each for each in [_PACKAGE / "data/docs"] if each.is_dir()), _PACKAGE.parent / "docs")
_HELP = "Reproducible software environments for clusters: lock, build, publish as Lmod modules."
_MORE = "`envmgr help --all` lists all verbs, and `envmgr VERB --help` explains one."
_EXAMPLE_WIDTH = 36  # in the list of verbs


class VerbRow(NamedTuple):
    """A verb, as the table below has it. `weekly`: the first help lists it."""

    group: str
    weekly: bool
    function: str
    about: str
    example: str
    page: str


_TABLE = """
Start
  init *      | init:init         | Make a site and an empty catalog.                  | init site --prefix /shared/envmgr | quickstart
  adopt *     | adopt:adopt       | Propose a site.yaml for a cluster.                 | adopt --nodes 'c[1-3]' | any-cluster
  check *     | check:check       | Check the site, recipes and locks.                 | check python/3.11 | recipe
  node-setup *| node_setup:node_setup | Let every shell and job find the modules.      | node-setup --nodes 'c[1-3]' | node-setup
  shell-init  | shell_init:shell_init | Print the lines that make a shell use the prefix.  | shell-init zsh | node-setup
  completion  | completion:completion | Print the lines that let a shell complete commands. | completion bash | node-setup
Build
  list *      | list:list_          | Show all entries with their states, or one.        | list pytorch/2.7-cuda12.9 | gpu
  new *       | new:new             | Write a recipe for these packages.                 | new pydata/1.0 numpy pandas | recipe
  copy        | copy:copy           | Copy a shipped recipe into your own catalog.       | copy python/3.11 | verbs
  import      | import_:import_     | Make a recipe of another tool's file.              | import conda-lock.yml --as plots/1.0 | exchange
  lock *      | lock:lock           | Resolve recipes exactly, and write their locks.    | lock pydata/1.0 | recipe
  fetch *     | fetch:fetch         | Download what locks name into the cache.           | fetch python/3.11 | sources
  build *     | build:build         | Build what locks name, and publish modules.        | build python/3.11 --jobs 4 | tour
Publish
  publish *   | publish:publish     | Publish what is built, or take entries out.        | publish pydata/1.0 | verbs
  promote     | promote:promote     | Make a candidate current, without a new build.     | promote 43 | candidates
  apply       | apply:apply         | Bring modules to what the catalogs in git say.     | apply --to current | apply
  report      | report:report       | Show what a change of the catalog would do.        | report --pull-request | apply
  rollback *  | rollback:rollback   | Make an earlier generation current.                | rollback 12 | prefix
  history *   | history:history     | List generations: time, user, changes.             | history | verbs
  diff        | diff:diff           | Show what differs between two generations, or since a job ran. | diff slurm-7.out | jobs
  page        | page:page           | Show or copy the page of the published software.   | page --output /var/www/software | page
  export      | export:export       | Write entries, or an entry's lock, as another tool's file. | export pydata/1.0 --to pixi | exchange
  stage *     | stage:stage         | Mount images of entries on nodes.                  | stage pydata/1.0 --nodes 'c[1-3]' | images
Use
  job *       | job:job             | Print a script for sbatch that runs an entry.      | job pydata/1.0 -N 2 -- python a.py | jobs
  doctor *    | doctor:doctor       | Find what is wrong with your own shells and files. | doctor | users
  user create * | user.create:create | Make an environment on a published entry.         | user create my --on pydata/1.0 rich | users
  user list   | user.list:list_     | List your environments, with their state.          | user list | users
  user show   | user.list:show      | Show the packages of an environment.               | user show my | users
  user add    | user.change:add        | Add packages to an environment.                    | user add my einops | users
  user remove | user.change:remove  | Take packages out of an environment.               | user remove my einops | users
  user update | user.change:update  | Choose the packages of an environment again.       | user update my --rebase | users
  user kernel | user.kernel:kernel  | Let Jupyter offer an environment as a kernel.      | user kernel my | users
  user export | user.export:export  | Write the lock of an environment, for a colleague. | user export my --output wheels.lock | users
  user delete | user.delete:delete  | Delete an environment and its module.              | user delete my | users
Check
  test *      | test:run_tests           | Run the tests of published entries, here or on nodes. | test pydata/1.0 --nodes 'c[1-3]' | recipe
  verify *    | verify:verify       | Compare what is published with what was recorded.  | verify --all | prefix
  audit *     | audit:audit         | Prove that every node resolves the same modules.   | audit --nodes 'c[1-3]' | audit
  find        | find:find           | Find the entries that have a package.              | find 'openssl<3.0.15' | find
  sbom        | sbom:sbom           | Show what an entry is made of, or write it as an SBOM. | sbom pydata/1.0 --format cyclonedx -o pydata.cdx.json | find
  schema      | schema:schema       | Print the JSON schema of what a verb prints.       | schema audit | json
Maintain
  gc *        | gc:gc               | Remove old generations and unused installs.        | gc --dry-run | prefix
  usage       | usage:usage         | Count how often entries were loaded, in the text of logs. | usage /var/log/envmgr.log | usage
  sign        | sign:sign           | Sign the current generation again.                 | sign --dry-run | signing
"""
"""The verbs in the order of the help: what is typed, with * if the first help lists it, its function below `envmgr.verbs`, the
first sentence of its help, an example, and the page of docs/ to read.
"""


def _read(table: str) -> Iterator[tuple[str, VerbRow]]:
    group = ""
    for line in table.strip().splitlines():
        name, *rest = (cell.strip() for cell in line.split("|"))
        if rest:
            yield name.rstrip(" *"), VerbRow(group, name.endswith("*"), *rest)
        else:
            group = name


VERBS = dict(_read(_TABLE))
_HIDDEN = {"_build-item": "envmgr.cli.build_item:build_item", "help": "envmgr.cli.help:list_verbs"}
_GROUPS = {"user": VerbRow("Use", False, "", "Packages of your own on a published entry.", "user list", "users")}


class _Commands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands of a group of verbs, `""` for the program; each is made when it is asked for."""

    def __init__(self, group: str) -> None:
        self._start = f"{group} " if group else ""
        own = [name.removeprefix(self._start).partition(" ")[0] for name in VERBS if name.startswith(self._start)]
        self._names = [*dict.fromkeys(own), *(() if group else _HIDDEN)]
        self._made: dict[str, TyperCommand | TyperGroup] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._make(self._start + name)
        return self._made[name]

    def _make(self, name: str) -> TyperCommand | TyperGroup:
        if name in _GROUPS:
            return _group(name, _GROUPS[name])
        row = VERBS.get(name)
        module, _, function = (f"envmgr.verbs.{row.function}" if row else _HIDDEN[name]).partition(":")
        verb = getattr(importlib.import_module(module), function)
        epilog = _epilog(row) if row else None
        return as_command(name.rpartition(" ")[2], verb, epilog=epilog, hidden=name.startswith("_"))


class _Verbs(TyperGroup):
    """Verbs of two words: the help lists them without an import of any."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's signature
        start = f"{self.name} "
        with formatter.section("Commands"):
            formatter.write_dl([(v.removeprefix(start), row.about) for v, row in VERBS.items() if v.startswith(start)])


class _Program(TyperGroup):
    """`envmgr`: its help has the verbs in groups, each with an example; a verb also gets the options before it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Commands("")

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        found, words = command, 0
        if commands := getattr(command, "commands", None):  # a verb of two words
            found, words = commands.get(next(iter(rest), "")), 1
        given = {option: str(ctx.params[key]) for key, option in _BEFORE.items() if ctx.params[key] is not None}
        if found is None or not given:
            return name, command, rest
        takes = {parameter.name for parameter in found.params}
        for key, option in _BEFORE.items():
            if option in given and key not in takes:
                if name not in _WITHOUT_SITE:
                    raise typer.BadParameter(f"{option} before `{name}`: this verb has no such option; leave it out")
                del given[option]
        inner = typer.Context(found, parent=ctx, info_name=" ".join([str(name), *rest[:words]]))
        after = found.make_parser(inner).parse_args(args=rest[words:])[0]
        refuse_other_values({_BEFORE[key]: str(value) for key, value in after.items() if key in _BEFORE}, given)
        return name, command, [*rest[:words], *(word for option in given.items() for word in option), *rest[words:]]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's signature
        for group, rows in grouped(everything=False).items():
            with formatter.section(group):
                for example, about in rows:  # in one line each, also where a terminal has only 80 columns
                    formatter.write(f"  {example:{_EXAMPLE_WIDTH}}  {about}\n")


def grouped(*, everything: bool) -> dict[str, list[tuple[str, str]]]:
    """Map each group of the help to examples, without the program's name, and what the verbs do."""
    found: dict[str, list[tuple[str, str]]] = {}
    for row in VERBS.values():
        if row.weekly or everything:
            found.setdefault(row.group, []).append((row.example, row.about))
    return found


def _epilog(row: VerbRow) -> str:
    # After \b the text is not wrapped: a path would be broken at its hyphens.
    return f"Example: envmgr {row.example}\n\n\b\nRead more in {_PAGES / row.page}.md."


def _group(name: str, row: VerbRow) -> TyperGroup:
    found = _Verbs(
        name=name,
        help=row.about,
        epilog=_epilog(row),
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=HELP_OPTIONS,
    )
    found.commands = cast("Any", _Commands(name))
    return found


app = typer.Typer(
    help=_HELP,
    epilog=_MORE,
    cls=_Program,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich help would import rich for every --help
    pretty_exceptions_enable=False,
    context_settings=HELP_OPTIONS,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"envmgr {__version__}")
        raise typer.Exit


@app.callback()
def root(
    site: SiteOption = None,
    fmt: Annotated[
        str | None, typer.Option("--format", metavar="[table|json]", help="The same as --format after the verb.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the verb that the command line names, and exit with its code."""
    gc.set_threshold(_COLLECTED)
    atexit.register(gc.freeze)  # or Python looks through all objects once more at its end: a fifth of a start
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins costs 10 ms at every start
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    app()
