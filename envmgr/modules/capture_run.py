"""Runs of scripts in bash, and the shell's state after each: environment, functions, side effects."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envmgr.errors import CommandError, EnvmgrError, ending
from envmgr.system.run import Runner, clean_env
from envmgr.system.shelltext import script_text
from envmgr.wording import counted

_BASE_NAMES = frozenset({"PATH", "HOME", "USER", "LOGNAME"})
_IGNORED = re.compile(r"_|SHLVL|PWD|OLDPWD|IFS|OPTIND|SHELLOPTS|POSIXLY_CORRECT|BASH.*|__envmgr.*")
_SHOWN = 8  # lines of each end of an output
_SENTINEL = re.compile(r"sentinel-of-(\w+?)-end")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: `path` is the file that bash sources, `text` its content, `label` its name in messages."""

    label: str
    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Trace:
    """One run: the environment before the first step and after each. `shell_only` are variables that were left without
    export; `ignores` are as in `Shell`.
    """

    before: Mapping[str, str]
    after: tuple[Mapping[str, str], ...]
    shell_only: frozenset[str]
    ignores: re.Pattern[str] | None = None

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
            if ((own and name not in self.shell_only) or not ignored(name))
            and not (self.ignores and self.ignores.fullmatch(name))
            and self.changes(name)
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


