"""Files and folders by descriptors: each is opened from the folder that it lies in, looked at, and changed by what was
opened.

A name may change hands between two calls; a descriptor does not. For what root, or the owner of the prefix, does where
others can write.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.system.shelltext import quote
from envmgr.system.usernames import user_name

_PASS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC  # neither read nor written: looked at, and passed
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40  # on one way, as the kernel has it


@dataclass(frozen=True, slots=True)
class Way:
    """The way to a path. `folder` is an open descriptor, and `name` what was asked for in it; it need not exist.

    `fault` is why somebody else could change what lies there: the first place on the way that another user made or that
    all may write, in words. `link` is the first link that is neither root's nor the caller's. Both are empty if there
    is none.
    """

    folder: int
    name: str
    fault: str
    link: str


@contextmanager
def way_to(path: Path, *, start: Path = Path("/"), make: bool = False, follow: bool = True) -> Iterator[Way]:
    """Walk from `start` to `path`, folder by folder, and follow links, which count as places on the way; the last one
    with `follow`.

    OSError for folders that are missing, unless they are to be made (`make`): then the way ends before the first one
    where others could change what is made.
    """
    walk = _Walk(start)
    try:
        try:
            way = walk.to(path.absolute().relative_to(start.absolute()), make=make, follow=follow)
        except OSError as error:
            error.filename = str(path)  # not a name in some folder
            raise
        yield way
    finally:
        os.close(walk.folder)


class _Walk:
    def __init__(self, start: Path) -> None:
        # O_PATH needs no right to read: users pass through folders that they cannot list.
        self.folder = os.open(start, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.here = start
        self.fault = ""
        self.link = ""

    def to(self, path: Path, *, make: bool, follow: bool) -> Way:
        # Walked by hand, with an open folder at each step: between a check by name and a use by name, others can swap a
        # link in.
        waiting, links = [*reversed(path.parts)] or ["."], 0
        self._look()
        while True:
            name = waiting.pop()
            try:
                status = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            except FileNotFoundError:
                if not waiting:
                    return Way(self.folder, name, self.fault, self.link)
                if self.fault and make:
                    return Way(self.folder, name, self.fault, self.link)
                if not make:
                    raise
                os.mkdir(name, dir_fd=self.folder)
                status = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode) and (waiting or follow):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                # A link of another user leads wherever that user wants, now or after the check.
                if self._blame(self.here / name, status):
                    self.link = self.link or str(self.here / name)
                target = Path(os.readlink(name, dir_fd=self.folder))
                if target.is_absolute():
                    self._enter("/", Path("/"))
                waiting += [part for part in reversed(target.parts) if part != "/"] or ["."]
            elif waiting:
                self._enter(name, self.here.parent if name == ".." else self.here / name)
            else:
                return Way(self.folder, name, self.fault, self.link)

    def _enter(self, name: str, here: Path) -> None:
        folder = os.open(name, _PASS | os.O_DIRECTORY, dir_fd=self.folder)
        os.close(self.folder)
        self.folder, self.here = folder, here
        self._look()

    def _look(self) -> None:
        status = os.fstat(self.folder)
        self._blame(self.here, status)
        # In a folder like /tmp, the sticky bit keeps others from renaming what is not theirs.
        if status.st_mode & 0o002 and not status.st_mode & stat.S_ISVTX:
            self.fault = self.fault or f"{self.here} can be written by everyone"

    def _blame(self, place: Path, status: os.stat_result) -> bool:
        if status.st_uid in (os.geteuid(), 0):
            return False
        self.fault = self.fault or f"{place} belongs to {user_name(status.st_uid)}, neither to you nor to root"
        return True


def give_folder(path: Path, uid: int, gid: int) -> None:
    """Make a folder, with those above it, and give it to a user: for root, whose it is at first.

    Raises:
        EnvmgrError: `folder-untrusted` where another user could put something else in its place; OSError.
    """
    with way_to(path, make=True) as way:
        if way.fault:
            raise EnvmgrError(
                "folder-untrusted",
                f"{path} is not made: {way.fault}",
                context="root would make it, and give it away: another user could put something else there",
                hint=f"name a folder that nobody but root can change the way to; `namei -l {quote(str(path))}` "
                "shows whose each part is",
            )
        os.mkdir(way.name, dir_fd=way.folder)
        descriptor = os.open(way.name, _LIST, dir_fd=way.folder)
        try:
            # Another user may have put a different folder there between mkdir and open.
            if os.fstat(descriptor).st_uid != os.geteuid() or _names(descriptor):
                raise OSError(errno.EEXIST, "another user made it meanwhile", str(path))
            os.fchown(descriptor, uid, gid)
        finally:
            os.close(descriptor)


def change(
    path: Path,
    *,
    group: int | None = None,
    mode: int | None = None,
    add: int = 0,
    kinds: Sequence[Callable[[int], bool]] = (stat.S_ISDIR,),
) -> None:
    """Give a folder, or what else is of one of `kinds`, to a group, and a mode: `mode`, or its own and the bits `add`.

    A link is followed where it is root's or ours: an administrator may have put a part of the prefix on another disk.
    OSError for anything else that lies there, a file with a second name included.
    """
    with way_to(path) as way, _opened(way.name, way.folder) as descriptor:
        _refuse_link(way, path)
        status = os.fstat(descriptor)
        # A second name of a file may lie where others can reach it: a mode or owner that is set here would count there,
        # too.
        second_name = status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)
        if second_name or not any(kind(status.st_mode) for kind in kinds):
            raise OSError(errno.ENOTDIR, "something else lies there", str(path))
        _set(descriptor, status, -1, group, (stat.S_IMODE(status.st_mode) if mode is None else mode) | add)


def change_tree(
    root: Path,
    *,
    owner: int | None = None,
    group: int | None = None,
    mode: Callable[[os.stat_result], int | None] = lambda _: None,
    only: Callable[[os.stat_result], bool] = lambda _: True,
) -> None:
    """Change everything of a tree: its owner, its group, and except for links the mode that `mode` says. No link is
    followed. `only` chooses.

    Raise OSError.
    """
    with _opened(root.name, _folder_of(root), close=True) as descriptor:
        _change_below(descriptor, owner, group, mode, only)


def _change_below(
    descriptor: int,
    owner: int | None,
    group: int | None,
    mode: Callable[[os.stat_result], int | None],
    only: Callable[[os.stat_result], bool],
) -> None:
    """Change what lies in a folder first: its own mode may close it."""
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        for name in _names(descriptor):
            with _opened(name, descriptor) as below:
                _change_below(below, owner, group, mode, only)
    if only(status):
        link = stat.S_ISLNK(status.st_mode)
        _set(descriptor, status, -1 if owner is None else owner, group, None if link else mode(status))


def _set(descriptor: int, status: os.stat_result, owner: int, group: int | None, mode: int | None) -> None:
    """Change by the name that the kernel has for a descriptor: one that was opened only to be passed can be changed in
    no other way.
    """
    name = f"/proc/self/fd/{descriptor}"
    if owner not in (-1, status.st_uid) or group not in (None, status.st_gid):
        os.chown(name, owner, -1 if group is None else group)
        status = os.fstat(descriptor)  # which may have lost its setgid bit
    if mode is not None and mode != stat.S_IMODE(status.st_mode):
        os.chmod(name, mode)  # noqa: PTH101 - no path: a descriptor


def remove_below(top: Path, path: Path) -> None:
    """Remove a file, or a tree with its read-only folders, through no link of another user between `top` and it. It may
    be missing.

    Raise OSError for what stays.
    """
    while True:
        try:
            with way_to(path, start=top, follow=False) as way:
                _refuse_link(way, path)
                _remove(way.name, way.folder)
                return
        except FileNotFoundError:
            if not os.path.lexists(path):
                return  # else others removed something of it meanwhile


def empty_below(top: Path, path: Path, *, keep: str, first: str) -> None:
    """Remove what lies in a folder except `keep`, `first` before all, and give the folder mode 0755; as `remove_below`.
    Anything but a folder is removed.
    """
    with way_to(path, start=top, follow=False) as way:
        _refuse_link(way, path)
        with _opened(way.name, way.folder) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(way.name, dir_fd=way.folder)
                return
            _set(descriptor, status, -1, None, 0o755)
            # The record goes first: without it, what a kill leaves does not count as a complete generation.
            for name in sorted(_names(descriptor), key=lambda name: name != first):
                if name != keep:
                    with suppress(FileNotFoundError):
                        _remove(name, descriptor)


def _refuse_link(way: Way, path: Path) -> None:
    if way.link:
        raise OSError(errno.ELOOP, "a link of another user leads there", str(path))


def _remove(name: str, folder: int) -> None:
    with _opened(name, folder) as descriptor:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if is_folder:
            _open_doors(descriptor)
    if is_folder:
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def open_doors(root: Path) -> None:
    """Let the owner write every folder of a tree, so that it can be removed. Removal reports what really prevents
    it.
    """
    with suppress(OSError), _opened(root.name, _folder_of(root), close=True) as descriptor:
        _open_doors(descriptor)


def _open_doors(descriptor: int) -> None:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        with suppress(OSError):
            # The mode comes first: without it, the names in the folder cannot be listed.
            _set(descriptor, status, -1, None, 0o700)
            for name in _names(descriptor, folders=True):
                with suppress(OSError), _opened(name, descriptor) as below:
                    _open_doors(below)


def _names(folder: int, *, folders: bool = False) -> list[str]:
    """Return what lies in a folder of which a descriptor is open; if the descriptor can only be passed, only the
    `folders`.
    """
    # A descriptor that was opened with O_PATH cannot be listed.
    listed = os.open(".", _LIST, dir_fd=folder)
    try:
        with os.scandir(listed) as entries:
            return [entry.name for entry in entries if not folders or entry.is_dir(follow_symlinks=False)]
    finally:
        os.close(listed)


@contextmanager
def _opened(name: str, folder: int, *, close: bool = False) -> Iterator[int]:
    try:
        descriptor = os.open(name, _PASS, dir_fd=folder)
    finally:
        if close:
            os.close(folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _folder_of(path: Path) -> int:
    return os.open(path.absolute().parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
