"""The environment of an existing install: by its folders, or what its own module or a command changes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from envmgr.backends.existing.models import ExistingInput
from envmgr.catalog.shell_rules import SEARCHED
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.capture import capture_changes
from envmgr.modules.capture_run import Shell, Step
from envmgr.modules.lmod import find_lmod
from envmgr.modules.spec import EnvOp
from envmgr.report import Reporter
from envmgr.store.manifest import path_environment
from envmgr.system.files import explain_os_error
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import assign, script_text, words

_SECONDS = 120.0  # for one run of the module or the command; it is run some ten times
# Lmod's own state, that of environment modules, and the list of what Spack has loaded.
_STATE = re.compile(
    r"MODULE(S_\w+|SHOME|PATH\w*)|LMOD_\w*|__LMOD\w*|_LMFILES_\w*|_ModuleTable\w*|LOADEDMODULES|SPACK_LOADED_HASHES"
)
_SYSTEM = re.compile(r"/usr/(?!local/)|/s?bin$|/lib(64)?$")
_OF_ITS_OWN = frozenset({"LD_LIBRARY_PATH", "PYTHONPATH"})
_INSTEAD = "say in the recipe's `environment` what users need of it, without `module` and `command`"


def take_environment(
    wanted: ExistingInput, roots: Sequence[str], site: Site, runner: Runner, reporter: Reporter
) -> tuple[EnvOp, ...]:
    """Return the environment that loading the tree gives, in load order. `roots` are the folders of its software.

    A module or a command is run in an empty environment, and again with values in it, to see what it changes.

    Raises:
        EnvmgrError: as `capture_changes`, and `activation-forbidden` for libraries from outside of `roots`;
            `lmod-missing`.
    """
    if not (wanted.module or wanted.command):
        return path_environment(Path(wanted.path))
    with scratch_folder("existing") as folder, explain_os_error(folder):
        path = folder / "step.sh"
        path.write_text(_step_text(wanted, site, runner), encoding="utf-8")
        step = Step(f"`{wanted.source.removeprefix('command ')}`", path, path.read_text(encoding="utf-8"))
        found = capture_changes(
            Shell(
                (step,),
                runner,
                _SECONDS,
                folder,
                reporter.log,
                instead=_INSTEAD,
                code=_INSTEAD,
                ignores=_STATE,
                allowed=_OF_ITS_OWN,
            )
        )
    _refuse_others(found, roots)
    kept = tuple(op for op in found if not _is_of_system(op, roots))
    for op in {*found} - {*kept}:
        reporter.log(f"left out {op.kind} {op.name} {op.value}: the system's own place, where it is looked for anyway")
    return kept


def _is_of_system(op: EnvOp, roots: Sequence[str]) -> bool:
    """Return whether the element of a list is a folder of the system: tools add those of packages that they found
    there.
    """
    inside = any(f"{op.value}/".startswith(f"{root}/") for root in roots)
    return op.name in SEARCHED and not inside and _SYSTEM.match(op.value) is not None


def _step_text(wanted: ExistingInput, site: Site, runner: Runner) -> str:
    command, search = wanted.command, ""
    if wanted.module:
        lmod = find_lmod(site.lmod.dir, os.environ, runner=runner)
        name, search = wanted.module, ":".join(wanted.modulepath)
        if name.startswith("/"):  # Lmod takes no path of a file in Lua
            file = Path(name)
            name, search = f"{file.parent.name}/{file.name.removesuffix('.lua')}", str(file.parents[1])
        command = words(str(lmod.commands / "lmod"), "bash", "load", name)
    return assign(__envmgr_command=command, __envmgr_modules=search) + script_text(__file__, "step.sh")


def _refuse_others(found: Iterable[EnvOp], roots: Sequence[str]) -> None:
    """Raise EnvmgrError `activation-forbidden` for a change that only software may make for itself."""
    for op in found:
        if op.name in _OF_ITS_OWN:
            parts = op.value.split(op.separator) if op.kind in ("prepend", "append") else [""]
            if other := [p for p in parts if not any(f"{p}/".startswith(f"{root}/") for root in roots)]:
                raise EnvmgrError(
                    "activation-forbidden",
                    f"it changes {op.name} for more than its own software",
                    context=shlex.join([op.kind, *other]),
                    hint=f"no entry may do so: {_INSTEAD}",
                )