@dataclass(frozen=True, slots=True)
class Shell:
    """The settings of a run. `folder` is private and temporary; `timeout` is wall-clock seconds for all steps of one
    run. `log` gets the scripts' output and what was left out.

    `base` is set before the first step, beside HOME and the user; `front` begins its PATH. `ignores` are variables in
    which a tool keeps its own state. `own` are the folders of the software itself. `instead` is what helps if the
    steps do what no module can; `code` is what helps if they run code, and `failed` if they fail: it is for steps whose
    text is envmgr's own.
    """

    steps: tuple[Step, ...]
    runner: Runner
    timeout: float
    folder: Path
    log: Callable[[str], None]
    instead: str
    code: str
    failed: str = ""
    base: Mapping[str, str] = field(default_factory=dict)
    front: str = ""
    ignores: re.Pattern[str] | None = None
    own: tuple[str, ...] = ()

    def can_be_preset(self, name: str) -> bool:
        """Return whether a run may begin with a value in this variable."""
        own = self.ignores is not None and self.ignores.fullmatch(name) is not None
        return name not in _BASE_NAMES and name not in self.base and not ignored(name) and not own

    def trace(self, run: str, preset: Mapping[str, str]) -> Trace:
        """Source all steps in a new bash. Runs with different names differ in HOME, user and working directory.

        `preset` is added to the environment that a user has just before the steps run; a PATH in it is appended.

        Raises:
            EnvmgrError: `activation-failed` or `activation-changes-shell`.
            Interrupted: the runner was cancelled.
        """
        # The steps report `pwd -P`, which is compared with this path: TMPDIR may be a link.
        at = Path(os.path.realpath(self.folder)) / run
        home, work = at / "home", at / "work"
        for folder in (home, work, *(at / str(i) for i in range(len(self.steps)))):
            folder.mkdir(parents=True)
        # LANG, TMPDIR and the like are left out, so that a step that sets one is detected.
        base = {"HOME": str(home), "USER": f"user-{run}", "LOGNAME": f"user-{run}", **self.base}
        path = (self.front, clean_env()["PATH"], preset.get("PATH"))
        before = base | dict(preset) | {"PATH": ":".join(filter(None, path))}
        driver = at / "driver.sh"
        driver.write_text(_driver(len(self.steps)), encoding="utf-8")
        # Start-up files of the host would add changes that no step makes.
        argv: list[str | Path] = [_tool("bash"), "--noprofile", "--norc", driver, at, _tool("env")]
        argv += [step.path for step in self.steps]
        try:
            status = self.runner.run(argv, env=before, cwd=work, timeout=self.timeout, check=False).returncode
            reason = f"ended the shell (exit status {status})" if status >= 0 else ending(status)
        except CommandError:
            reason = f"did not end within {self.timeout:g} s"
        log = self.log if run == "plain" else lambda _: None  # the other runs only repeat it
        for i, step in enumerate(self.steps):
            self._check(step, at / str(i), work, reason, log=log)
        left = sorted(str(path.relative_to(home)) for path in home.rglob("*"))
        if left:
            log(f"it wrote to HOME, which a module load does not repeat: {', '.join(left)}")
        after = tuple(_environment(at / str(i) / "env") for i in range(len(self.steps)))
        names = frozenset((at / str(len(self.steps) - 1) / "variables").read_text().split())
        return Trace(before, after, names - frozenset(after[-1]), self.ignores)

    def _check(self, step: Step, at: Path, work: Path, reason: str, *, log: Callable[[str], None]) -> None:
        output = tuple(f"output: {line}" for line in _ends_of(_lines(at / "output")))
        if not (at / "status").is_file():
            raise EnvmgrError("activation-failed", f"{step.label} {reason}", context=output, hint=self.failed)
        status, *last = _lines(at / "status")
        if status != "0":
            if re.match(r"return\s+\S", last[0] if last else ""):
                how = "failed" if self.failed else f"gave up: `{last[0]}`"
                message = f"{step.label} {how}, status {status}"
                raise EnvmgrError("activation-failed", message, context=output, hint=self.failed)
            # The status does not say whether a script failed or could not be parsed.
            parsed = self.runner.run([_tool("bash"), "-n", step.path], env={}, check=False, timeout=self.timeout)
            if parsed.returncode:
                raise EnvmgrError("activation-failed", f"{step.label} has a syntax error", context=output)
            # Many scripts end in `[[ … ]] && export …`, and conda also ignores the status.
            log(f"{step.label} ended with status {status}")
        for line in output:
            log(f"{step.label}: {line}")
        functions = sorted(line.split()[-1] for line in _lines(at / "functions"))
        aliases = sorted(line.removeprefix("alias ").partition("=")[0] for line in _lines(at / "aliases"))
        folder, umask, jobs = ("".join(_lines(at / file)) for file in ("folder", "umask", "jobs"))
        for wrong, what in (
            (functions, f"defines functions: {', '.join(functions)}"),
            (aliases, f"defines aliases: {', '.join(aliases)}"),
            (not work.is_dir(), "removes the working directory"),
            (folder != str(work), f"changes the working directory to {folder}"),
            # `capture_run.begin.sh` sets this umask before the first step.
            (umask != "0022", f"changes the umask to {umask}"),
            (jobs, "leaves a process running in the background"),
        ):
            if wrong:
                hint = f"a modulefile sets variables only: {self.code}"
                raise EnvmgrError("activation-changes-shell", f"{step.label} {what}", context=output, hint=hint)


def _driver(steps: int) -> str:
    """Return the script that runs this many steps: the step's text once for each, without a loop."""
    return script_text(__file__, "begin.sh") + script_text(__file__, "step.sh") * steps


def _tool(name: str) -> str:
    """Return the system's own program: one from a package may differ from the user's shell."""
    return shutil.which(name, path=clean_env()["PATH"]) or name


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="backslashreplace").splitlines() if path.is_file() else []


def _ends_of(lines: Sequence[str]) -> list[str]:
    """Return the first and the last lines that are not empty: programs say what is wrong first, scripts at their end."""
    found = [line for line in lines if line.strip()]
    more = len(found) - 2 * _SHOWN
    return found if more <= 0 else [*found[:_SHOWN], f"({counted(more, 'lines')} left out)", *found[-_SHOWN:]]


def _environment(path: Path) -> dict[str, str]:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    pairs = (item.partition("=") for item in text.split("\0") if item)
    return {name: value for name, _, value in pairs}
