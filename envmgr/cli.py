"""The command line: parse, call one verb, render, exit code. Imports nothing heavy: a verb is imported when it runs."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from envmgr import __version__
from envmgr.errors import Bug, EnvmgrError, InputError, Interrupted

if TYPE_CHECKING:
    from envmgr.commands import Context
    from envmgr.site import Site

app = typer.Typer(
    name="envmgr",
    help="Reproducible software environments for clusters: lock, build, publish as Lmod modules.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich help would import rich for every --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
site_app = typer.Typer(help="The site: check and explain it.", no_args_is_help=True, rich_markup_mode=None)
catalog_app = typer.Typer(help="The catalog: check it.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(site_app, name="site")
app.add_typer(catalog_app, name="catalog")


class Format(StrEnum):
    table = "table"
    json = "json"


class OneWay(StrEnum):
    ssh = "ssh"
    slurm = "slurm"


SiteOption = Annotated[
    Path | None, typer.Option("--site", help="site.yaml to use, or the folder it lies in.", metavar="FILE")
]
FormatOption = Annotated[Format, typer.Option("--format", help="Text for people, or JSON with a versioned schema.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done; change nothing.")]
Entries = Annotated[list[str], typer.Argument(metavar="ENTRY", help="Entries, as name/version.")]
SomeEntries = Annotated[list[str] | None, typer.Argument(metavar="ENTRY", help="Entries, as name/version.")]
All = Annotated[bool, typer.Option("--all", help="Every entry of the catalog.")]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"envmgr {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Reproducible software environments for clusters: lock, build, publish as Lmod modules."""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where site.yaml and the catalog go.")] = Path(),
    prefix: Annotated[
        Path | None, typer.Option(help="Shared folder for installs and modules, the same path on every node.")
    ] = None,
    name: Annotated[str, typer.Option(help="The cluster's name.")] = "cluster",
    dry_run: DryRun = False,
    fmt: FormatOption = Format.table,
) -> None:
    """Make a site and an empty catalog."""

    def work() -> Any:
        from envmgr.commands.site import init_site
        from envmgr.site import embedded_prefix

        return init_site(folder, prefix=prefix or embedded_prefix(os.environ), name=name, dry_run=dry_run)

    _finish(work, fmt)


