"""The environment of an existing install: by its folders, or what its own module or a command changes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from envmgr.backends.existing.models import ExistingInput
from envmgr.catalog.shell_rules import lies_in
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, ErrorData, InputError, Interrupted, ending
from envmgr.modules.capture import capture_changes
from envmgr.modules.capture_run import Shell, Step
from envmgr.modules.lmod import find_lmod
from envmgr.modules.spec import EnvOp
from envmgr.report import Reporter
from envmgr.store.manifest import path_environment
from envmgr.system.child import python_module
from envmgr.system.files import explain_os_error
from envmgr.system.models import FrozenModel
from envmgr.system.run import Runner, clean_env
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import assign, script_text, words
from envmgr.system.users import Account, runs_for_root

_SECONDS = 120.0  # for one run of the module or the command; it is run some ten times
# Lmod's own state, that of environment modules, and the list of what Spack has loaded.
_STATE = re.compile(
    r"MODULE(S_\w+|SHOME|PATH\w*)|LMOD_\w*|__LMOD\w*|_LMFILES_\w*|_ModuleTable\w*|LOADEDMODULES|SPACK_LOADED_HASHES"
)
_SYSTEM = re.compile(r"/usr/(?!local/)|/s?bin$|/lib(64)?$")
_FAILED = "it is run in an empty environment, and for root by the site's build user: does it work there?"
_INSTEAD = "say in the recipe's `environment` what users need of it, without `module` and `command`"


class Request(FrozenModel):
    """The question of a lock: `command` is what prints shell text, `label` what messages call it; `search` is MODULEPATH."""

    command: str
    label: str
    search: str
    roots: tuple[str, ...]


class ShellChanges(FrozenModel):
    """The changes, and lines for the log; or an error."""

    changes: tuple[EnvOp, ...] = ()
    lines: tuple[str, ...] = ()
    error: ErrorData | None = None


def take_environment(
    wanted: ExistingInput, roots: Sequence[str], site: Site, runner: Runner, reporter: Reporter
) -> tuple[EnvOp, ...]:
    """Return the environment that loading the tree gives, in load order. `roots` are the folders of its software.

    A module or a command is run in an empty environment, and again with values in it, to see what it changes. Root has
    the site's build user run it.

    Raises:
        EnvmgrError: as `capture_changes`; `lmod-missing`; as `runs_for_root`; InputError `file-missing`.
    """
    if not (wanted.module or wanted.command):
        return path_environment(Path(wanted.path))
    command, search = wanted.command, ":".join(wanted.modulepath)
    if wanted.module:
        name = wanted.module
        if name.startswith("/"):  # Lmod takes no path of a file in Lua
            file = Path(name)
            _require_file(file)
            name, search = f"{file.parent.name}/{file.name.removesuffix('.lua')}", str(file.parents[1])
        lmod = find_lmod(site.lmod.dir, os.environ, runner=runner)
        command = words(str(lmod.commands / "lmod"), "bash", "load", name)
    label = f"`{wanted.source.removeprefix('command ')}`"
    request = Request(command=command, label=label, search=search, roots=tuple(roots))
    account = runs_for_root(site.build_user, site.prefix, mask=site.policies.mask)
    found = _answer(request, runner) if account is None else _answer_of(account, request, runner)
    for line in found.lines:
        reporter.log(line)
    if found.error is not None:
        raise found.error.as_error()
    return found.changes


def _require_file(file: Path) -> None:
    """Raise InputError `file-missing` for a modulefile that surely does not exist. Lmod also takes it without `.lua`."""
    for each in (file, Path(f"{file}.lua")):
        try:
            each.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            pass  # it is run by another user, who may see it
        return
    raise InputError("file-missing", f"input.module: {file} does not exist", hint="is it mounted here?")


def _answer_of(account: Account, request: Request, runner: Runner) -> ShellChanges:
    """Return the answer of a process of that user. Raises EnvmgrError `activation-failed` if it gives none."""
    done = runner.run(
        python_module("envmgr.backends.existing.environment"),
        env=clean_env(PYTHONDONTWRITEBYTECODE="1", **account.variables()),
        cwd=Path("/"),  # that user may not be able to enter root's working directory
        check=False,
        stdin=request.model_dump_json(),
        run_as=account,
    )
    try:
        return ShellChanges.model_validate_json(done.stdout.splitlines()[-1])
    except (ValidationError, IndexError):
        context = [f"its process {ending(done.returncode)}; it ran as {account.name}", *done.stderr.splitlines()[-8:]]
        raise EnvmgrError("activation-failed", f"{request.label} gave no answer", context=context) from None


def _answer(request: Request, runner: Runner) -> ShellChanges:
    lines: list[str] = []
    try:
        with scratch_folder("existing") as folder, explain_os_error(folder):
            path = folder / "step.sh"
            given = assign(__envmgr_command=request.command, __envmgr_modules=request.search)
            text = given + script_text(__file__, "step.sh")
            path.write_text(text, encoding="utf-8")
            shell = Shell(
                (Step(request.label, path, text),),
                runner,
                _SECONDS,
                folder,
                lines.append,
                instead=_INSTEAD,
                code=_INSTEAD,
                failed=f"{_FAILED} Else {_INSTEAD}",
                ignores=_STATE,
                own=request.roots,
            )
            found = capture_changes(shell)
    except Interrupted:
        raise
    except EnvmgrError as error:
        return ShellChanges(lines=tuple(lines), error=ErrorData.of(error))
    kept = tuple(op for op in found if not _is_of_system(op, request.roots))
    left = (op for op in found if op not in kept)
    lines += [
        f"left out {op.kind} {op.name} {op.value}: a place of the system, which is looked at anyway" for op in left
    ]
    return ShellChanges(changes=kept, lines=tuple(lines))


def _is_of_system(op: EnvOp, roots: Sequence[str]) -> bool:
    """Return whether the element of a list is a folder of the system: tools add those of packages that they found
    there.
    """
    return op.kind in ("prepend", "append") and not lies_in(op.value, roots) and _SYSTEM.match(op.value) is not None


def main() -> None:
    request = Request.model_validate_json(sys.stdin.read())
    sys.stdout.write(_answer(request, Runner()).model_dump_json() + "\n")


if __name__ == "__main__":
    main()
