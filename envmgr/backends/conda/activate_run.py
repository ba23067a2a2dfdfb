"""Runs of the packages' activation scripts in bash, and the shell's state after each: environment, functions, side
effects.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import CommandError, EnvmgrError, ending
from envmgr.system.run import Runner, clean_env
from envmgr.system.shelltext import assign, script_text

BASE_NAMES = frozenset({"PATH", "HOME", "USER", "LOGNAME", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_SHLVL"})
_IGNORED = re.compile(r"_|SHLVL|PWD|OLDPWD|IFS|OPTIND|SHELLOPTS|POSIXLY_CORRECT|BASH.*|__envmgr.*")
_SENTINEL = re.compile(r"sentinel-of-(\w+?)-end")
_SCRIPTS = "etc/conda/activate.d"
_VARIABLES = "etc/conda/env_vars.d"
_STATE = "conda-meta/state"
_NOT_SET = "***unset***"  # conda's mark for a variable that was removed: it is not set then
_NO_SHELL_CODE = (
    "a modulefile sets variables only: build without this package, or with a version whose script does the same"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of activation: a script, or a file of variables. `label` is its path relative to the prefix.

    `path` is the file that bash sources, `text` its content.
    """

    label: str
    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Trace:
    """One run: the environment before the first step and after each. `shell_only` are variables that were left without
    export.
    """

    before: Mapping[str, str]
    after: tuple[Mapping[str, str], ...]
    shell_only: frozenset[str]

    def was(self, name: str) -> str | None:
        return self.before.get(name)

    def now(self, name: str) -> str | None:
        return self.after[-1].get(name)

    def changes(self, name: str) -> tuple[int, ...]:
        """Return the steps (from 0) that changed the value of `name`."""
        states = (self.before, *self.after)
        return tuple(i for i in range(len(self.after)) if states[i].get(name) != states[i + 1].get(name))

    def changed(self, *, own: bool = False) -> frozenset[str]:
        """Return the names of changed variables.

        With `own`, exported variables of bash itself are included; they change by themselves.
        """
        names = {name for state in (self.before, *self.after) for name in state}
        return frozenset(
            name
            for name in names
            if ((own and name not in self.shell_only) or not ignored(name)) and self.changes(name)
        )


def ignored(name: str) -> bool:
    """Return whether it is one of bash's own variables, which change by themselves."""
    return _IGNORED.fullmatch(name) is not None


def sentinel(name: str) -> str:
    """Return a value that no script uses: one word, no separator, and no other name's sentinel inside."""
    return f"sentinel-of-{name}-end"


def sentinels_in(value: str) -> tuple[str, ...]:
    """Return the names whose sentinels occur in `value`."""
    return tuple(_SENTINEL.findall(value))


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


