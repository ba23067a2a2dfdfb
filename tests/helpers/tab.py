"""What a shell offers at Tab: the shell itself, at a terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

# One key takes all that is offered into the line, another one prints the line and empties it.
_KEYS = {
    "bash": r"""bind '"\C-t": insert-completions'; bind -x '"\C-o": printf "<<%s>>\n" "$READLINE_LINE"; READLINE_LINE='
""",
    "zsh": r"""zle -C all-matches complete-word _generic; bindkey '^T' all-matches
zstyle ':completion:all-matches:*' insert yes; zstyle ':completion:all-matches::::' completer _all_matches _complete
show() { zle -I; print -r -- "<<$BUFFER>>"; BUFFER= }; zle -N show; bindkey '^O' show
""",
}
_BARE = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}


def offered(
    shell: str,
    lines: str,
    typed: Iterable[str],
    folder: Path,
    env: Mapping[str, str] | None = None,
    begin: Sequence[str] = (),
) -> dict[str, list[str]]:
    """Each line that is typed -> the words that `shell` offers in the place of its last one, after it read `lines`.

    After the words of `begin` it also reads the start-up files of the system.
    """
    start = [*begin, shell, *([] if begin else [_BARE[shell]])]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb", "LC_ALL": "C.UTF-8", **(env or {})}
    if shell == "fish":
        (folder / "lines.fish").write_text(lines)
        return {line: _fish(start, line, folder, environ) for line in typed}
    (folder / "lines").write_text(f"{lines}\n{_KEYS[shell]}PS1='ready> '\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(start[0], [*start, "-i"], environ)
    found = {}
    try:
        os.write(terminal, b" . ./lines\n")
        _until(terminal, "ready> ")
        for line in typed:
            os.write(terminal, f"{line}\x14\x0f".encode())
            before = line.rpartition(" ")[0] + " "
            shown = _until(terminal, r"<<(.*)>>[\s\S]*ready> ")
            assert shown.startswith(before), shown
            words = shown.removeprefix(before).split()
            found[line] = [] if words == line.removeprefix(before).split() else words
    finally:
        os.close(terminal)
        os.kill(pid, signal.SIGKILL)  # one that is busy may not see that its terminal is gone
        os.waitpid(pid, 0)
    return found


def _fish(start: Sequence[str], line: str, folder: Path, environ: Mapping[str, str]) -> list[str]:
    argv = [*start, "-c", "source lines.fish; complete -C $argv[1]", line]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=folder, env=environ, check=True)
    assert done.stderr == ""
    return [each.split("\t")[0] for each in done.stdout.splitlines()]


def _until(terminal: int, wanted: str) -> str:
    text = ""
    while not (found := re.search(wanted, text)):
        text += os.read(terminal, 4096).decode(errors="replace")
    return found[found.re.groups]
