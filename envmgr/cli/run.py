"""The frame of every verb of the command line: the site before it, its result and exit code after it.

It imports nothing heavy: the site and the renderers are imported when a verb runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from envmgr import __version__
from envmgr.errors import Bug, EnvmgrError, InputError, Interrupted
from envmgr.verbs import Format

if TYPE_CHECKING:
    from envmgr.report import Result
    from envmgr.steps import Context
    from envmgr.steps.opening import Needs


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

            finish(fail, before.get("--format", "table"), None)


def open_site(site: Path | None, needs: Needs, fmt: str) -> Context:
    """Find the site, the value of --site, and open it for a verb.

    Without a site file, stderr says so for text output, unless the verb needs nothing of the prefix.

    Raises EnvmgrError, see `load_site`, `open_context`.
    """
    from envmgr.catalog.site import find_site, load_site
    from envmgr.cli.progress import make_reporter
    from envmgr.steps.opening import open_context

    found = load_site(find_site(site, os.environ, _working_folder()), os.environ)
    if found.source is None and needs != "nothing" and fmt == Format.table:
        sys.stderr.write(
            f"no site.yaml found: this is the embedded site, prefix {found.prefix} (`envmgr init` makes one)\n"
        )
    return open_context(found, needs, make_reporter(quiet=fmt == Format.json))


def finish(work: Callable[[], Result], fmt: str, report: Path | None) -> NoReturn:
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
