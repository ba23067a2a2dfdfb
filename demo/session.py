"""What the demo is made of: commands shown as they are typed, with their real output, and login shells kept open."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TIMEOUT = 1200.0  # seconds for one command: it hangs


class DemoError(Exception):
    """An expectation that did not hold, with what was seen."""


@contextmanager
def watched(kill: Callable[[], None]) -> Iterator[None]:
    """Run what may hang: `kill` is called when it takes longer than TIMEOUT."""
    watch = threading.Timer(TIMEOUT, kill)
    watch.daemon = True  # a demo that is stopped while this starts does not wait for it
    try:
        watch.start()
        yield
    finally:
        watch.cancel()


class Told:
    """What a demo says beside its commands. Each expectation that holds is counted."""

    def __init__(self) -> None:
        self.checks = 0

    def title(self, text: str) -> None:
        print(f"\n=== {text}", flush=True)

    def note(self, text: str) -> None:
        print(f"\n# {text}", flush=True)

    def expect(self, holds: bool, text: str) -> None:
        if not holds:
            raise DemoError(f"this does not hold: {text}")
        self.checks += 1
        print(f"ok: {text}", flush=True)


class LoginShell:
    """A `bash -l` that stays open, as a user's terminal does; `process` has its stderr on its stdout."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self._name = name
        self._process = process

    def type(self, command: str) -> str:
        """Run a command in the shell and show it; DemoError when it fails. Returns its output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(f"\n[{self._name}]$ {command}", flush=True)
        mark = secrets.token_hex(8)
        lines, status = [], ""
        with watched(self._process.kill):
            self._process.stdin.write(f"{command}\nprintf '\\n{mark} %s\\n' $?\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                if line.startswith(mark):
                    status = line.split()[1]
                    break
                lines.append(line)
        said = "".join(lines).strip("\n")
        if said:
            print(said, flush=True)
        if status != "0":
            raise DemoError(f"`{command}` in a login shell: {f'exit status {status}' if status else 'the shell ended'}")
        return said

    def close(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()


class Session(Told):
    """The administrator's side, in a throw-away folder that is also the home of its users."""

    def __init__(self, work: Path) -> None:
        super().__init__()
        self.work = work
        self._bin = Path(sys.executable).parent
        self._shells: list[LoginShell] = []
        (work / "home").mkdir()
        line = f'eval "$({self._bin / "envmgr"} shell-init --site {work}/site)"\n'
        (work / "home" / ".bash_profile").write_text(line, encoding="utf-8")

    def envmgr(self, *words: str, status: int = 0) -> str:
        """Run `envmgr WORDS…` as the administrator; DemoError for another exit status than `status`."""
        home = {"HOME": str(self.work / "home"), "XDG_DATA_HOME": str(self.work / "home" / "data")}
        site = {} if words[0] == "init" else {"ENVMGR_SITE": str(self.work / "site")}
        way = {
            key: value for key, value in os.environ.items() if re.fullmatch(r"(?i:\w+_proxy)|SSL_CERT_(FILE|DIR)", key)
        }
        env = {"PATH": f"{self._bin}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", **way, **home, **site}
        shown = " ".join(("envmgr", *words)).replace(f"{self.work}/", "")
        return self.type([str(self._bin / "envmgr"), *words], shown=shown, env=env, status=status)

    def type(
        self,
        command: Sequence[str],
        *,
        shown: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        status: int = 0,
    ) -> str:
        """Run a command and show it with its output; the throw-away folder is left out of what is shown."""
        print(f"\n[admin]$ {shown or ' '.join(command)}", flush=True)
        done = subprocess.run(
            command,
            cwd=cwd or self.work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        said = done.stdout.strip("\n")
        if said:
            print(said, flush=True)
        if done.returncode != status:
            raise DemoError(f"`{shown or command[0]}`: exit status {done.returncode}, expected {status}")
        return said

    def write(self, name: str, text: str, *, append: bool = False) -> Path:
        """Write or extend a file of the throw-away folder, and show what was written."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"\n[admin]$ cat {'>>' if append else '>'} {name}\n{text.strip()}", flush=True)
        with path.open("a" if append else "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def login(self, name: str) -> LoginShell:
        """Open a login shell, which stays open until the demo's end."""
        print(f"\n[{name}] logs in: a fresh `bash -l`", flush=True)
        home = self.work / "home"
        process = subprocess.Popen(
            ["bash", "-l"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # What a login starts with: nothing.
            env={"HOME": str(home), "USER": name, "TERM": "dumb", "LC_ALL": "C.UTF-8"},
            cwd=home,
            text=True,
        )
        self._shells.append(LoginShell(name, process))
        return self._shells[-1]

    def close(self) -> None:
        for shell in self._shells:
            shell.close()


def paths(prefix: Path) -> Iterator[str]:
    """What a reader wants to see of a prefix: neither the inside of installs nor that of caches."""
    shown = ("current", "store/*/*", "generations/*/*", "generations/*/modules/*/*", "cache/*", "var/*")
    for path in sorted(p for pattern in shown for p in prefix.glob(pattern)):
        arrow = f" -> {path.readlink()}" if path.is_symlink() else "/" if path.is_dir() else ""
        yield f"{path.relative_to(prefix.parent)}{arrow}"
