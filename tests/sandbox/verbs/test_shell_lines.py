"""`envmgr shell-init`, in the form that its help and the documentation give for each shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.waiting import DEADLINE


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.ok("lock", "hello/1.0")
    sandbox.ok("build", "hello/1.0")
    return sandbox


def typed(box: Sandbox, shell: str, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A person types this into a shell, which finds `envmgr` on PATH."""
    folder = box.root / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "envmgr"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m envmgr "$@"\n')
    program.chmod(0o755)
    (box.root / "script").write_text(script)
    quiet = {"bash": ["--norc"], "zsh": ["-f"], "tcsh": ["-f"], "fish": ["--no-config"]}[shell]
    return subprocess.run(
        [shell, *quiet, str(box.root / "script")],
        env={
            "PATH": f"{folder}:/usr/bin:/bin",
            "HOME": str(box.root),
            "ENVMGR_SITE": str(box.root / "site.yaml"),
            **env,
        },
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


LINES = {
    "bash": 'eval "$(envmgr shell-init bash)"',
    "zsh": 'eval "$(envmgr shell-init zsh)"',
    "fish": "envmgr shell-init fish | source",
    "tcsh": "envmgr shell-init tcsh > $HOME/.envmgr.csh\nsource $HOME/.envmgr.csh",
}


@pytest.mark.parametrize("shell", LINES)
def test_line_of_each_shell_gives_it_the_modules(box: Sandbox, shell: str) -> None:
    done = typed(
        box, shell, f"{LINES[shell]}\nmodule load hello/1.0\nhello-prefix\necho generation $ENVMGR_GENERATION\n"
    )
    assert "generation 1" in done.stdout, done.stderr
    assert str(box.prefix) in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("shell", LINES)
def test_line_that_is_read_twice_changes_nothing_more(box: Sandbox, shell: str) -> None:
    names = ("MODULEPATH", "JUPYTER_PATH", "LMOD_PACKAGE_PATH", "LMOD_SITEPACKAGE_PREPEND", "LMOD_RC")
    show = "".join(f'echo "{name}=${name}"\n' for name in names)
    old = box.prefix / "generations/0099"
    done = typed(box, shell, f"{LINES[shell]}\n{show}{LINES[shell]}\n{show}", JUPYTER_PATH=f"/mine:{old}:/more")
    lines = done.stdout.splitlines()
    assert lines[:5] == lines[5:]
    assert lines[1] == f"JUPYTER_PATH=/mine:/more:{box.prefix}/generations/0001"
    assert f"MODULEPATH={box.prefix}/generations/0001/modules" in lines[0]


def test_fish_leaves_an_older_generation_that_it_inherited(box: Sandbox) -> None:
    old = box.prefix / "generations/0099/modules"
    done = typed(
        box,
        "fish",
        f'{LINES["fish"]}\necho "$MODULEPATH"\n',
        MODULEPATH=f"/elsewhere:{old}",
        ENVMGR_PIN=str(old.parent),
    )
    assert done.stdout.splitlines()[-1].split(":") == [f"{box.prefix}/generations/0001/modules", "/elsewhere"]


@pytest.mark.parametrize("shell", ["csh", "tcsh"])
def test_eval_of_csh_says_what_works(box: Sandbox, shell: str) -> None:
    """It joined the lines to one, whose first word begins a comment: nothing happened, and nobody said so."""
    done = typed(box, "tcsh", f'eval "`envmgr shell-init {shell}`"\n')
    assert done.stderr == (
        f"error[eval-of-csh]: {shell} joins the lines of a command to one, and cannot read them so\n\n"
        f"hint: `envmgr shell-init {shell} > ~/.envmgr.csh`; then, in ~/.cshrc, or in ~/.tcshrc if you have one: "
        "`source ~/.envmgr.csh`\n"
    )


def test_module_that_came_with_a_later_generation_is_explained(box: Sandbox) -> None:
    """Lmod proposed another spelling, and to leave its cache out."""
    box.recipe("later/2.0", ["hello-prefix"])
    box.ok("lock", "later/2.0")
    box.ok("build", "later/2.0")
    old = f"{box.prefix}/generations/0001"
    said = "this shell uses generation 1; {} came with generation 2: log in again, or submit the job again"
    for name in ("later/2.0", "later"):
        done = typed(box, "bash", f"{LINES['bash']}\nmodule load {name}; echo status $?\n", ENVMGR_PIN=old)
        assert done.stdout == "status 1\n"
        assert said.format(name) in " ".join(done.stderr.split())
        assert "ignore_cache" not in done.stderr


@pytest.mark.parametrize("name", ["nowhere/1.0", "hello/9", "../generations/0001/modules/hello/1.0"])
def test_module_that_is_nowhere_has_lmods_own_message(box: Sandbox, name: str) -> None:
    box.recipe("later/2.0", ["hello-prefix"])
    box.ok("lock", "later/2.0")
    box.ok("build", "later/2.0")
    for pin in (f"{box.prefix}/generations/0001", ""):
        done = typed(box, "bash", f"{LINES['bash']}\nmodule load {name}\n", ENVMGR_PIN=pin)
        assert "Lmod has detected the following error" in done.stderr
        assert "generation 2" not in done.stderr


def test_module_of_the_own_generation_did_not_come_later(box: Sandbox) -> None:
    """A shell that took the folder out of its MODULEPATH."""
    box.recipe("later/2.0", ["hello-prefix"])
    box.ok("lock", "later/2.0")
    box.ok("build", "later/2.0")
    text = f'{LINES["bash"]}\nmodule unuse "$MODULEPATH"\nmodule load hello/1.0\n'
    done = typed(box, "bash", text, ENVMGR_PIN=f"{box.prefix}/generations/0001")
    assert "Lmod has detected the following error" in done.stderr
    assert "generation" not in done.stderr
