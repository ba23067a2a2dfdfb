"""The effects of `conda activate` as data: its steps, which are compared by `modules.capture`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.modules.capture import capture_changes
from envmgr.modules.capture_run import Shell, Step
from envmgr.modules.spec import EnvOp
from envmgr.system.files import explain_os_error
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import assign

_SCRIPTS = "etc/conda/activate.d"
_VARIABLES = "etc/conda/env_vars.d"
_STATE = "conda-meta/state"
_NOT_SET = "***unset***"  # conda's mark for a variable that was removed: it is not set then
_INSTEAD = "build without this package"


def capture_activation(
    prefix: Path, runner: Runner, *, timeout: float = 60, log: Callable[[str], None] = lambda _: None
) -> tuple[EnvOp, ...]:
    """Return what activating the environment at `prefix`, its final path, changes, in load order; () if there are no
    steps.

    `timeout` is wall-clock seconds for one run of all scripts. `log` gets the scripts' output and what was left out.
    Raises as `capture_changes`.
    """
    prefix = Path(os.path.abspath(prefix))  # noqa: PTH100 - resolve() would follow links, and users see the path as given
    with scratch_folder("activate") as folder, explain_os_error(folder):
        steps = find_steps(prefix, folder)
        if not steps:
            return ()
        return capture_changes(
            Shell(
                steps,
                runner,
                timeout,
                folder,
                log,
                instead=_INSTEAD,
                code=f"{_INSTEAD}, or with a version whose script does the same",
                base={"CONDA_PREFIX": str(prefix), "CONDA_DEFAULT_ENV": str(prefix), "CONDA_SHLVL": "1"},
                front=f"{prefix}/bin",
            )
        )


def find_steps(prefix: Path, folder: Path) -> tuple[Step, ...]:
    """Return the steps of `conda activate` for `prefix`, in its order: variables of packages and of `conda env config`,
    scripts.

    The variables are rendered as scripts under `folder`, so that all steps run in the same way.

    Raises:
        EnvmgrError: `activation-failed`, a file cannot be read or has the wrong content.
    """
    files = sorted((prefix / _VARIABLES).glob("*.json")) + [path for path in [prefix / _STATE] if path.is_file()]
    steps = []
    for number, path in enumerate(files):
        label = str(path.relative_to(prefix))
        variables = _variables(label, _read(path, label), key="env_vars" if label == _STATE else None)
        if variables:
            script = folder / f"variables{number}.sh"
            text = "".join(f"export {assign(**{name: value})}" for name, value in sorted(variables.items()))
            script.write_text(text, encoding="utf-8")
            steps.append(Step(label, script, text))
    for path in sorted((prefix / _SCRIPTS).glob("*.sh")):
        if not path.is_dir():
            label = str(path.relative_to(prefix))
            steps.append(Step(label, path, _read(path, label)))
    return tuple(steps)


def _read(path: Path, label: str) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise EnvmgrError(
            "activation-failed", f"{label} cannot be read", context=error.strerror or str(error)
        ) from None


def _variables(label: str, text: str, *, key: str | None) -> dict[str, str]:
    """Return the flat object in `text`, or under its `key`."""
    try:
        value = json.loads(text)
        value = value.get(key, {}) if key else value
    except (ValueError, AttributeError):
        value = None
    if not isinstance(value, dict) or not all(
        re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and isinstance(item, str) and "\0" not in item
        for name, item in value.items()
    ):
        raise EnvmgrError(
            "activation-failed", f"{label} does not name variables with their values", context="expected {NAME: string}"
        )
    return {name: item for name, item in value.items() if item != _NOT_SET}
