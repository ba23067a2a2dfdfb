"""The bytecode of an install, compiled reproducibly. Runs inside a worker; events `compiling`, `compile`, `compiled`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from envmgr.wording import shortened

_TELL_EVERY = 0.1  # seconds between two progress events

# Run by the install's own Python: the number of processes, the install, its final path, what is left out, its folders. It prints a
# line for each file: `.`, or `path: reason` if it does not compile, or `! path: reason` if it was not written.
# compileall would take two thirds more time: it collects garbage of which there is none. And it takes a file for written of which the
# disk had room for only a part. The modules of the first line are those that it loads: a constant that one of them has too is
# marked in the bytecode, and so are the same bytes made as by compileall with several processes, for any number of them.
# No multiprocessing, whose start differs between Pythons and needs /dev/shm. Source: PEP 552 (the head of the file).
_COMPILE = r"""
import sys
del sys.path[0]  # the working folder
import argparse, compileall, concurrent.futures.process, runpy
import gc, importlib.util, marshal, os, re
jobs, root, final, left_out = int(sys.argv[1]), sys.argv[2], sys.argv[3], re.compile(sys.argv[4])
head = importlib.util.MAGIC_NUMBER + b"\1\0\0\0"
files = sorted(
    (os.path.getsize(path), path)
    for folder in sys.argv[5:]
    for place, _, names in os.walk(folder)
    for path in (os.path.join(place, name) for name in names if name.endswith(".py"))
    if os.path.isfile(path) and not left_out.search(path)
)
gc.disable()
for share in range(1, jobs):
    if not os.fork():
        break
else:
    share = 0
def say(text):
    os.write(1, os.fsencode(text) + b"\n")
for _, path in files[::-1][share::jobs]:
    target = importlib.util.cache_from_source(path)
    name = path[len(root) + 1 :]
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o666 | 0o200
            source = file.read()
        try:
            known = os.path.join(final, name)  # held until it is written, as compileall does: that is marked, too
            code = compile(source, known, "exec", dont_inherit=True)
        except Exception as error:
            say("%s: %s: %s" % (name, type(error).__name__, error))
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        place = os.open(target + "~", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(place, "wb") as file:
            file.write(head + importlib.util.source_hash(source) + marshal.dumps(code))
        os.replace(target + "~", target)
    except OSError as error:
        say("! %s: %s" % (name, error.strerror))
        continue
    say(".")
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
        ChildProcessError: Python itself cannot run, or files could not be written; it names them below `staging`.
    """
    from envmgr.system.run import Runner, clean_env

    python = staging / "bin" / "python"
    folders = standard_folders(staging) if folders is None else folders
    if not python.exists() or not folders:
        return
    left_out = rf"{re.escape(str(staging))}/.*/tests/" if not tests else "(?!)"
    emit("compiling", files=_count(folders, re.compile(left_out)))
    # Without -S, Python runs code of `.pth` files and `sitecustomize` as the build's user; -I would drop the hash seed.
    argv: list[str | Path] = [python, "-s", "-S", "-B", "-W", "ignore", "-c", _COMPILE, str(jobs), staging, final]
    failed: list[str] = []
    done = 0
    told = time.monotonic()

    def on_line(line: str) -> None:
        nonlocal done, told
        done += 1
        if line != ".":
            failed.append(line)
        if time.monotonic() - told >= _TELL_EVERY:
            told = time.monotonic()
            emit("compile", done=done)

    # Sets in bytecode have the order of their hashes: a fixed seed gives the same bytes each time.
    end = Runner().stream(
        [*argv, left_out, *folders], stdin="", on_line=on_line, env=clean_env(PYTHONHASHSEED="0"), new_group=False
    )
    if end.returncode:
        raise ChildProcessError(f"bytecode was not compiled: exit status {end.returncode}\n{end.stderr[-2000:]}")
    if cut := sorted(line[2:] for line in failed if line.startswith("! ")):
        first, *others = cut
        raise ChildProcessError("\n".join([f"bytecode was not written: {first}", *shortened(others, 4)]))
    emit("compiled", log="\n".join(failed)[-4000:])


def _count(folders: Sequence[Path], left_out: re.Pattern[str]) -> int:
    paths = (f"{place}/{name}" for folder in folders for place, _, names in os.walk(folder) for name in names)
    return sum(path.endswith(".py") and not left_out.search(path) for path in paths)
