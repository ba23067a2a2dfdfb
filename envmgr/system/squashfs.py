"""Squashfs files with the same bytes for the same tree, on each host and for each user.

Times, owners and hard links do not count, and modes count only as all users have them. Source: mksquashfs(1), tried
with 4.5.1: one sha256 for one tree with other times, umasks, links, owners and numbers of processors.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envmgr.errors import CommandError, EnvmgrError
from envmgr.system.files import disk_error
from envmgr.system.run import Runner, clean_env

Compression = Literal["zstd", "lz4"]

# 128 KiB: larger blocks make an import read more than it needs, smaller ones cost a request each.
_OF: Mapping[Compression, tuple[str, ...]] = {
    "zstd": ("-comp", "zstd", "-Xcompression-level", "3", "-b", "128K"),
    "lz4": ("-comp", "lz4", "-Xhc", "-b", "128K"),
}
_SAME = (
    *("-all-root", "-all-time", "0", "-mkfs-time", "0", "-root-mode", "0555"),
    *("-no-xattrs", "-no-exports", "-action", "chmod(a+rX)@!type(l)"),
)
_SINCE_4_5 = ("-no-hardlinks",)  # without it, hard links count: of a tree that has some, hosts may make other bytes
_QUIET = ("-noappend", "-no-progress", "-quiet", "-no-recovery")


@dataclass(frozen=True, slots=True)
class Maker:
    """A mksquashfs. `version` is a part of what decides an image's bytes, such as `4.5.1`."""

    program: str
    version: str


def find_maker(runner: Runner) -> Maker:
    """Return the mksquashfs of this host. Raises EnvmgrError `mksquashfs-missing`."""
    program = shutil.which("mksquashfs") or shutil.which("mksquashfs", path=clean_env()["PATH"])
    if program is None:
        raise EnvmgrError(
            "mksquashfs-missing",
            "images are made by `mksquashfs`, which is not on this host",
            hint="install the package squashfs-tools (Debian, Rocky), or squashfs (openSUSE)",
        )
    said = runner.run([program, "-version"], timeout=60, check=False).stdout
    match = re.search(r"version (\S+)", said)
    return Maker(program, match[1] if match else "unknown")


def options_of(compression: Compression, version: str) -> tuple[str, ...]:
    """Return the options that decide the bytes, for this version of mksquashfs. Rocky 9 has 4.4."""
    return (*_OF[compression], *_SAME, *(_SINCE_4_5 if _numbers(version) >= (4, 5) else ()))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def make_squashfs(
    tree: Path,
    target: Path,
    maker: Maker,
    compression: Compression,
    runner: Runner,
    *,
    on_tick: Callable[[], None] = lambda: None,
) -> None:
    """Write the squashfs of a folder to `target`, which must not exist. On failure, nothing is left there.

    Raises EnvmgrError `image-not-made`, `disk-full`.
    """
    try:
        runner.run([maker.program, tree, target, *options_of(compression, maker.version), *_QUIET], on_tick=on_tick)
    except CommandError as error:
        said = [line for line in (error.stderr or error.stdout).splitlines() if line.strip()]
        full = next((number for number in _FULL if any(os.strerror(number) in line for line in said)), None)
        if full is not None and (explained := disk_error(OSError(full, os.strerror(full)), str(target))):
            raise explained from None
        raise EnvmgrError(
            "image-not-made", f"mksquashfs made no image of {tree}", context=said[-5:] or error.message
        ) from None
    finally:
        if not is_squashfs(target):  # its first block is written last
            target.unlink(missing_ok=True)


def tar_command(maker: Maker, target: Path) -> tuple[str, ...]:
    """Return the command that writes the squashfs of the tar on its stdin, with the tar's own times and modes. Its own
    times are SOURCE_DATE_EPOCH. Raises EnvmgrError `mksquashfs-old`.
    """
    if _numbers(maker.version) < (4, 5):
        raise EnvmgrError(
            "mksquashfs-old",
            f"mksquashfs {maker.version} cannot read an image's layers, which are tars",
            hint="build on a host with squashfs-tools 4.5 (of 2021) or later; nodes need none",
        )
    # Looking for duplicates takes the square of the number of small files; hard links stay what they are.
    options = ("-all-root", "-root-mode", "0555", "-no-xattrs", "-no-exports", "-no-duplicates")
    return (maker.program, "-", str(target), "-tar", *_OF["zstd"], *options, *_QUIET)


_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_squashfs(path: Path) -> bool:
    """Return whether the file begins as one. Source: the kernel's squashfs.rst."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"hsqs"
    except OSError:
        return False
