"""Packages of the operating system that easyconfigs name: asked of rpm or dpkg before anything is built."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence

from envmgr.backends.easybuild.failures import missing_packages
from envmgr.backends.easybuild.lock import LockedItem
from envmgr.system.run import Runner


def require_packages(items: Iterable[LockedItem], runner: Runner) -> None:
    """Of every group of alternatives one must be here, as a package or a program. EnvmgrError `os-package-missing` for all others.

    EasyBuild asks the same, one easyconfig at a time.
    """
    wanted = [(item, group) for item in items for group in item.os_packages]
    if not wanted:
        return
    here = installed({name for _, group in wanted for name in group}, runner)
    lacking = [(item, group) for item, group in wanted if not here.intersection(group)]
    if lacking:
        raise missing_packages(
            sorted({item.name for item, _ in lacking}), list(dict.fromkeys(tuple(group) for _, group in lacking))
        )


def installed(names: Iterable[str], runner: Runner) -> set[str]:
    """Those of `names` that are here: installed packages, what packages provide, and programs that can be run."""
    asked = sorted(names)
    found = {name for name in asked if shutil.which(name) is not None}
    for argv in _questions(asked):
        done = runner.run(argv, check=False, timeout=60)
        found |= {line.split()[0].partition(":")[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    if shutil.which("rpm"):  # which names the package that provides something, not what was asked for: one by one
        for name in set(asked) - found:
            if runner.run(["rpm", "--query", "--whatprovides", name], check=False, timeout=60).returncode == 0:
                found.add(name)
    return found & set(asked)


def _questions(names: Sequence[str]) -> list[list[str]]:
    """One question to each package manager that is here. Sources: dpkg-query(1), rpm(8)."""
    questions = []
    if shutil.which("dpkg-query"):
        questions.append(["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\\n", *names])
    if shutil.which("rpm"):
        questions.append(["rpm", "--query", "--queryformat", "%{NAME} installed\\n", *names])
    return questions
