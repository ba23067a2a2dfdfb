"""A software that compiles until it is told to go on, and builds of it that are looked at while they do."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.easybuild.workshop import Workshop
from tests.helpers.scenes import processes
from tests.helpers.waiting import wait_for

# Tells that it compiles, and goes on once it may; all by paths, so that the build's user and the tests' can be two.
SLOW = """\
all: toy
toy: toy.c
\t@echo '$(filter -j%,$(MAKEFLAGS))' >SIGNS/NAME; while [ ! -e SIGNS/NAME.go ]; do sleep 0.05; done
\tcc -O2 -o toy toy.c
install: toy
\tmkdir -p $(PREFIX)/bin
\tcp toy $(PREFIX)/bin/
"""


def signs(box: Workshop) -> Path:
    return box.root / "signs"


def slow(box: Workshop, name: str = "toy", **fields: Any) -> None:
    """A software whose compilation waits for `release`."""
    makefile = SLOW.replace("SIGNS", str(signs(box))).replace("NAME", name)
    box.toy(name, files={"Makefile": makefile}, **fields)


def release(box: Workshop, *names: str) -> None:
    for name in names:
        (signs(box) / f"{name}.go").touch()


def wait_until_it_compiles(box: Workshop, name: str = "toy") -> None:
    wait_for((signs(box) / name).exists, what=f"the compilation of {name}")


def compiling(box: Workshop, entry: str = "toy/1.0", *argv: str) -> subprocess.Popen[str]:
    """A build of a locked slow toy that has come to its compiler."""
    process = box.start("build", entry, *argv)
    wait_until_it_compiles(box)
    return process


def pids(box: Workshop, word: str) -> list[int]:
    return [int(p.partition(":")[0]) for p in processes(box) if word in p]


def rows(box: Workshop) -> list[Path]:
    return list(box.prefix.glob("var/jobs/*.json"))


def orphan_a_compiler(box: Workshop) -> int:
    """Start a build of the slow toy, and kill everything of it but its compiler; returns the compiler's shell, which waits for ever."""
    for _ in range(5):  # now and then the shell ends with those around it; what is looked at is one that does not
        (signs(box) / "toy").unlink(missing_ok=True)  # of the build before
        process = compiling(box)
        shells = pids(box, "sh -c echo")
        spared = {*shells, *pids(box, "sleep")}
        others = {*pids(box, "envmgr-guard"), *pids(box, "easybuild.main"), *pids(box, "make"), process.pid} - spared
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        finish_quietly(process)
        wait_for(lambda gone=others: gone.isdisjoint(pids(box, "")), what="the end of all others")  # type: ignore[misc]
        if max(shells) in pids(box, "sh -c"):
            return max(shells)
    pytest.fail("no compiler outlives its build here")


def finish_quietly(process: subprocess.Popen[str]) -> None:
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
