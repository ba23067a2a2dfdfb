"""Completion as shells do it: bash, zsh and fish themselves are asked."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from envmgr.cli.app import app
from envmgr.cli.completion import verb_words
from envmgr.commands.completion import completion_lines
from envmgr.errors import InputError
from envmgr.store.prefix import Prefix


def lines(tmp_path: Path, shell: str) -> str:
    for name in ("pydata/1.0", "pydata/2.0", "hello/1.0"):
        (tmp_path / "it's/current/modules" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"it's/current/modules/{name}.lua").touch()
    ctx = SimpleNamespace(prefix=Prefix(tmp_path / "it's"))
    return completion_lines(ctx, shell, [*verb_words(typer.main.get_command(app))]).text  # type: ignore[arg-type]


def offered(tmp_path: Path, shell: str, *words: str) -> list[str]:
    text = lines(tmp_path, shell)
    if shell == "fish":
        script = f"{text}\ncomplete -C 'envmgr {' '.join(words)}'\n"
    else:
        array = " ".join(f"'{word}'" for word in ("envmgr", *words))
        head = "autoload -U +X compinit && compinit -u -D\n" if shell == "zsh" else ""
        zero = "setopt ksharrays\n" if shell == "zsh" else ""
        script = f"{head}{text}\n{zero}COMP_WORDS=({array}); COMP_CWORD={len(words)}; _envmgr; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"  # fmt: skip
    done = subprocess.run([shell, *(["--norc"] if shell == "bash" else [])], input=script, capture_output=True, text=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, check=False)  # fmt: skip
    assert done.stderr == ""
    words_offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
    return [word for word in words_offered if word.startswith(words[-1])]  # zsh's own completion filters


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_verbs_options_and_entries_are_offered(tmp_path: Path, shell: str) -> None:
    assert offered(tmp_path, shell, "rol") == ["rollback"]
    assert {"create", "list"} <= {*offered(tmp_path, shell, "user", "")}
    assert "--verbose" in offered(tmp_path, shell, "audit", "--ver")
    assert offered(tmp_path, shell, "job", "pyd") == ["pydata/1.0", "pydata/2.0"]
    assert "--from-lock" in offered(tmp_path, shell, "user", "create", "--fr")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_name_of_a_file_is_offered_and_never_run(tmp_path: Path, shell: str) -> None:
    folder = tmp_path / "it's/current/modules/pydata"
    folder.mkdir(parents=True)
    for name in ("$(touch ran)", "`touch ran`", "a b", "${IFS}"):
        (folder / f"{name}.lua").touch()
    assert offered(tmp_path, shell, "job", "pyd") == ["pydata/1.0", "pydata/2.0"]
    assert not (tmp_path / "ran").exists()


def test_another_shell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no lines for the shell `csh`"):
        lines(tmp_path, "csh")
