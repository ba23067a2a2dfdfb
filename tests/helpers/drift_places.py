"""Where a drift can be put, as a node shows it: what strace sees a login, an ssh command, a job and programs open, and /etc, /usr/local, /opt.

It runs on the node itself: `python -m tests.helpers.drift_places` prints it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.helpers.cluster import Cluster
from tests.helpers.places import ROOT
from tests.helpers.user_actions import BASH, CSH, USER

_CALL = re.compile(r'(\d+)<(\S+)> (\w+)\((?:AT_FDCWD, |\d+, )?"(/[^"]+)"')
_SHELLS = {"bash", "sh", "dash", "tcsh", "csh"}
_WALKED = ("/etc", "/usr/local", "/opt", "/root", f"/home/{USER}", "/usr/bin")
_DEEP, _LARGE = 4, 1 << 16  # folders, bytes
# The kernel's and services' own, what a node wrote, and what the test cluster itself is made of.
_SKIPPED = re.compile(
    rf"/(proc|sys|run|mnt|dev(?!/shm))(/|$)|{ROOT}|{sys.base_prefix}|.*\.ssh/id_|/usr/local/sbin/|/etc/cluster-share"
)
# A node without one of these is no node.
_TOP = re.compile(
    r"/(usr|etc|bin|sbin|lib\w*|var|root|cluster)?|/usr/(bin|sbin|lib\w*|share)|/(usr/)?lib/x86_64-linux-gnu"
)


@dataclass(frozen=True)
class Places:
    """`opened` are files that were; `start_up` those that only shells read, `csh` only csh. Users write in `open` folders.

    `texts` has lines, `links` where each leads, `mounts` options; `passed` are the links that were. `rows` are Slurm's of one node and partition.
    """

    opened: list[str]
    files: list[str]
    start_up: list[str]
    csh: list[str]
    programs: list[str]
    folders: list[str]
    entered: list[str]
    open: list[str]
    modules: list[str]
    texts: dict[str, list[str]]
    links: dict[str, str]
    passed: list[str]
    mounts: dict[str, str]
    variables: list[str]
    asked: list[str]
    sshd: list[str]
    limits: list[str]
    rows: dict[str, dict[str, str]]


def find(cluster: Cluster) -> Places:
    """On the first compute node: all are alike while they are healthy."""
    argv = [sys.executable, "-m", __name__]
    done = cluster.exec(cluster.compute[0], argv, env={"PYTHONPATH": str(ROOT)}, timeout=240, check=True)
    return Places(**json.loads(done.stdout))


def _look() -> Places:
    by, started = _traced()
    walked = {path for top in _WALKED for path in _below(top)}
    used = {os.path.realpath(path) for path in by}
    files = {
        path: text
        for path in _real({*by, *walked})
        if not path.startswith("/var/") and (text := _text(path)) is not None
    }
    only = {path: by[path] for path in files if files[path] and by.get(path) and by[path] <= _SHELLS}
    start_up = [path for path in only if path.startswith(("/etc/", "/home/", "/root/"))]
    passed = {link for path in by for link in _links(path)}
    links = {*passed, *(link for path in walked for link in _links(path))}
    entered = {folder for path in by for folder in _parents(path)}
    folders = {*entered, *(folder for path in walked for folder in _parents(path))}
    shell = ["su", "-l", USER, "-c"]
    modules = _out(*shell, "for d in ${MODULEPATH//:/ }; do find $d -type f ! -name '.*'; done").split()
    mounts = [line.split() for line in _out("cat", "/proc/self/mountinfo").splitlines()]
    owner = Path(f"/home/{USER}").stat().st_uid
    return Places(
        opened=[path for path in files if path in used and path not in start_up],
        files=[path for path in files if path not in start_up],
        start_up=start_up,
        csh=[path for path in start_up if only[path] <= {"tcsh", "csh"}],
        programs=[path for path in files if os.access(path, os.X_OK) and "/lib" not in path],
        folders=sorted(folders),
        entered=sorted(entered),
        open=sorted(f for f in folders if (at := Path(f).stat()).st_uid == owner or at.st_mode & 0o2),
        modules=modules,
        texts={path: lines for path, lines in files.items() if lines} | {path: _text(path) or [] for path in modules},
        links={link: os.path.normpath(Path(link).parent / Path(link).readlink()) for link in sorted(links)},
        passed=sorted(passed),
        mounts={fields[4]: fields[5] for fields in mounts if len(fields[4]) > 1 and not _SKIPPED.match(fields[4])},
        variables=re.findall(r"(?m)^([A-Z]\w+)=", _out(*shell, "env")),
        asked=sorted({*_asked_for(started)}),
        sshd=_out("/usr/sbin/sshd", "-T").splitlines(),
        limits=_out("prlimit", "--noheadings", "-o", "RESOURCE").lower().split(),
        rows={what: _row(what, name) for what, name in (("node", os.uname().nodename), ("partition", ""))},
    )


def _row(what: str, name: str) -> dict[str, str]:
    words = _out("scontrol", "show", "-o", what, *([name] if name else [])).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def _real(paths: set[str]) -> list[str]:
    return [path for path in sorted({*map(os.path.realpath, paths)}) if not _SKIPPED.match(path)]


def _traced() -> tuple[dict[str, set[str]], set[str]]:
    """Path -> the programs that opened it, maybe none; and what was started."""
    at = Path("/mnt/traced")
    strace = ["strace", "-f", "-qq", "-z", "-Y", "-A", "-e", "trace=%file", "-o", str(at)]
    daemons = [["-p", pid] for pid in _out("pidof", "sshd", "slurmd").split()]
    tracer = subprocess.Popen([*strace, *(word for each in daemons for word in each)])
    while "TracerPid:\t0" in Path(f"/proc/{daemons[-1][1]}/status").read_text():
        time.sleep(0.1)
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "env", f"HOME=/home/{USER}"]
    _out(*become, "ssh", os.uname().nodename, BASH)
    _out("ssh", os.uname().nodename, "true")
    _out("ssh", "login", f"su -l {USER} -c 'srun -w {os.uname().nodename} bash -lc \"module load hello; python -c 1\"'")
    tracer.terminate()
    tracer.wait()
    _out(*strace, "su", "-l", USER, "-c", BASH)
    _out(*strace, "su", "-l", USER, "-s", "/usr/bin/tcsh", "-c", CSH)
    text = at.read_text(errors="replace")
    at.unlink()
    by: dict[str, set[str]] = {}
    started: set[str] = set()
    runs: dict[str, str] = {}  # strace goes on with the name of a process that it is attached to
    for pid, program, call, opened in (found.groups() for line in text.splitlines() if (found := _CALL.match(line))):
        path = os.path.normpath(opened)
        if call == "execve":
            runs[pid] = Path(path).name
            started.add(path)
        if not _SKIPPED.match(path):
            by.setdefault(path, set()).update({runs.get(pid, program)} if call == "openat" else ())
    return by, started


def _below(top: str) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        if folder.count("/") - top.count("/") >= _DEEP:
            folders.clear()
        yield from (path for name in (*folders, *files) if not _SKIPPED.match(path := f"{folder}/{name}"))


def _text(path: str) -> list[str] | None:
    """The lines of a file; none of a binary or a large one; None of what is no file."""
    file = Path(path)
    if not file.is_file():
        return None
    data = file.read_bytes() if file.stat().st_size < _LARGE else b"\0"
    return [] if b"\0" in data else data.decode(errors="replace").splitlines()


def _links(path: str) -> Iterator[str]:
    """Those on the way to a path, by the folders in which they are."""
    way = [Path(path), *Path(path).parents]
    yield from (
        link for at in way if at.is_symlink() and not _TOP.fullmatch(link := str(at)) and not _SKIPPED.match(link)
    )


def _parents(path: str) -> Iterator[str]:
    real = Path(os.path.realpath(path))
    folders = map(str, (real, *real.parents) if real.is_dir() else real.parents)
    yield from (folder for folder in folders if not _SKIPPED.match(folder) and not _TOP.fullmatch(folder))


def _asked_for(programs: set[str]) -> Iterator[str]:
    """Names that look like variables of the environment, in the programs that were started."""
    for program in programs:
        yield from re.findall(r"\0([A-Z][A-Z_]{3,}[A-Z])(?=\0)", Path(program).read_bytes().decode("latin-1"))


def _out(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False, timeout=120).stdout


if __name__ == "__main__":
    print(json.dumps(asdict(_look())))
