"""Makes the image of an install, after the install was seen to be what its manifest says."""

from __future__ import annotations

from dataclasses import dataclass

from envmgr.errors import EnvmgrError
from envmgr.images import ImageStatus
from envmgr.report import Reporter
from envmgr.store.image import OTHERS, ImageRecord, image_faults, making_of, put_image, read_image
from envmgr.store.manifest import read_manifest
from envmgr.store.prefix import Install
from envmgr.store.verify import require_unchanged
from envmgr.system.files import explain_os_error, sha256_file
from envmgr.system.locks import file_lock
from envmgr.system.run import Runner
from envmgr.system.squashfs import Compression, Maker, make_squashfs, options_of


@dataclass(frozen=True, slots=True)
class Made:
    """The image of one install; `size` and `of` are bytes of the image and of the install, `why` is why it was made."""

    status: ImageStatus
    size: int
    of: int
    compression: Compression
    why: str = ""


def make_image(
    install: Install,
    compression: Compression | None,
    *,
    maker: Maker,
    runner: Runner,
    reporter: Reporter,
    dry_run: bool = False,
) -> Made:
    """Make the image, unless a sound one is there. `compression` None takes what is there, else zstd.

    The install is read whole, and so is an image that is there.

    Raises EnvmgrError `image-restricted`, `install-differs`, `image-not-made`, `disk-full`.
    """
    manifest = read_manifest(install.manifest)
    if manifest.mask & OTHERS:
        raise EnvmgrError(
            "image-restricted",
            f"{install.path} is closed to other users, and an image is open to all",
            context=f"policies.umask of the site is {manifest.mask:03o}",
        )
    record, why = _look(install, manifest.tree, compression)
    used: Compression = compression or (record.compression if record else "zstd")
    if not why or dry_run:
        size = record.size if record and not why else 0
        return Made("would-make" if why else "there", size, manifest.size, used, why)
    require_unchanged(install, install.entry, reporter)
    with file_lock(install.lock, check=runner.raise_if_cancelled), explain_os_error(install.image):
        made = making_of(install)
        made.parent.mkdir(parents=True, exist_ok=True)
        made.unlink(missing_ok=True)
        with reporter.stage(f"{install.entry} image", unit="bytes") as stage:

            def tick() -> None:
                if made.exists():
                    stage.update(made.stat().st_size)

            make_squashfs(install.path, made, maker, compression=used, runner=runner, on_tick=tick)
        size = made.stat().st_size
        record = ImageRecord(
            digest=manifest.digest,
            tree=manifest.tree,
            sha256=sha256_file(made),
            size=size,
            compression=used,
            mksquashfs=maker.version,
            options=options_of(used, maker.version),
        )
        put_image(install, made, record, manifest.mask)
    return Made("made", size, manifest.size, used, why)


def _look(install: Install, tree: str, compression: Compression | None) -> tuple[ImageRecord | None, str]:
    """Return the record of the image that is there, and why another one must be made; empty if it need not."""
    try:
        record = read_image(install)
    except EnvmgrError as error:
        return None, error.message
    if record is None or not install.image.is_file():
        return record, "there is none"
    if record.tree != tree:
        return record, "stale: it is of another tree than the install's"
    if compression not in (None, record.compression):
        return record, f"it has {record.compression}"
    # Another version of mksquashfs may make other bytes, and the ones that are there are as good.
    if {*record.options} != {*options_of(record.compression, record.mksquashfs)}:
        return record, "it was made with other options"
    return record, "; ".join(image_faults(install))
