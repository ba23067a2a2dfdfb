"""The command line: the table of verbs with their help, and the entry point. It imports nothing heavy: verbs import
what they need.
"""

from __future__ import annotations

import copy
import gc
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from envmgr import __version__
from envmgr.cli import apply, build, catalog, completion, images, nodes, parts, people, publish, users
from envmgr.cli.options import SiteOption
from envmgr.cli.run import refuse_other_values

# Objects between two runs of Python's collector. A start makes some 50,000 that stay; collecting takes a twelfth of it.
_COLLECTED = 100_000
_NAME_WIDTH = 14  # of a verb in the list, `catalog check` included


class _Listed(NamedTuple):
    """A verb in the list of `envmgr --help`."""

    group: str
    function: Callable[..., None]
    example: str

    @property
    def text(self) -> str:
        """The first sentence of its help."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


_BEFORE = {"site": "--site", "fmt": "--format"}
"""Options that may stand before the verb, by their names in the functions."""
_WITHOUT_SITE = ("schema",)
"""Verbs that look at no site, and are typed by aliases with one."""
_LISTED: dict[str, _Listed] = {}
"""The verbs in the order of the help; a verb of two words with both (`site check`)."""


class _Program(TyperGroup):
    """`envmgr`: its help has the verbs in groups, each with an example; a verb also gets the options before it."""

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
        for group in dict.fromkeys(listed.group for listed in _LISTED.values()):
            rows = [(name, listed) for name, listed in _LISTED.items() if listed.group == group]
            with formatter.section(group):
                for name, listed in rows:
                    formatter.write_dl([(name.ljust(_NAME_WIDTH), listed.text), (" " * _NAME_WIDTH, listed.example)])


def _typer(text: str, cls: type[TyperGroup] | None = None, epilog: str | None = None) -> typer.Typer:
    return typer.Typer(
        help=text,
        epilog=epilog,
        cls=cls,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # rich help would import rich for every --help
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


_PACKAGE = Path(__file__).resolve().parents[1]
# As `shipped("docs")`, whose module is too much for a help.
_PAGES = next((each for each in [_PACKAGE / "data/docs"] if each.is_dir()), _PACKAGE.parent / "docs")


def _epilog(example: str, page: str) -> str:
    # After \b the text is not wrapped: a path would be broken at its hyphens.
    return f"Example: {example}\n\n\b\nRead more in {_PAGES / page}."


app = _typer("Reproducible software environments for clusters: lock, build, publish as Lmod modules.", _Program)
site_app = _typer("Check the site.", epilog=_epilog("envmgr site check", "site.md"))
catalog_app = _typer("Check the catalog.", epilog=_epilog("envmgr catalog check", "recipe.md"))
user_app = _typer("Packages of your own on a published entry.", epilog=_epilog("envmgr user list", "users.md"))
app.add_typer(site_app, name="site")
app.add_typer(user_app, name="user")
app.add_typer(catalog_app, name="catalog")


def add_verb(name: str, group: str, example: str, page: str) -> Callable[[Callable[..., None]], None]:
    """Add a verb under `name`. Its help ends with `example`, one command that works, and `page`, a file of docs/.

    Pages are installed with the program.
    """
    into = {"site": site_app, "catalog": catalog_app, "user": user_app}.get(name.partition(" ")[0], app)

    def add(function: Callable[..., None]) -> None:
        _LISTED[name] = _Listed(group, function, example)
        into.command(name.rpartition(" ")[2], epilog=_epilog(example, page))(function)

    return add


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
    """Reproducible software environments for clusters: lock, build, publish as Lmod modules."""


add_verb("init", "Start", "envmgr init site --prefix /shared/envmgr", "quickstart.md")(catalog.init)
add_verb("adopt", "Start", "envmgr adopt --nodes 'c[1-3]' --output site.yaml", "any-cluster.md")(nodes.adopt)
add_verb("site check", "Start", "envmgr site check --site site.yaml", "site.md")(catalog.site_check)
add_verb("node-setup", "Start", "envmgr node-setup --nodes 'c[1-3]' --apply", "node-setup.md")(nodes.node_setup)
add_verb("shell-init", "Start", "envmgr shell-init zsh", "node-setup.md")(users.shell_init)

add_verb("completion", "Start", "envmgr completion bash", "node-setup.md")(completion.completion_for(app))

add_verb("list", "Build", "envmgr list --format json", "recipe.md")(catalog.list_)
add_verb("show", "Build", "envmgr show pytorch/2.7-cuda12.9", "gpu.md")(catalog.show)
add_verb("new", "Build", "envmgr new pydata/1.0 numpy pandas", "recipe.md")(catalog.new)
add_verb("copy", "Build", "envmgr copy python/3.11", "verbs.md")(catalog.copy)
add_verb("catalog check", "Build", "envmgr catalog check python/3.11", "recipe.md")(catalog.catalog_check)
add_verb("import", "Build", "envmgr import conda-lock.yml --as plots/1.0", "exchange.md")(catalog.import_)
add_verb("lock", "Build", "envmgr lock pydata/1.0 --dry-run", "recipe.md")(build.lock)
add_verb("fetch", "Build", "envmgr fetch python/3.11", "sources.md")(build.fetch_verb)
add_verb("build", "Build", "envmgr build python/3.11 --jobs 4", "tour.md")(build.build)
add_verb("image", "Build", "envmgr image pydata/1.0", "images.md")(images.image)
app.command("_build-item", hidden=True)(build.build_job)

add_verb("publish", "Publish", "envmgr publish pydata/1.0", "verbs.md")(publish.publish_verb)
add_verb("promote", "Publish", "envmgr promote 43", "candidates.md")(publish.promote_verb)
add_verb("apply", "Publish", "envmgr apply --to current", "apply.md")(apply.apply_verb)
add_verb("report", "Publish", "envmgr report --pull-request", "apply.md")(apply.report)
add_verb("remove", "Publish", "envmgr remove pydata/1.0", "verbs.md")(publish.remove)
add_verb("rollback", "Publish", "envmgr rollback 12", "prefix.md")(publish.rollback_verb)
add_verb("history", "Publish", "envmgr history", "verbs.md")(publish.history)
add_verb("diff", "Publish", "envmgr diff slurm-7.out", "jobs.md")(publish.diff)
add_verb("page", "Publish", "envmgr page --output /var/www/software", "page.md")(publish.page)
add_verb("job", "Publish", "envmgr job pydata/1.0 -N 2 -- python solve.py", "jobs.md")(users.job)
add_verb("export", "Publish", "envmgr export pydata/1.0 --to pixi", "exchange.md")(users.export)
add_verb("schema", "Publish", "envmgr schema audit", "json.md")(users.schema)

add_verb("stage", "Publish", "envmgr stage pydata/1.0 --nodes 'c[1-3]'", "images.md")(images.stage)
add_verb("staged", "Publish", "envmgr staged", "images.md")(images.staged)
add_verb("unstage", "Publish", "envmgr unstage pydata/1.0", "images.md")(images.unstage)

add_verb("doctor", "Use", "envmgr doctor", "users.md")(people.doctor)
add_verb("user create", "Use", "envmgr user create mine --on pydata/1.0 seaborn", "users.md")(people.create)
add_verb("user list", "Use", "envmgr user list", "users.md")(people.list_)
add_verb("user show", "Use", "envmgr user show mine", "users.md")(people.show)
add_verb("user add", "Use", "envmgr user add mine einops", "users.md")(people.add)
add_verb("user remove", "Use", "envmgr user remove mine einops", "users.md")(people.remove)
add_verb("user update", "Use", "envmgr user update mine --rebase", "users.md")(people.update)
add_verb("user kernel", "Use", "envmgr user kernel mine", "users.md")(people.kernel)
add_verb("user export", "Use", "envmgr user export mine --output wheels.lock", "users.md")(people.export)
add_verb("user delete", "Use", "envmgr user delete mine", "users.md")(people.delete)

add_verb("test", "Check", "envmgr test pydata/1.0 --nodes 'c[1-3]'", "recipe.md")(nodes.test)
add_verb("verify", "Check", "envmgr verify --all", "prefix.md")(nodes.verify)
add_verb("audit", "Check", "envmgr audit --nodes 'c[1-3]'", "audit.md")(nodes.audit)

add_verb("find", "Check", "envmgr find 'openssl<3.0.15'", "find.md")(parts.find)
add_verb("sbom", "Check", "envmgr sbom pydata/1.0 --format cyclonedx -o pydata.cdx.json", "find.md")(parts.sbom)

add_verb("gc", "Maintain", "envmgr gc --dry-run", "prefix.md")(publish.gc)
add_verb("usage", "Maintain", "envmgr usage /var/log/envmgr.log", "usage.md")(publish.usage)
add_verb("sign", "Maintain", "envmgr sign --dry-run", "signing.md")(publish.sign_verb)


def narrowed(whole: typer.Typer, argv: Sequence[str]) -> typer.Typer:
    """Return a copy of `whole` that answers `argv`, the words after the program's name, as `whole` would.

    typer reads the parameters of every verb at each start; the copy has only the verb that runs. Where the first word
    is no verb (an option, or a name that typer compares with all there are), `whole` itself is returned.
    """
    words = iter(argv)
    word = next(words, "--help")
    while word in _BEFORE.values() or word.startswith(("--site=", "--format=")):
        word = next(words if "=" in word else islice(words, 1, None), "")
    found = copy.copy(whole)
    if word in ("-h", "--help"):
        found.registered_commands, found.registered_groups = [], []  # the list of verbs has no parameters
        return found
    found.registered_commands = [info for info in whole.registered_commands if info.name == word]
    found.registered_groups = [info for info in whole.registered_groups if info.name == word]
    return found if found.registered_commands or found.registered_groups else whole


def main() -> None:
    """Run the verb that the command line names, and exit with its code."""
    gc.set_threshold(_COLLECTED)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins costs 10 ms at every start
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    narrowed(app, sys.argv[1:])()
