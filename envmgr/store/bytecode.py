"""The bytecode of an install: compiled reproducibly, and checked to be whole. Runs inside a worker; events `compiling`,
`compile`, `compiled`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from envmgr.wording import shortened

_TELL_EVERY = 0.1  # seconds between two progress events

# Run by the install's own Python: the number of processes, the install, its folders; prints `path: reason` for each
# file of bytecode that does not load. It reads no bytecode itself, that of its imports may be cut too; no
# multiprocessing, whose start differs between Pythons and needs /dev/shm.
_PROVE = r"""
import gc, marshal, os, sys
jobs, root = int(sys.argv[1]), sys.argv[2]
end = "." + sys.implementation.cache_tag + ".pyc"
files = [
    os.path.join(place, "__pycache__", name[:-3] + end)
    for folder in sys.argv[3:]
    for place, _, names in os.walk(folder)
    for name in names
    if name.endswith(".py")
]
gc.disable()
for share in range(1, jobs):
    if not os.fork():
        break
else:
    share = 0
for path in files[share::jobs]:
    try:
        with open(path, "rb") as file:
            marshal.loads(file.read()[16:])
    except FileNotFoundError:
        pass
    except (EOFError, ValueError, TypeError) as error:
        os.write(1, os.fsencode(os.path.relpath(path, root) + ": " + str(error) + "\n"))
if not share:
    sys.exit(any([os.wait()[1] for _ in range(1, jobs)]))
"""


def standard_folders(staging: Path) -> list[Path]:
    """Return every folder `lib/python3.X`, with everything in it."""
    return sorted(p for p in (staging / "lib").glob("python3.*") if p.is_dir())


def compile_python(
    staging: Path,
    final: str,
    jobs: int,
    emit: Callable[..., None],
    *,
    folders: Sequence[Path] | None = None,
    tests: bool = True,
) -> None:
    """Byte-compile `folders`, or else every standard library and what is installed into it, reproducibly: no times, one
    hash seed, the final path inside. `emit` gets the events.

    Files that do not compile (templates, Python 2) are normal.

    Raises:
        ChildProcessError: Python itself cannot run, or a file could not be written whole.
    """
    from envmgr.system.run import Runner, clean_env

    python = staging / "bin" / "python"
    folders = standard_folders(staging) if folders is None else folders
    if not python.exists() or not folders:
        return
    left_out = re.compile(rf"{re.escape(str(staging))}/.*/tests/" if not tests else "(?!)")
    paths = (f"{place}/{name}" for folder in folders for place, _, names in os.walk(folder) for name in names)
    emit("compiling", files=sum(path.endswith(".py") and not left_out.search(path) for path in paths))
    # Without -S, Python runs code of `.pth` files and `sitecustomize` as the build's user; -I would drop the hash seed.
    argv: list[str | Path] = [python, "-s", "-S", "-B", "-m", "compileall", "-f", "-j", str(jobs)]
    # unchecked-hash: no times in the files, and no look at the source at each import.
    argv += ["--invalidation-mode", "unchecked-hash", "-s", staging, "-p", final, "-x", left_out.pattern, *folders]
    said: list[str] = []
    done = 0
    told = time.monotonic()

    def on_line(line: str) -> None:
        nonlocal done, told
        if not line.startswith("Compiling "):
            said.append(line)
            return
        done += 1
        if time.monotonic() - told >= _TELL_EVERY:
            told = time.monotonic()
            emit("compile", done=done)

    # Sets in bytecode have the order of their hashes: a fixed seed gives the same bytes each time.
    end = Runner().stream(argv, stdin="", on_line=on_line, env=clean_env(PYTHONHASHSEED="0"), new_group=False)
    text = "\n".join(line for line in said if not line.startswith("Listing ")) + end.stderr
    # 1 means that some file does not compile, which is normal for templates and Python 2.
    if end.returncode not in (0, 1):
        raise ChildProcessError(f"compileall ended with {end.returncode}: {text[-2000:]}")
    if fault := re.search(r"^\W*(OSError: |\w+Error: \[Errno \d+\]).*$", text, re.MULTILINE):
        raise ChildProcessError(f"compileall: {fault[0]}")  # it goes on without the file, as after a syntax error
    prove_whole(python, staging, folders, jobs)
    emit("compiled", log=text[-4000:])


def prove_whole(python: Path, staging: Path, folders: Sequence[Path], jobs: int) -> None:
    """Load what compileall wrote. It counts a file as written even if the disk had room for only a part of it, and
    nothing repairs that: the bytecode of an install is not checked against its source.

    Raises:
        ChildProcessError: some files are cut; it names them below `staging`.
    Source: CPython 3.11, `importlib._bootstrap_external._write_atomic`, which does not look at how much was written.
    """
    from envmgr.system.run import Runner, clean_env

    # pycache_prefix: this Python must not load the bytecode that it is about to prove.
    argv: list[str | Path] = [python, "-I", "-S", "-B", "-X", "pycache_prefix=/dev/null", "-c", _PROVE, str(jobs)]
    end = Runner().run([*argv, staging, *folders], env=clean_env(), check=False, new_group=False)
    if end.returncode:
        raise ChildProcessError(f"the bytecode cannot be checked: exit status {end.returncode}\n{end.stderr[-2000:]}")
    if cut := sorted(end.stdout.splitlines()):
        first, *others = cut
        raise ChildProcessError("\n".join([f"bytecode was not written whole: {first}", *shortened(others, 4)]))
