"""The frame of every verb of the command line: site, build user and signals before it, its result and exit code after
it.

It imports nothing heavy: the site and the renderers are imported when a verb runs.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, ParamSpec

import typer

from envmgr import __version__
from envmgr.cli.options import Format
from envmgr.errors import Bug, EnvmgrError, InputError, Interrupted

if TYPE_CHECKING:
    from envmgr.catalog.site import Site
    from envmgr.report import Reporter, Result
    from envmgr.steps import Context
    from envmgr.system.run import Runner


_P = ParamSpec("_P")


def verb(function: Callable[_P, Result]) -> Callable[_P, None]:
    """Return a verb's function as typer calls it: show its answer or its error, and exit with the code of that.

    Of the verb's options, `fmt` says how the answer is written, and `report` into which file; without them, and with
    `dry_run`, it goes to stdout.
    """

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        fmt, report = kwargs.get("fmt", Format.table), kwargs.get("report")
        assert isinstance(fmt, str)
        assert report is None or isinstance(report, Path)
        report = None if kwargs.get("dry_run") else report
        _finish(lambda: function(*args, **kwargs), str(fmt), report)

    return run


def refuse_other_values(after: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Exit with InputError `option-twice` if an option has one value before the verb and another one `after` it."""
    for option, value in before.items():
        # `.` and `site.yaml` are the same site.
        files = [os.path.realpath(each) for each in (after.get(option, value), value)]
        if len({f"{each}/site.yaml" if Path(each).is_dir() else each for each in files}) > 1:
            both = InputError(
                "option-twice",
                f"{option} is given twice: `{value}` before the verb, and `{after[option]}` after it",
                hint="leave one of them out",
            )

            def fail(error: InputError = both) -> NoReturn:
                raise error

            _finish(fail, before.get("--format", "table"), None)


def open_context(
    site: Path | None,
    fmt: str,
    *,
    writes_prefix: bool = False,
    told: bool = True,
    anywhere: bool = False,
    away: bool = False,
) -> Context:
    """Find the site and become the build user if the prefix is written.

    Signals stop the processes of the command, then the command. `site` is the value of --site. With `told`, stderr says
    if there is no site file, for text output. `anywhere` is for a command that neither changes nor proves what the
    prefix holds: it also works in a prefix that was moved, or is not mounted here. One that is `away` also works if
    the prefix does not answer.

    Raises EnvmgrError, see `load_site`, `drop_to`, `require_place`, `require_answer`, `require_mounted`.
    """
    from envmgr.catalog.site import find_site, load_site
    from envmgr.cli.progress import make_reporter
    from envmgr.steps import Context
    from envmgr.system.run import Runner

    found = load_site(find_site(site, os.environ, _working_folder()), os.environ)
    if found.source is None and told and fmt == Format.table:
        sys.stderr.write(
            f"no site.yaml found: this is the embedded site, prefix {found.prefix} (`envmgr init` makes one)\n"
        )
    if found.backends:
        from envmgr.backends import require_settings

        require_settings(found)
    looks = not anywhere and _is_seen(found, away=away, mounted=True)
    if anywhere and not away:
        _is_seen(found, away=False, mounted=False)
    if looks:
        from envmgr.store.place import require_kinds
        from envmgr.store.prefix import Prefix

        require_kinds(Prefix(found.prefix))
    runner = Runner()
    signer = None
    if writes_prefix:
        if found.signing is not None and found.build_user is not None and os.geteuid() == 0:
            from envmgr.publish.signature import start_root_signer

            # It starts before the user changes: the build user need not be able to read the key.
            signer = start_root_signer(found.signing, runner)
        become_build_user(found)
        if signer is not None:
            from envmgr.system.users import refuse_tracing

            # Another process of the build user could else use the signer through this process.
            refuse_tracing()
    _stop_by_signals(runner)
    if looks:
        from envmgr.store.place import require_place

        require_place(Prefix(found.prefix))
    return Context(found, runner, make_reporter(quiet=fmt == "json"), dict(os.environ), signer)


