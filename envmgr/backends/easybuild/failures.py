"""Errors of builds that failed, by EasyBuild's exit code and the end of what its commands said."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from envmgr.backends.easybuild.lock import LockedItem
from envmgr.backends.easybuild.settings import eula_word
from envmgr.errors import EnvmgrError, InputError, ending, signal_text
from envmgr.store.prefix import Install
from envmgr.system.log_excerpt import meaningful, without_colour
from envmgr.system.run import Completed

_STEP_NAMES = {"sanity": "sanity check", "finish": "post-processing"}
_FULL = re.compile(
    r"\[Errno (?:28|122)\]|: (?:No space left on device|Disk quota exceeded)\)?\.?$", re.MULTILINE | re.IGNORECASE
)
_KILLED = re.compile(r"Killed signal terminated program|signal 9\b|^Killed$|std::bad_alloc|MemoryError", re.MULTILINE)
_LINES = 12  # of EasyBuild's own words
_COMMAND = re.compile(
    r"ERROR: Shell command failed!\n\s+full command\s+->\s+(?P<command>.*?)\n\s+exit code\s+->\s+(?P<code>-?\d+)\n",
    re.DOTALL,
)
_OUTPUT = re.compile(r"->\s+(\S+/run-shell-cmd-output/\S+/(?:out|err)\.txt)$", re.MULTILINE)
_NOISE = re.compile(r"^(==|\s*$|\s*\*)")
EULA_NEEDED = re.compile(r"\(EULA\) for (\S+) is")


def build_failure(
    locked: LockedItem, install: Install, done: Completed, failed: str, step: str, folder: Path, log: str
) -> EnvmgrError:
    """Return the error of a build that ended with `done`.

    `failed` is EasyBuild's own message, `step` the last that it began, each empty if it reported none; `folder` is its
    private one.
    """
    text = without_colour(f"{done.stdout}\n{done.stderr}\n{failed}")
    command = _COMMAND.search(text)
    output = _output_of(text, folder) if command else ""
    code, entry, words, where = (
        done.returncode,
        install.entry,
        _words(failed or text),
        f"easyconfig {locked.easyconfig}",
    )

    # First, because a full disk can also look like any of the faults below.
    if full := _FULL.search(output) or _FULL.search(text):
        hint = (
            "free some space where it compiles (build_dir in site.yaml, else $TMPDIR or /tmp) and under the prefix, "
            "then run the same command again"
        )
        message = f"no space left while {entry} was built"
        return EnvmgrError("disk-full", message, context=[where, _line_at(full)], log=log, hint=hint)
    if ended := _signal_that_ended(code, failed):
        at = [f"it was at the {_STEP_NAMES.get(step, step)} step"] if step else []
        hint = "run the same command again: what was built before is kept"
        message = f"{entry} did not build: EasyBuild was ended by {ended}"
        return EnvmgrError("worker-died", message, context=[where, *at], log=log, hint=hint)
    if code == 32 or "OS dependencies were not found" in text:
        return missing_packages([entry.name], locked.os_packages, log=log)
    if code in (22, 45) or "Sanity check failed" in text:
        message = f"{entry} was built, but is not what its easyconfig promises"
        hint = "fix the easyconfig (sanity_check_paths, sanity_check_commands), lock again, and build again"
        context = [where, *_sanity(failed or _words(text)[-1])]
        return EnvmgrError("sanity-check-failed", message, context=context, log=log, hint=hint)
    if code == 42 or "Checksum verification" in text:
        hint = "the easyconfig has another checksum than the lock: lock the entry again"
        message = f"EasyBuild refuses a source of {entry}"
        return EnvmgrError("source-differs", message, context=[where, *words], log=log, hint=hint)
    if code in (30, 41):
        message = f"EasyBuild asked for a file of {entry} that is not in its lock"
        hint = "lock the entry again"
        return EnvmgrError("source-missing", message, context=[where, *words], log=log, hint=hint)
    if found := EULA_NEEDED.search(text):
        return eula_not_accepted(entry.name, found[1], context=[where], log=log)
    if "already exists, aborting!" in text and "Lock " in text:
        hint = "wait for it, then run the same command again"
        message = f"EasyBuild is building {entry} elsewhere"
        return EnvmgrError("easybuild-locked", message, context=words, log=log, hint=hint)
    if code in (4, 5, 6, 7):
        return InputError("easyconfig-invalid", f"EasyBuild refuses {locked.easyconfig}", context=words, log=log)
    return _other_failure(install, done, step, where, output, _told(command, output) or words, log)


def _other_failure(
    install: Install, done: Completed, step: str, where: str, output: str, said: Sequence[str], log: str
) -> EnvmgrError:
    entry, code = install.entry, done.returncode
    if code == 0:
        message = f"EasyBuild reported that {entry} is built, but it is not there"
        hint = "its easyblock or its hooks put it elsewhere: the log has all of its output"
        return EnvmgrError("build-failed", message, context=[where, *_words(done.stdout)], log=log, hint=hint)
    hint = "the log has all of its output; what was built before is kept for the next run"
    if _KILLED.search(output):
        hint = f"out of memory? Build with fewer cores (-j), or on a machine with more; {hint}"
    at_step = f": the {_STEP_NAMES.get(step, step)} step failed" if step else f" (exit status {code})"
    return EnvmgrError("build-failed", f"{entry} did not build{at_step}", context=[where, *said], log=log, hint=hint)


def missing_packages(names: Sequence[str], groups: Sequence[Sequence[str]], *, log: str = "") -> EnvmgrError:
    """Return the error for OS packages that are not here; a group's alternatives are one need.

    Its hint has the names of both families of systems.
    """
    dnf = sorted({_named(group, dnf=True) for group in groups})
    apt = sorted({_named(group, dnf=False) for group in groups})
    verb = "needs" if len(names) == 1 else "need"
    return EnvmgrError(
        "os-package-missing",
        f"{', '.join(names)} {verb} packages of the operating system that are not here",
        context=[" or ".join(group) for group in groups],
        log=log,
        hint=f"dnf install {' '.join(dnf)} (Rocky, Alma, RHEL) or apt-get install {' '.join(apt)} (Debian, Ubuntu); "
        "nodes need the libraries of the same packages to run it",
    )


def eula_not_accepted(needing: str, software: str, *, context: Sequence[str], log: str = "") -> InputError:
    """Return the error for a licence agreement of `software`, which `needing` (what was locked or built) needs."""
    return InputError(
        "eula-not-accepted",
        f"{needing} needs {software}, whose licence agreement is not accepted",
        context=context,
        log=log,
        hint=f"read it; then add `accept_eula: [{software}]` to the recipe's input, and `{eula_word(software)}` to "
        "policies.licences in site.yaml",
    )


def root_refused() -> EnvmgrError:
    """Return the error for a build as root."""
    return EnvmgrError(
        "root-refused",
        "EasyBuild does not build as root, and the site names no build user",
        hint="useradd --system --create-home envmgr, then in site.yaml: build_user: envmgr",
    )


def _named(group: Sequence[str], *, dnf: bool) -> str:
    """Return the name that fits a family: Debian's development packages end in -dev, Fedora's in -devel.

    Without such a name it is the first or the last.
    """
    ending = "-devel" if dnf else "-dev"
    fitting = [name for name in group if name.endswith(ending)]
    return fitting[0] if fitting else (group[0] if dnf else group[-1])


def _signal_that_ended(code: int, failed: str) -> str:
    """Return the signal's name. EasyBuild catches some signals and exits with their number.

    Failed steps have the same exit statuses, but then `failed` says so.

    Source: easybuild-framework 5, `clean_up_locks_signal_handler`.
    """
    if code < 0:
        return signal_text(-code)
    return signal_text(code) if code in (signal.SIGABRT, signal.SIGTERM) and not failed else ""


def _output_of(text: str, folder: Path) -> str:
    """Return the output of the command that failed, from the files that EasyBuild names.

    Source: easybuild-framework 5, `RunShellCmdError`.
    """
    paths = [Path(p) for p in _OUTPUT.findall(text)]
    if not paths:
        found = [*folder.rglob("run-shell-cmd-output/**/out.txt"), *folder.rglob("run-shell-cmd-output/**/err.txt")]
        paths = sorted(found, key=lambda p: p.stat().st_mtime)[-2:]
    parts = [p.read_text(encoding="utf-8", errors="backslashreplace") for p in paths if p.is_file()]
    return without_colour("\n".join(parts))


def _told(command: re.Match[str] | None, output: str) -> list[str]:
    if command is None:
        return []
    code = int(command["code"])
    status = ending(code) if code < 0 else f"failed with exit status {code}"
    said = meaningful(output)
    return [f"`{' '.join(command['command'].split())[:200]}` {status}{':' if said else ', and said nothing'}", *said]


def _words(text: str) -> list[str]:
    lines = [re.sub(r"^(ERROR|== FAILED|FAILED):? ?", "", line).strip() for line in text.splitlines()]
    return [line[:300] for line in lines if line and not _NOISE.match(line)][-_LINES:]


def _line_at(match: re.Match[str]) -> str:
    text = match.string
    start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
    return text[start : end if end >= 0 else len(text)].strip()[:300]


def _sanity(text: str) -> list[str]:
    """Return EasyBuild's list of what is not there, with the output of sanity check commands below it."""
    text = text.rpartition("Sanity check failed: ")[2]
    text = re.sub(
        r"failed with exit code (\d+) \(output: (.*?)\s*\)(?=\n|\Z)",
        lambda m: f"failed with exit status {m[1]}" + (f":\n{m[2].strip()}" if m[2].strip() else ""),
        text,
        flags=re.DOTALL,
    )
    return _words(text)
