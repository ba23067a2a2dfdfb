"""Why a build failed, by EasyBuild's exit code and the end of what its commands said: an error of the house form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from envmgr.easybuild.lock import LockedItem
from envmgr.errors import EnvmgrError
from envmgr.run import Completed
from envmgr.store import Install

# Source: easybuild-framework 5.4, `EasyBuildExit`.
_STEPS = {
    10: "fetch", 11: "prepare", 12: "unpack", 13: "patch", 14: "prepare", 15: "configure", 16: "build", 17: "test",
    18: "install", 19: "extensions", 20: "build", 21: "finish", 22: "sanity check", 23: "cleanup", 24: "module",
    25: "permissions", 43: "unpack", 44: "patch",
}  # fmt: skip
_ERRORS = {4: "easyconfig-invalid", 5: "easyconfig-invalid", 6: "easyblock-missing", 7: "easyblock-missing"}
_TAIL = 12  # lines
_CONTEXT = 2  # lines before the first that says what is wrong
_WRONG = re.compile(
    r"(\berror\b|undefined reference|cannot find|No such file|not found|fatal|Traceback|\bFAIL(ED)?\b|Permission denied|Killed|"
    r"No space left|Segmentation|\*\*\*|\bE: )", re.IGNORECASE,
)  # fmt: skip
_HARMLESS = re.compile(
    r"(-Werror|no error|errors?=|\berror\.[cho]|checking for|0 errors?\b|strerror|perror|\.\.\. (yes|no|ok)$|ignored\)$)",
    re.IGNORECASE,
)
_NOISE = re.compile(r"^(==|\s*$|make(\[\d+\])?: (Entering|Leaving) directory)")


def explain(locked: LockedItem, install: Install, done: Completed, failed: str, folder: Path, log: str) -> EnvmgrError:
    """The error of a build that ended with `done`; `failed` is EasyBuild's own word, `folder` its private one."""
    text = f"{done.stdout}\n{done.stderr}\n{failed}"
    where = f"easyconfig {locked.easyconfig}"
    outputs = "\n".join(
        p.read_text(encoding="utf-8", errors="backslashreplace") for p in _outputs(folder)
    )  # of the commands that failed
    code = done.returncode
    if re.search(r"\[Errno 28\]|No space left on device|Errno 122|Disk quota exceeded", f"{text}\n{outputs}"):
        return EnvmgrError(
            "disk-full", f"no space left while {install.entry} was built", context=[where, *_spots(text + outputs)], log=log,
            hint="free some space where it compiles (site.yaml: build_dir) and under the prefix, then run the same command again",
        )  # fmt: skip
    if "refuses to run" in text or ("as root" in text and "EasyBuild" in text and code == 1 and not outputs):
        return root_refused()
    if code == 32 or "OS dependencies were not found" in text:
        return missing_packages([install.entry.name], locked.os_packages, log=log)
    if code in (22, 45) or "Sanity check failed" in text:
        return EnvmgrError(
            "sanity-check-failed", f"{install.entry} was built, but is not what its easyconfig promises",
            context=[where, *_sanity(failed or text)], log=log,
            hint="mend the easyconfig (sanity_check_paths, sanity_check_commands), lock again, and build again",
        )  # fmt: skip
    if code == 42 or "Checksum verification" in text:
        return EnvmgrError(
            "source-differs", f"EasyBuild refuses a source of {install.entry}", context=[where, *_words(failed or text)], log=log
        )  # fmt: skip
    if code in (30, 41):
        return EnvmgrError(
            "source-missing", f"EasyBuild asked for a file of {install.entry} that is not in its lock",
            context=[where, *_words(failed or text)], log=log, hint="lock the entry again",
        )  # fmt: skip
    if "End User License Agreement" in text:
        return EnvmgrError(
            "eula-not-accepted", f"{install.entry} needs a licence agreement that the recipe does not accept",
            context=[where, *_words(failed or text)], log=log, hint=f"add accept_eula: [{locked.name}] to the recipe's input",
        )  # fmt: skip
    if code in _ERRORS:
        return EnvmgrError(
            _ERRORS[code], f"EasyBuild refuses {locked.easyconfig}", context=_words(failed or text), log=log
        )  # fmt: skip
    step = _STEPS.get(code, "")
    if code == 0:
        return EnvmgrError(
            "build-failed", f"EasyBuild said that {install.entry} is built, and it is not there",
            context=[where, *_words(done.stdout)], log=log,
        )  # fmt: skip
    status = f"signal {-code}" if code < 0 else f"exit status {code}"
    return EnvmgrError(
        "build-failed", f"{install.entry} did not build{f': the {step} step failed' if step else f' ({status})'}",
        context=[where, *(meaningful(outputs) or _words(failed or text))], log=log,
        hint="the log has all that was said; what was built before is kept for the next run",
    )  # fmt: skip