@dataclass(frozen=True, slots=True)
class Shell:
    """The settings of a run. `folder` is private and temporary; `timeout` is wall-clock seconds for all steps of one
    run.
    """

    prefix: Path
    steps: tuple[Step, ...]
    runner: Runner
    timeout: float
    folder: Path
    log: Callable[[str], None]

    def trace(self, run: str, preset: Mapping[str, str]) -> Trace:
        """Source all steps in a new bash. Runs with different names differ in HOME, user and working directory.

        `preset` is added to the environment that a user has just before the packages' scripts run; a PATH in it is
        appended.

        Raises:
            EnvmgrError: `activation-failed`, `activation-defines-function` or `activation-changes-shell`.
            Interrupted: the runner was cancelled.
        """
        # The steps report `pwd -P`, which is compared with this path: TMPDIR may be a link.
        at = Path(os.path.realpath(self.folder)) / run
        home, work = at / "home", at / "work"
        for folder in (home, work, *(at / str(i) for i in range(len(self.steps)))):
            folder.mkdir(parents=True)
        # LANG, TMPDIR and the like are left out, so that a script that sets one is detected.
        base = {"HOME": str(home), "USER": f"user-{run}", "LOGNAME": f"user-{run}", "CONDA_SHLVL": "1"}
        base |= {"CONDA_PREFIX": str(self.prefix), "CONDA_DEFAULT_ENV": str(self.prefix)}
        path = f"{self.prefix}/bin:{clean_env()['PATH']}"
        before = base | dict(preset) | {"PATH": ":".join(filter(None, (path, preset.get("PATH"))))}
        driver = at / "driver.sh"
        driver.write_text(_driver(len(self.steps)), encoding="utf-8")
        # Start-up files of the host would add changes that no package makes.
        argv: list[str | Path] = [_tool("bash"), "--noprofile", "--norc", driver, at, _tool("env")]
        argv += [step.path for step in self.steps]
        try:
            status = self.runner.run(argv, env=before, cwd=work, timeout=self.timeout, check=False).returncode
            reason = f"ended the shell (exit status {status})" if status >= 0 else ending(status)
        except CommandError:
            reason = f"did not end within {self.timeout:g} s"
        log = (lambda _: None) if preset else self.log  # the plain run is logged, the others only repeat it
        for i, step in enumerate(self.steps):
            self._check(step, at / str(i), work, reason, log=log)
        left = sorted(str(path.relative_to(home)) for path in home.rglob("*"))
        if left:
            log(f"activation wrote to HOME, which a module load does not repeat: {', '.join(left)}")
        after = tuple(_environment(at / str(i) / "env") for i in range(len(self.steps)))
        names = frozenset((at / str(len(self.steps) - 1) / "variables").read_text().split())
        return Trace(before, after, names - frozenset(after[-1]))

    def _check(self, step: Step, at: Path, work: Path, reason: str, *, log: Callable[[str], None]) -> None:
        output = tuple(f"output: {line}" for line in _lines(at / "output")[-8:])
        if not (at / "status").is_file():
            raise EnvmgrError("activation-failed", f"{step.label} {reason}", context=output)
        status, *last = _lines(at / "status")
        if status != "0":
            if re.match(r"return\s+\S", last[0] if last else ""):
                message = f"{step.label} gave up: `{last[0]}`, status {status}"
                raise EnvmgrError("activation-failed", message, context=output)
            # The status does not say whether a script failed or could not be parsed.
            parsed = self.runner.run([_tool("bash"), "-n", step.path], env={}, check=False, timeout=self.timeout)
            if parsed.returncode:
                raise EnvmgrError("activation-failed", f"{step.label} has a syntax error", context=output)
            # Many scripts end in `[[ … ]] && export …`, and conda also ignores the status.
            log(f"{step.label} ended with status {status}")
        for line in output:
            log(f"{step.label}: {line}")
        functions = [line.split()[-1] for line in _lines(at / "functions")]
        aliases = [line.removeprefix("alias ").partition("=")[0] for line in _lines(at / "aliases")]
        for kind, names in (("function", functions), ("alias", aliases)):
            if names:
                many = {"function": "functions", "alias": "aliases"}[kind] if len(names) > 1 else kind
                raise EnvmgrError(
                    "activation-defines-function",
                    f"{step.label} defines the {many} {', '.join(sorted(names))}",
                    hint=_NO_SHELL_CODE,
                )
        folder, umask, jobs = ("".join(_lines(at / file)) for file in ("folder", "umask", "jobs"))
        for wrong, what in (
            (not work.is_dir(), "removes the working directory"),
            (folder != str(work), f"changes the working directory to {folder}"),
            # `activate_run.begin.sh` sets this umask before the first step.
            (umask != "0022", f"changes the umask to {umask}"),
            (jobs, "leaves a process running in the background"),
        ):
            if wrong:
                raise EnvmgrError(
                    "activation-changes-shell", f"{step.label} {what}", context=output, hint=_NO_SHELL_CODE
                )


def _driver(steps: int) -> str:
    """Return the script that runs this many steps: the step's text once for each, without a loop."""
    return script_text(__file__, "begin.sh") + script_text(__file__, "step.sh") * steps


def _tool(name: str) -> str:
    """Return the system's own program: one from a package may differ from the user's shell."""
    return shutil.which(name, path=clean_env()["PATH"]) or name


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="backslashreplace").splitlines() if path.is_file() else []


def _environment(path: Path) -> dict[str, str]:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    pairs = (item.partition("=") for item in text.split("\0") if item)
    return {name: value for name, _, value in pairs}
