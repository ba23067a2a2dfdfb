"""Images of installs: one squashfs file each, which exists only once its record is written beside it.

The record says of which tree the image is: an image whose tree is not that of its install's manifest is stale.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field

from envmgr.errors import EnvmgrError, InputError
from envmgr.store.manifest import Manifest, read_manifest
from envmgr.store.prefix import Install, Prefix
from envmgr.store.tree import TreePath
from envmgr.system.files import atomic_write, pretty_json, sha256_regular
from envmgr.system.locks import try_file_lock
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.safe_paths import change, remove_below
from envmgr.system.squashfs import Compression
from envmgr.system.untrusted_files import IMAGE_RECORD, read_json, why_unreadable

FORMAT: Literal[1] = 1
"""The number of a record's format; another one is refused."""

OWN_IMAGE = "image.sqfs"
"""The file of an install that is an image itself, which a node copies and does not mount."""

OTHERS = 0o005
"""What other users need of a folder: an install whose umask takes it is closed to them, and an image would not be."""

_MAKING = ".making-"
_OLD = ".old-"
_OLD_FOR = 14 * 86400  # seconds for which an image that was made again stays: nodes may have it mounted from the share


class ImageRecord(FrozenModel):
    """The record of an image: the digest and the tree digest of its install, its own sha256 and size (bytes), and what
    it was made with: `mksquashfs` is a version, `options` decide the bytes.
    """

    schema_version: Literal[1] = Field(default=FORMAT, alias="schema")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    tree: str = Field(pattern=r"^[0-9a-f]{64}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=1)
    compression: Compression
    mksquashfs: str
    options: tuple[str, ...]


def record_of(install: Install) -> Path:
    return install.image.with_name(f"{install.image.name}.json")


def making_of(install: Install) -> Path:
    """Return the file in which an image is made, beside its place. It is written under the install's lock."""
    return install.image.with_name(f"{_MAKING}{install.image.name}")


def own_image(manifest: Manifest) -> TreePath | None:
    """Return the file of an install that is an image itself (`image.sqfs`), as its manifest has it; None of any other."""
    return next((path for path in manifest.paths if path.path == OWN_IMAGE), None)


def read_image(install: Install) -> ImageRecord | None:
    """Return the record; None where the install has no image. Raises EnvmgrError `image-record-damaged`,
    `format-unknown`.
    """
    path = record_of(install)
    try:
        return ImageRecord.model_validate(require_format(read_json(path, IMAGE_RECORD), FORMAT, path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, InputError) as error:
        raise EnvmgrError(
            "image-record-damaged",
            f"{path} cannot be read",
            context=why_unreadable(error),
            hint=f"remove it, then `envmgr stage --image {install.entry}`",
        ) from None


def put_image(install: Install, made: Path, record: ImageRecord, mask: int) -> None:
    """Put an image in its place, with its record. Call it under the install's lock.

    One that was there stays for a while, under another name: on a node that has it mounted, reads would fail.
    """
    change(made, mode=0o444 & ~mask, kinds=(stat.S_ISREG,))
    record_of(install).unlink(missing_ok=True)
    with suppress(OSError):  # there is none; or the file system has no links
        install.image.with_name(f"{_OLD}{time.time_ns()}-{install.image.name}").hardlink_to(install.image)
    made.replace(install.image)
    atomic_write(record_of(install), pretty_json(record.model_dump(mode="json", by_alias=True)), mode=0o444 & ~mask)


def has_image(install: Install) -> bool:
    return install.image.exists() or record_of(install).exists()


def image_faults(install: Install) -> Iterator[str]:
    """Yield what is wrong with the image, as readable lines; nothing where there is no image. It reads all of it."""
    name = f"images/{install.entry.name}/{install.image.name}"
    try:
        record = read_image(install)
    except EnvmgrError as error:
        yield f"{name}: its record is damaged: {error.message}"
        return
    if record is None:
        if install.image.exists():
            yield f"{name}: it has no record"
        return
    if record.tree != read_manifest(install.manifest).tree:
        yield f"{name}: stale: it is of another tree than the install's"
    try:
        status = install.image.lstat()
        same = status.st_size == record.size and sha256_regular(str(install.image), record.size) == record.sha256
    except FileNotFoundError:
        yield f"{name}: missing"
    except OSError as error:
        yield f"{name}: cannot be read: {error.strerror}"
    else:
        if not same:
            yield f"{name}: sha256 changed"


def remove_image(install: Install) -> None:
    """Remove the image and its record, if there are any. Call it under the install's lock."""
    old = install.image.parent.glob(f"{_OLD}*-{install.image.name}")
    for path in (record_of(install), install.image, *old):
        if path.is_symlink() or path.exists():
            remove_below(install.prefix.root, path)


def clear_dead_images(prefix: Prefix) -> None:
    """Remove what killed runs left: images that were being made, and those of installs that do not exist; and images that
    were made again long ago.
    """
    for path in sorted(prefix.images.glob("*/*.sqfs")) if prefix.images.is_dir() else ():
        if path.name.startswith(_OLD):
            since = path.name.removeprefix(_OLD).partition("-")[0]
            if not since.isdecimal() or time.time() - int(since) / 1e9 > _OLD_FOR:
                remove_below(prefix.root, path)
            continue
        label = path.name.removeprefix(_MAKING).removesuffix(".sqfs")
        install = prefix.install_at(f"store/{path.parent.name}/{label}")
        with try_file_lock(install.lock) as free:
            if free and path.name.startswith(_MAKING):
                remove_below(prefix.root, path)
            elif free and not install.exists():
                remove_image(install)
