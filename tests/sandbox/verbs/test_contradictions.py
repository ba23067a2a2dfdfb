"""A lock that contradicts itself or its recipe: `lock`, `lock --check`, `check` and `build` say the same of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.conda.lockfile import LOCK_NAME
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.records import write_channel

ENTRY = "demo/1"
DRIVER = {"nvidia_driver": "525.60.13"}
CUDA = {"__cuda": "12.9"}


@dataclass(frozen=True)
class Case:
    packages: Sequence[Mapping[str, Any]]
    rule: str
    told: str
    specs: Sequence[str] = ()
    virtual: Mapping[str, str] = field(default_factory=lambda: CUDA)
    requires: Mapping[str, str] = field(default_factory=lambda: DRIVER)


BLAS = [
    {"is": "libblas 3.9.0 20_linux64_mkl"},
    {"is": "libcblas 3.9.0 20_linux64_openblas"},
    {"is": "liblapack 3.9.0 20_linux64_mkl"},
]
CASES = {
    "toolkit of another major": Case(
        [{"is": "cuda-version 12.9 h1_3"}, {"is": "cudatoolkit 11.8.0 h2_13"}],
        "cuda-majors",
        "CUDA 11: cudatoolkit 11.8.0; CUDA 12: cuda-version 12.9",
    ),
    "CUDA without a driver": Case(
        [{"is": "cuda-version 12.9 h1_3"}],
        "cuda-driver",
        "requires.nvidia_driver: the lock has CUDA 12.9, which needs a driver >= 525.60.13",
        requires={},
    ),
    "BLAS of two variants": Case(
        BLAS,
        "blas-variants",
        "mkl: libblas 3.9.0 20_linux64_mkl, liblapack 3.9.0 20_linux64_mkl; openblas: libcblas 3.9.0 20_linux64_openblas",
        virtual={},
        requires={},
    ),
}


def write(sandbox: Sandbox, case: Case, **more: Any) -> Path:
    folder = write_channel(sandbox.root / "records", case.packages)
    specs = [*case.specs, *(str(each["is"]).split()[0] for each in case.packages)]
    sandbox.mirror = str(folder)
    sandbox.write_site()
    wanted = {"channels": ["standin"], "specs": specs, "virtual_packages": dict(case.virtual)}
    return sandbox.recipe(ENTRY, [], input=wanted, requires=dict(case.requires), **more)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_all_verbs_say_the_same_of_a_contradiction(sandbox: Sandbox, case: Case) -> None:
    folder = write(sandbox, case)
    told = f"{case.rule}: {case.told}"
    first = sandbox.run("lock", ENTRY)
    assert (first.code, told in first.stderr, (folder / LOCK_NAME).exists()) == (2, True, False), first.stderr
    assert "error[lock-contradicts]: the lock of demo/1 contradicts itself, or its recipe\n" in first.stderr

    write(sandbox, case, accept={case.rule: "as a test"})
    accepted = sandbox.ok("lock", ENTRY)
    assert f"accepted by the recipe: {told} (as a test)" in accepted.stdout
    assert f"accepted by the recipe: {told}" in sandbox.ok("lock", "--check", ENTRY).stdout
    sandbox.ok("build", ENTRY, "--dry-run")
    sandbox.ok("check", ENTRY)
    lock = (folder / LOCK_NAME).read_bytes()

    write(sandbox, case)  # the same input: its lock is not stale
    checked = sandbox.run("lock", "--check", ENTRY)
    assert checked.code == 1
    assert f"demo/1: faulty  {len(case.packages)} package" in checked.stdout
    assert told in checked.stdout
    found = sandbox.run("check", ENTRY)
    assert (found.code, told in found.stdout) == (1, True), found.stdout
    for verb in (
        ("lock", ENTRY),
        ("build", ENTRY),
        ("build", ENTRY, "--dry-run"),
        ("fetch", ENTRY),
        ("publish", ENTRY),
    ):
        done = sandbox.run(*verb)
        assert (done.code, told in done.stderr) == (2, True), (verb, done.stderr)
    assert told in sandbox.ok("list", ENTRY).stdout
    assert (folder / LOCK_NAME).read_bytes() == lock
    assert not sandbox.prefix.exists()


def test_what_is_accepted_for_nothing_is_told(sandbox: Sandbox) -> None:
    case = Case([{"is": "zlib 1.3 h1_0"}], "", "", virtual={}, requires={})
    write(sandbox, case, accept={"cuda-majors": "once"})
    assert "accept.cuda-majors: there is no such fault" in sandbox.ok("lock", ENTRY).stdout
    found = sandbox.ok("check", ENTRY)
    assert "accept.cuda-majors: its lock has no such fault" in found.stdout


@pytest.mark.parametrize(
    ("accept", "told"),
    [({"cuda": "why"}, "there is no rule `cuda`"), ({"cuda-majors": " "}, "`cuda-majors` needs a reason")],
)
def test_rule_that_is_not_there_and_reason_that_is_none(sandbox: Sandbox, accept: dict[str, str], told: str) -> None:
    write(sandbox, CASES["toolkit of another major"], accept=accept)
    done = sandbox.run("lock", ENTRY)
    assert (done.code, told in done.stderr) == (2, True), done.stderr


def test_cuda_that_is_asked_for_and_not_there_is_a_note(sandbox: Sandbox) -> None:
    write(sandbox, Case([{"is": "pytorch 2.1.0 cpu_py310_0"}], "", "", requires={}))
    told = "the recipe says `__cuda` 12.9, and no package of the lock is known to be for CUDA: it runs on the CPU"
    assert told in sandbox.ok("lock", ENTRY).stdout
    assert told in sandbox.ok("lock", "--check", ENTRY).stdout