def _is_seen(site: Site, *, away: bool, mounted: bool) -> bool:
    """Return whether this host sees the prefix; with `away` False raise instead. `mounted` asks for the mount, too."""
    from envmgr.store.away import require_answer, require_mounted

    try:
        require_answer(site.prefix)
        if mounted:
            require_mounted(site)
    except EnvmgrError:
        if not away:
            raise
        return False
    return True


def become_build_user(site: Site) -> None:
    """Become the build user, who writes the prefix, and clear what killed runs of that user left beside their work.

    The verb clears what they left of it. Raises EnvmgrError, see `drop_to`.
    """
    from envmgr.store.jobtable import remove_dead_holds
    from envmgr.store.prefix import Prefix
    from envmgr.system.scratch import clear_dead_scratch
    from envmgr.system.users import drop_to

    # First, because `drop_to` may make the prefix.
    os.umask(site.policies.mask)
    drop_to(site.build_user, site.prefix, reads=site.read_by_verbs)
    clear_dead_scratch()
    if site.prefix.is_dir():
        remove_dead_holds(Prefix(site.prefix))


def open_job() -> tuple[Runner, Reporter]:
    """Return the runner and the reporter for work on a node that needs no site file.

    The reporter writes plain lines to stderr, which is the job's log; signals end the work.
    """
    from envmgr.cli.progress import PlainReporter
    from envmgr.system.run import Runner

    runner = Runner()
    _stop_by_signals(runner)
    return runner, PlainReporter()


_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last one comes from a dropped ssh session


def _stop_by_signals(runner: Runner) -> None:
    """Stop the work at the first signal, and ignore further signals during the cleanup."""

    def stop(_signal: int, _frame: object) -> None:
        for each in _STOPPING:
            signal.signal(each, signal.SIG_IGN)
        runner.cancel.set()
        raise KeyboardInterrupt

    for number in _STOPPING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, stop)


def _finish(work: Callable[[], Result], fmt: str, report: Path | None) -> NoReturn:
    """Do the work, show its answer on stdout or in the file `report`, exit with its code.

    Raises:
        typer.Exit: always, with the result's or the error's code.
    """
    answer = _answer(work)
    code = answer.exit_code
    failure: EnvmgrError | None = None
    try:
        _show(answer, fmt, report)
        # Here an error can still be explained, and decide the exit code.
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
        from envmgr.wording import for_terminal

        with suppress(OSError):
            sys.stderr.write(for_terminal(failure.render()) + "\n")
    raise typer.Exit(code)


def _answer(work: Callable[[], Result]) -> Result | EnvmgrError:
    """Return the result, or the error. Anything unexpected is a bug of envmgr: exit code 4, and what to report."""
    try:
        return work()
    except KeyboardInterrupt:
        return Interrupted()
    except EnvmgrError as expected:
        return expected
    except Exception as error:  # noqa: BLE001 - the one exit point for bugs
        from envmgr.system.files import disk_error

        if isinstance(error, OSError) and (explained := disk_error(error, str(error.filename or "a file"))):
            return explained
        import traceback

        from envmgr.wording import for_terminal

        with suppress(OSError):
            sys.stderr.write(for_terminal(traceback.format_exc()))
        return Bug(f"envmgr {__version__} did not expect this", hint="report it with the lines on stderr above")


def _show(answer: Result | EnvmgrError, fmt: str, report: Path | None) -> None:
    from envmgr.cli.render import print_answer, write_report

    if isinstance(answer, EnvmgrError) and answer.reference == "output-failed":  # it cannot be written there
        print_answer(answer, "table")
    elif report is not None or fmt not in {"table", "json"}:
        write_report(answer, fmt, report)
    else:
        print_answer(answer, fmt)


def _silence_stdout() -> None:
    """Redirect stdout to /dev/null: the interpreter flushes it once more at its end, and must not complain then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _working_folder() -> Path:
    """Return the folder where the search for a site begins; `/` when the working folder was removed."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")