@site_app.command("check")
def site_check(site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Validate the site and explain every setting."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.site import check_site

        return check_site(ctx)

    _run(verb, site, fmt)


@app.command("list")
def list_(site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """The tree of entries, each with its state."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.list import list_entries

        return list_entries(ctx)

    _run(verb, site, fmt)


@app.command()
def show(entry: Annotated[str, typer.Argument()], site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """One entry: recipe, lock, install, module."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.list import show_entry

        return show_entry(ctx, entry)

    _run(verb, site, fmt)


@app.command()
def copy(
    entry: Annotated[str, typer.Argument()],
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """Take a shipped recipe into your own catalog."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.catalog import copy_entry

        return copy_entry(ctx, entry, dry_run=dry_run)

    _run(verb, site, fmt)


@catalog_app.command("check")
def catalog_check(entries: SomeEntries = None, site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Check all recipes and all locks; exact places of faults."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.catalog import check_catalog

        return check_catalog(ctx, entries or ())

    _run(verb, site, fmt)


@app.command()
def lock(
    entries: SomeEntries = None,
    everything: All = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 when a lock does not answer its recipe; writes nothing.")
    ] = False,
    solver: Annotated[str | None, typer.Option(help="rattler, or conda-lock with the site's conda.")] = None,
    channel: Annotated[
        list[str] | None, typer.Option(help="Solve a channel from another place, once.", metavar="NAME=URL-OR-FOLDER")
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """Resolve recipes exactly and write their locks beside them."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.lock import lock_entries

        places = dict(_pair(text) for text in channel or ())
        return lock_entries(
            ctx, entries or (), everything=everything, check=check, dry_run=dry_run, solver=solver, places=places
        )

    _run(verb, site, fmt)


@app.command()
def build(
    entries: SomeEntries = None,
    everything: All = False,
    dry_run: DryRun = False,
    no_publish: Annotated[bool, typer.Option("--no-publish", help="Build into the store only.")] = False,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", min=1, help="Installs made side by side, and processes in each.")
    ] = None,
    gate: Annotated[
        bool | None,
        typer.Option(
            "--gate/--no-gate", help="Ask the last audit if all nodes can run it; else as policies.gate says."
        ),
    ] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """From lock to a published module that loads."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.build import build

        count = jobs or len(os.sched_getaffinity(0))
        return build(
            ctx, entries or (), everything=everything, dry_run=dry_run, publish=not no_publish, jobs=count, gate=gate
        )

    _run(verb, site, fmt, writes_prefix=not dry_run)


@app.command()
def publish(
    entries: SomeEntries = None, dry_run: DryRun = False, site: SiteOption = None, fmt: FormatOption = Format.table
) -> None:
    """Publish what is built: the named entries, or all."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.publish import publish_entries

        return publish_entries(ctx, entries or (), dry_run=dry_run)

    _run(verb, site, fmt, writes_prefix=not dry_run)


@app.command()
def remove(
    entries: Entries, dry_run: DryRun = False, site: SiteOption = None, fmt: FormatOption = Format.table
) -> None:
    """Publish a generation without these entries."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import remove_entries

        return remove_entries(ctx, entries, dry_run=dry_run)

    _run(verb, site, fmt, writes_prefix=not dry_run)


@app.command()
def history(site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Generations: when, by whom, what changed.

    `*` marks the current one; rollbacks follow.
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import history

        return history(ctx)

    _run(verb, site, fmt)


@app.command()
def rollback(
    generation: Annotated[
        int | None, typer.Argument(help="A generation's number; else the one before the current.")
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """Make an earlier generation current."""

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import roll_back

        return roll_back(ctx, generation, dry_run=dry_run)

    _run(verb, site, fmt, writes_prefix=not dry_run)


@app.command()
def diff(
    a: Annotated[int | None, typer.Argument(help="A generation; else the parent of B.")] = None,
    b: Annotated[int | None, typer.Argument(help="A generation; else the current one.")] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """What differs between two generations.

    Entries, packages and versions; by default from the current generation's parent to the current one.
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import diff

        return diff(ctx, a, b)

    _run(verb, site, fmt)


@app.command()
def test(
    entries: SomeEntries = None,
    nodes: Annotated[str | None, typer.Option(help="On these nodes: c[1-3], @gpu.", metavar="SET")] = None,
    via: Annotated[OneWay | None, typer.Option(help="On nodes, reached so; without --nodes, all groups.")] = None,
    user: Annotated[str | None, typer.Option(help="Who runs them on nodes; never root.", metavar="NAME")] = None,
    deadline: Annotated[float | None, typer.Option(min=1, help="Seconds that all nodes together may take.")] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """Run the smoke tests of published entries, here or on nodes.

    On nodes as an ordinary user; exits 1 when a test failed, 3 when a node is not known.
    """
    here = nodes is None and via is None

    def verb(ctx: Context) -> Any:
        from envmgr.commands.check import test_entries, test_on_nodes

        if not here:
            return test_on_nodes(
                ctx, entries or (), nodes=nodes, user=user, deadline=deadline,
                via=None if via is None else "slurm" if via == OneWay.slurm else "ssh",
            )  # fmt: skip
        if user is not None or deadline is not None:
            raise InputError(
                "test-user", "--user and --deadline are for nodes", hint="add `--nodes SET`, or `--via ssh` for all"
            )
        return test_entries(ctx, entries or ())

    # root must not run an entry's commands as root; on nodes others run them, and root's keys are needed
    _run(verb, site, fmt, writes_prefix=here and os.geteuid() == 0)


@app.command()
def verify(entries: SomeEntries = None, site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Hash published installs again.

    Every path is compared with the install's manifest; each difference is a finding.
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.check import verify_entries

        return verify_entries(ctx, entries or ())

    _run(verb, site, fmt)


class AuditFormat(StrEnum):
    table = "table"
    json = "json"
    junit = "junit"
    prometheus = "prometheus"


class Via(StrEnum):
    ssh = "ssh"
    slurm = "slurm"
    both = "both"


def _refuse_missing_folder(output: Path) -> None:
    """Before an audit of minutes, and not after it."""
    from envmgr.audit_formats import refuse_missing_folder

    try:
        refuse_missing_folder(output)
    except EnvmgrError as error:
        answer = error
        _finish(lambda: answer, AuditFormat.table)


def _plain_file(path: Path | None) -> Path | None:
    """A rename would put a file in a device's or a link's place; and a folder cannot be replaced."""
    if path is not None and os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise typer.BadParameter(f"{path} is there, and is not a plain file.")
    return path


@app.command()
def audit(
    nodes: Annotated[str | None, typer.Option(help="Node set, as c[1-3] or @gpu; else all groups.")] = None,
    via: Annotated[Via | None, typer.Option(help="How nodes are asked; else as the site says.")] = None,
    context: Annotated[list[str] | None, typer.Option(help="Only this context (may be repeated).")] = None,
    modules: Annotated[
        list[str] | None, typer.Option(help="Entries looked at closely (may be repeated), or `all`; else a sample.")
    ] = None,
    check: Annotated[list[str] | None, typer.Option(help="Only this check (may be repeated).")] = None,
    node_timeout: Annotated[float | None, typer.Option(min=1, help="Seconds that one node may take.")] = None,
    deadline: Annotated[float | None, typer.Option(min=1, help="Seconds that all nodes together may take.")] = None,
    explain: Annotated[str | None, typer.Option(metavar="CHECK", help="Say what a check does and why.")] = None,
    site: SiteOption = None,
    fmt: Annotated[AuditFormat, typer.Option("--format", help="For people, programs, CI, or node_exporter.")] = (
        AuditFormat.table
    ),
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write there instead of stdout, in one step.", callback=_plain_file),
    ] = None,
) -> None:
    """Prove that every node resolves the same modules.

    In every kind of shell and job, against the published generation and node against node. Exits 0 when all is well,
    1 with findings, 3 when it could not audit.
    """

    def explained() -> Any:
        from envmgr.commands.audit import explain as explain_check

        return explain_check(explain or "")

    def verb(ctx: Context) -> Any:
        from envmgr.commands.audit import audit as audit_nodes

        return audit_nodes(
            ctx, nodes=nodes, via=via.value if via else None, contexts=context or (), modules=modules or (),
            checks=check or (), node_timeout=node_timeout, deadline=deadline,
        )  # fmt: skip

    if output is not None:
        _refuse_missing_folder(output)
    if explain is not None:
        _finish(explained, fmt, output)
    _run(verb, site, fmt, output=output)


@app.command()
def gc(dry_run: DryRun = False, site: SiteOption = None, fmt: FormatOption = Format.table) -> None:
    """Remove old generations and unused installs.

    Old is what `policies` of the site says; unused is an install that no generation that stays names.
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.generations import collect_garbage

        return collect_garbage(ctx, dry_run=dry_run)

    _run(verb, site, fmt, writes_prefix=not dry_run)


@app.command("node-setup")
def node_setup(
    nodes: Annotated[
        str | None, typer.Option("--nodes", help="Node set, or groups of the site.", metavar="SET")
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="This machine.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without, only show what would change.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take everything away again.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Write plain files for Ansible and the like.", metavar="DIR")
    ] = None,
    via: Annotated[OneWay | None, typer.Option(help="How nodes are reached; else as the site says.")] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """What makes modules resolve in every shell and job of a node.

    Shows the files; with --apply puts them on nodes, as root.
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.node_setup import node_setup

        return node_setup(
            ctx, apply=apply, undo=undo, dry_run=dry_run, nodes=nodes, here=here, output=output,
            via=None if via is None else "slurm" if via == OneWay.slurm else "ssh",
        )  # fmt: skip

    _run(verb, site, fmt)


@app.command("shell-init")
def shell_init(
    shell: Annotated[str, typer.Argument(help="bash, zsh, sh, csh or tcsh.")] = "bash",
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> None:
    """The lines that make a shell use the prefix.

    In a shell's start-up file: eval "$(envmgr shell-init)".
    """

    def verb(ctx: Context) -> Any:
        from envmgr.commands.shell_init import shell_init

        return shell_init(ctx, shell)

    _run(verb, site, fmt)


def _pair(text: str) -> tuple[str, str]:
    name, equals, place = text.partition("=")
    if not equals or not name or not place:
        raise InputError("bad-channel", f"`{text}` is not NAME=URL-OR-FOLDER")
    return name, place


def _run(
    verb: Callable[[Context], Any], site: Path | None, fmt: Format | AuditFormat,
    *, writes_prefix: bool = False, output: Path | None = None,
) -> NoReturn:  # fmt: skip
    """Find the site, become the build user where the prefix is written, run the verb, render, exit."""

    def work() -> Any:
        from envmgr.commands import Context
        from envmgr.console import make_reporter
        from envmgr.privileges import drop_to
        from envmgr.run import Runner
        from envmgr.site import find_site, load_site

        found = load_site(find_site(site, os.environ, _working_folder()), os.environ)
        runner = Runner()
        if writes_prefix:
            os.umask(found.policies.mask)
            drop_to(found.build_user, found.prefix, reads=_read_by_verbs(found))
        _stop_by(signal.SIGINT, runner.cancel.set)
        _stop_by(signal.SIGTERM, runner.cancel.set)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
            _stop_by(signal.SIGHUP, runner.cancel.set)  # a dropped ssh session
        return verb(Context(found, runner, make_reporter(quiet=fmt.value == "json"), dict(os.environ)))

    _finish(work, fmt, output)


def _read_by_verbs(site: Site) -> list[Path]:
    return [*([site.source] if site.source else []), *(c for c in site.catalogs if c.exists())]


def _stop_by(number: int, cancel: Callable[[], None]) -> None:
    """The first signal stops the work, which then cleans up; further ones do not disturb that."""

    def stop(_signal: int, _frame: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        cancel()
        raise KeyboardInterrupt

    signal.signal(number, stop)


def _finish(work: Callable[[], Any], fmt: Format | AuditFormat, output: Path | None = None) -> NoReturn:
    """Do the work, show its result or its error on stdout or in the file `output`, exit with its code."""
    answer = _answer(work)
    code = getattr(answer, "exit_code", 0)
    failure: EnvmgrError | None = None
    try:
        _show(answer, fmt, output)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()  # `envmgr list | head` has what it wanted
    except EnvmgrError as error:
        failure = error  # the file
    except OSError as error:
        _silence_stdout()
        failure = EnvmgrError("output-failed", "the result could not be written to stdout", context=str(error))
    if failure is not None:
        code = failure.exit_code
        with suppress(OSError):
            sys.stderr.write(failure.render() + "\n")
    raise typer.Exit(code)


def _answer(work: Callable[[], Any]) -> Any:
    """The result, or the error. Anything unexpected is a bug of ours: exit code 4, and what to report."""
    try:
        return work()
    except KeyboardInterrupt:
        return Interrupted()
    except EnvmgrError as expected:
        return expected
    except Exception:  # noqa: BLE001 - the one exit point for bugs
        import traceback

        with suppress(OSError):
            sys.stderr.write(traceback.format_exc())
        return Bug(f"envmgr {__version__} did not expect this", hint="report it with the lines on stderr above")


def _show(answer: Any, fmt: Format | AuditFormat, output: Path | None) -> None:
    from envmgr.render import print_error, print_json, to_data

    if output is not None or fmt.value in {"junit", "prometheus"}:
        from envmgr.audit_formats import show_answer

        show_answer(answer, fmt.value, output)
    elif isinstance(answer, EnvmgrError):
        print_error(answer, fmt.value)
    elif fmt.value == "json":
        print_json(answer.schema, to_data(answer))
    else:
        from envmgr.render_text import show

        show(answer)


def _silence_stdout() -> None:
    """The interpreter flushes stdout once more at its end, and must not complain then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _working_folder() -> Path:
    """Where a site is looked for; `/` when the working folder was removed under us."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


def main() -> None:
    """The entry point."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins costs 10 ms at every start
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    app()
