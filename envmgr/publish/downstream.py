"""The downstreams of a site: other prefixes that use installs of this one, which `gc` keeps for them.

Their owners are other users, and root reads their files. Folders and files are opened by descriptors, from folder to
folder, and through no link below the prefix; only regular files are read, up to a size. Nothing is taken from them but
paths of this prefix's own installs, so the worst that such a file can do is to keep an install.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envmgr.system.run import run_detached

_RECORDS = (
    (("generations", "*"), re.compile(r"generation\.json")),
    (("var", "jobs", "holds"), re.compile(r".+\.json")),
    (("var", "jobs", "slurm", "*"), re.compile(r"request\.json")),
    (("store", "*"), re.compile(r".+\.manifest\.json")),
)
"""Folders, `*` for each folder in one, and the files in them that name installs."""

_SECONDS = 300.0
_HEAD = 8 << 20  # bytes of a file: a manifest names what it needs before its list of paths
_MOST = 100_000  # folders and files of one prefix
_MOST_PREFIXES = 10_000
_GONE = "if it is gone for good, take it out of `downstream:` in site.yaml"


@dataclass(slots=True)
class DownstreamUses:
    """The installs that downstreams use: path below this prefix -> the prefixes. `unknown`: what could not be read."""

    named: dict[str, list[str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def ask_downstreams(prefix: Path, patterns: Sequence[str], check: Callable[[], None]) -> DownstreamUses:
    """Return what `read_downstreams` does, from a process of its own: a file server that hangs must not hang gc."""
    argv = [sys.executable, "-I", "-m", __name__]
    done = run_detached(argv, stdin=json.dumps([str(prefix), *patterns]), seconds=_SECONDS, check=check)
    try:
        return DownstreamUses(**json.loads(done.output))
    except (ValueError, TypeError):
        why = f"no answer within {_SECONDS:.0f} s" if done.returncode is None else done.error.strip()[-200:]
        return DownstreamUses(unknown=[f"downstream: {', '.join(patterns)} could not be read: {why}"])


def main() -> None:
    """Answer `ask_downstreams`: its question on stdin, the uses on stdout, as JSON."""
    prefix, *patterns = json.load(sys.stdin)
    found = read_downstreams(Path(prefix), patterns)
    json.dump({"named": found.named, "unknown": found.unknown}, sys.stdout)


def read_downstreams(prefix: Path, patterns: Sequence[str]) -> DownstreamUses:
    """Return what the prefixes that fit the patterns use of `prefix`. What is away or closed is `unknown`."""
    found = DownstreamUses()
    mark = re.compile(
        re.escape(f"{prefix}/".encode()) + rb"(store/[A-Za-z0-9._+-]+/[A-Za-z0-9._+-]+-[0-9a-f]{8})(?![0-9a-f])"
    )
    for pattern in patterns:
        folders, unknown = downstream_prefixes(pattern)
        found.unknown += unknown
        # A pattern may fit the prefix itself, which names all of its own installs.
        for folder in (each for each in folders if not (prefix.exists() and each.samefile(prefix))):
            for path in _uses(folder, mark, found.unknown):
                found.named.setdefault(path, []).append(f"the downstream {folder}")
    return found


def downstream_prefixes(pattern: str) -> tuple[list[Path], list[str]]:
    """Return the prefixes that fit, and why others cannot be known.

    What is missing before the first `*` is away, which is not the same as none; behind it, it is one without a prefix.
    """
    unknown: list[str] = []
    found, fixed = [Path("/")], True
    for part in Path(pattern).parts[1:]:
        before, fixed = fixed, fixed and "*" not in part
        fitting: list[Path] = []
        name = re.compile(re.escape(part).replace(r"\*", ".*"), re.DOTALL)
        for folder in found:
            try:
                if "*" in part:
                    each = sorted(folder.iterdir())
                    fitting += [path for path in each if name.fullmatch(path.name) and path.is_dir()]
                    if before and not each:
                        unknown.append(f"downstream: {folder} is empty: is it mounted? {_GONE}")
                else:
                    (folder / part).stat()
                    fitting.append(folder / part)
            except (FileNotFoundError, NotADirectoryError) as error:
                if fixed:
                    unknown.append(f"downstream: {folder / part}: {error.strerror}; {_GONE}")
            except OSError as error:
                unknown.append(f"downstream: {folder / part}: {error.strerror}")
        found = fitting
    prefixes = []
    for folder in found:
        try:
            (folder / "store").stat()
            prefixes.append(folder)
        except OSError as error:
            if fixed:  # an unmounted folder has none
                unknown.append(f"downstream: {folder} has no store: is it mounted? {_GONE}")
            elif not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                unknown.append(f"downstream: {folder}: {error.strerror}")
    if len(prefixes) > _MOST_PREFIXES:
        unknown.append(f"downstream: {pattern} fits {len(prefixes)} prefixes, more than are read")
        prefixes = []
    return prefixes, unknown


def _uses(folder: Path, mark: re.Pattern[bytes], unknown: list[str]) -> set[str]:
    found: set[str] = set()
    walk = _Walk()
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folders, names in _RECORDS:
                for text in walk.files(top, str(folder), folders, names):
                    found |= {match.decode() for match in mark.findall(text)}
        finally:
            os.close(top)
    except OSError as error:
        unknown.append(f"downstream: {error.filename or folder}: {error.strerror}")
    return found


class _Walk:
    """A bounded walk through one prefix."""

    def __init__(self) -> None:
        self.left = _MOST

    def files(self, at: int, where: str, folders: Sequence[str], names: re.Pattern[str]) -> Iterator[bytes]:
        """Yield the beginning of each file. Raise OSError for what is there and cannot be read; a missing folder has
        none.
        """
        if folders:
            for name in self._list(at, where) if folders[0] == "*" else [folders[0]]:
                inside = self._enter(at, name, where)
                if inside is None:
                    continue
                try:
                    yield from self.files(inside, f"{where}/{name}", folders[1:], names)
                finally:
                    os.close(inside)
            return
        for name in self._list(at, where):
            if names.fullmatch(name):
                yield self._read(at, name, where)

    def _list(self, at: int, where: str) -> list[str]:
        names = os.listdir(at)
        self.left -= len(names)
        if self.left < 0:
            raise OSError(errno.EINVAL, "it has more files than are read", where)
        return names

    def _enter(self, at: int, name: str, where: str) -> int | None:
        """Return the open folder; None for what is no folder, or is gone."""
        try:
            return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(f"/proc/self/fd/{at}/{name}"):  # noqa: PTH114 - by the open folder
                raise OSError(errno.EINVAL, "it is a link, which is not followed", f"{where}/{name}") from None
            return None
        except OSError as error:
            error.filename = f"{where}/{name}"
            raise

    def _read(self, at: int, name: str, where: str) -> bytes:
        try:
            _require_file(os.stat(name, dir_fd=at, follow_symlinks=False))  # a device hears of an open
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        except FileNotFoundError:  # its run ended
            return b""
        except OSError as error:
            error.filename = f"{where}/{name}"
            raise
        try:  # something else may have taken its place
            _require_file(os.fstat(descriptor), f"{where}/{name}")
            data = bytearray()
            while len(data) < _HEAD and (piece := os.read(descriptor, 1 << 20)):
                data += piece
            return bytes(data)
        finally:
            os.close(descriptor)


def _require_file(status: os.stat_result, name: str = "") -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", name)


if __name__ == "__main__":
    main()
