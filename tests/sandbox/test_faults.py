"""Faults at the calls that change files, in envmgr and its children: by chance, and each that was found once."""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.helpers.faults.plots import MUTATING, PLOTS
from tests.helpers.faults.rounds import FAULTS, Stage, by_chance, calls_of, play
from tests.helpers.faults.shim import FROM_HERE, KILL_CALLER, KILL_FIRST, ONCE, SPACE, Fault, Scene
from tests.helpers.faults.table import read_rows
from tests.helpers.programs import program
from tests.helpers.standin.channel import Channel

ROUNDS, PARTS = 20, 4
VERBS = [verb for verb, plot in PLOTS.items() if not plot.easybuild]
"""The build user of an EasyBuild build does not reach pytest's folders: `make soak SOAK=faults` has its rounds."""
SEED = int(os.environ.get("FAULT_SEED") or random.SystemRandom().randrange(10**6))


@pytest.fixture(autouse=True, scope="module")
def _compiler() -> None:
    program("cc")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("faults")
    made = Stage(folder / "stage", str(channel.folder), folder / "local")
    yield made
    made.clear()


# Rounds


@pytest.mark.parametrize("part", range(PARTS))
def test_faults_by_chance_break_nothing_and_leave_nothing(stage: Stage, part: int) -> None:
    """Another seed each time: it is told, and `FAULT_SEED` plays its rounds again."""
    print(f"FAULT_SEED={SEED}")
    outcomes = list(islice(by_chance(stage, random.Random(f"{SEED}/{part}"), VERBS), ROUNDS // PARTS))
    bad = [outcome for outcome in outcomes if outcome.bad]
    assert not bad, f"FAULT_SEED={SEED}\n" + "\n".join(map(str, bad))
    assert any(outcome.call for outcome in outcomes)


# What was found once: the verb, the fault, the call that it met.
FOUND = [
    ("init", "no space, once", "mkdir .*/made/easyconfigs"),
    ("init", "envmgr killed", r"rename .*/made/site\.yaml"),
    ("copy", "envmgr killed", r"(rename .*/recipes/python/3\.12|unlinkat .*/\.copy-)"),
    ("export", "envmgr killed", r"rename .*/exported\.py"),
    ("job", "read-only", r"fsync .*/\.job\.sh"),
    ("lock", "envmgr killed", r"rename .*/conda-lock\.yml"),
    ("lock", "envmgr killed", r"(rmdir|unlinkat) .*/tmp/envmgr-run-"),
    ("node-setup", "envmgr killed", "rename .*/files/README"),
    ("build", "envmgr killed", r"rename .*/var/jobs/holds/"),
    ("publish", "envmgr killed", r"(rmdir|unlinkat) .*/tmp/envmgr-run-lmod-"),
    ("build --again", "read-only", r"unlink .*/var/jobs/holds/"),
    ("user delete", "I/O error, once", r"unlink .*/var/lock/\.\.holds\.lock\.holder\..*\.tmp"),
]


@pytest.mark.parametrize(("verb", "fault", "call"), FOUND)
def test_fault_that_was_found_once(stage: Stage, verb: str, fault: str, call: str) -> None:
    calls = calls_of(stage, verb)
    met = [n for n, each in enumerate(calls, 1) if re.match(call, f"{each.name} {each.path}")]
    assert met, "\n".join(map(str, calls))
    outcome = play(stage, verb, fault, met[0])
    assert outcome.call
    assert not outcome.bad, str(outcome)


def test_every_verb_that_changes_something_meets_faults_and_has_its_rows() -> None:
    """`make soak SOAK=faults` writes them; each says that nothing was found."""
    assert set(PLOTS) >= set(MUTATING)
    rows = read_rows()
    assert {row.verb for row in rows} >= set(PLOTS)
    assert max(row.faults for row in rows) == len(FAULTS)
    assert [row for row in rows if row.rounds < 1 or row.broken or row.tracebacks or row.left] == []


# The shim itself


def scene_of(tmp_path: Path, fault: Fault | None = None) -> Scene:
    (tmp_path / "root").mkdir(exist_ok=True)
    return Scene.make(tmp_path / "scene", [tmp_path / "root"], fault)


def run(scene: Scene, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={"PATH": os.environ["PATH"], **environ, **scene.environ()},
        capture_output=True,
        text=True,
        check=False,
    )


def names(scene: Scene) -> list[str]:
    return [call.name for call in scene.calls()]


def test_shim_sees_python_shells_and_lua_and_what_they_start(tmp_path: Path) -> None:
    scene, root = scene_of(tmp_path), tmp_path / "root"
    python = f"import os, subprocess; open({str(root / 'a')!r}, 'w').write('x'); subprocess.run(['mkdir', {str(root / 'b')!r}], env={{}})"
    run(scene, sys.executable, "-c", python)
    assert names(scene) == ["open", "write", "close", "mkdir"]
    scene = scene_of(tmp_path)
    run(scene, "bash", "-c", f"cd {root}; env -i bash -c 'echo x >c; mv c d; chmod 700 d; rm d'")
    assert names(scene)[0] == "open"
    assert [call.program for call in scene.calls()][-3:] == ["mv", "chmod", "rm"]
    scene = scene_of(tmp_path)
    text = f"local f = io.open('{root}/e', 'w'); f:write('x'); f:close(); os.rename('{root}/e', '{root}/f'); os.execute('rm {root}/f')"
    run(scene, program("lua5.3", "lua"), "-e", text)
    assert names(scene) == ["fopen", "fclose", "rename", "unlinkat"]


def test_shim_passes_over_what_only_reads_and_what_lies_elsewhere(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    (tmp_path / "root/file").write_text("x")
    run(
        scene,
        "bash",
        "-c",
        f"cat {tmp_path}/root/file; echo y >{tmp_path}/other; echo z >/dev/null; ls {tmp_path}/root",
    )
    assert scene.count() == 0


def test_shim_is_in_no_environment_that_a_program_sees(tmp_path: Path) -> None:
    scene = scene_of(tmp_path)
    assert run(scene, "env", A="1").stdout == f"PATH={os.environ['PATH']}\nA=1\n"
    assert "FAULT" not in run(scene, "bash", "-c", "export; python3 -c 'import os; print(os.environ)'; env").stdout


def test_shim_fails_the_call_that_it_is_told_and_those_that_follow(tmp_path: Path) -> None:
    root = tmp_path / "root"
    script = f"cd {root}; for n in 1 2 3; do mkdir $n; done; rmdir 1"
    scene = scene_of(tmp_path, Fault(2, ONCE, SPACE, errno.ENOSPC))
    done = run(scene, "bash", "-c", script, LC_ALL="C")
    assert (done.stderr, scene.hits()) == ("mkdir: cannot create directory '2': No space left on device\n", 1)
    assert sorted(path.name for path in root.iterdir()) == ["3"]
    scene = scene_of(tmp_path, Fault(2, FROM_HERE, SPACE, errno.EDQUOT))
    run(scene, "bash", "-c", f"rmdir {root}/3; {script}")
    assert list(root.iterdir()) == []  # what needs no space goes well
    assert [call.hit for call in scene.calls()] == [False, True, True, True, False]


@pytest.mark.parametrize("how", [KILL_CALLER, KILL_FIRST])
def test_shim_kills_the_caller_or_the_first(tmp_path: Path, how: int) -> None:
    scene = scene_of(tmp_path, Fault(1, how))
    done = run(scene, "bash", "-c", f"mkdir {tmp_path}/root/a; echo $?")
    expected = (0, "137\n") if how == KILL_CALLER else (-signal.SIGKILL, "")
    assert (done.returncode, done.stdout) == expected