def meaningful(output: str) -> list[str]:
    """The last lines of a command's output that say what is wrong, with a little before them; at most a dozen."""
    lines = [line.rstrip() for line in output.splitlines() if not _NOISE.match(line)]
    wrong = [n for n, line in enumerate(lines) if _WRONG.search(line) and not _HARMLESS.search(line)]
    if not wrong:
        return [line[:200] for line in lines[-_TAIL:]]
    # What make says at the end is a consequence: the first complaint of the last burst is the cause.
    first = next((n for n in wrong if n >= wrong[-1] - _TAIL), wrong[-1])
    chosen = lines[max(0, first - _CONTEXT) : first + _TAIL - _CONTEXT]
    return [line[:200] for line in chosen]


def missing_packages(names: Sequence[str], groups: Sequence[Sequence[str]], *, log: str = "") -> EnvmgrError:
    """OS packages that are not here; a group's alternatives are one need, with the names of the families of systems."""
    dnf = sorted({_named(group, dnf=True) for group in groups})
    apt = sorted({_named(group, dnf=False) for group in groups})
    return EnvmgrError(
        "os-package-missing", f"{', '.join(names)} needs packages of the operating system that are not here",
        context=[" or ".join(group) for group in groups], log=log,
        hint=f"dnf install {' '.join(dnf)} (Rocky, Alma, RHEL) or apt-get install {' '.join(apt)} (Debian, Ubuntu); "
        "nodes need the libraries of the same packages to run it",
    )  # fmt: skip


def root_refused() -> EnvmgrError:
    return EnvmgrError(
        "root-refused", "EasyBuild does not build as root, and the site names no build user",
        hint="useradd --system --create-home envmgr, then in site.yaml: build_user: envmgr",
    )  # fmt: skip


def _named(group: Sequence[str], *, dnf: bool) -> str:
    """The name that fits a family: Debian's development packages end in -dev, Fedora's in -devel; else the first or the last."""
    ending = "-devel" if dnf else "-dev"
    fitting = [name for name in group if name.endswith(ending)]
    return fitting[0] if fitting else (group[0] if dnf else group[-1])


def _outputs(folder: Path) -> list[Path]:
    """What failed commands said, oldest first. Source: easybuild-framework 5, `run_shell_cmd`."""
    found = [*folder.rglob("run-shell-cmd-output/**/out.txt"), *folder.rglob("run-shell-cmd-output/**/err.txt")]
    return sorted(found, key=lambda p: p.stat().st_mtime)[-2:]


def _words(text: str) -> list[str]:
    lines = [re.sub(r"^(ERROR|== FAILED|FAILED):? ?", "", line).strip() for line in text.splitlines()]
    return [line[:300] for line in lines if line and not _NOISE.match(line)][-_TAIL:]


def _spots(text: str) -> list[str]:
    return [line.strip()[:300] for line in text.splitlines() if "No space left" in line or "quota" in line][:2]


def _sanity(text: str) -> list[str]:
    found = re.findall(
        r"(?:Sanity check failed: |^\s*)((?:sanity check command|no (?:file|dir)|extensions).*)", text, re.MULTILINE
    )
    return [line.strip()[:300] for line in found][:_TAIL] or _words(text)
