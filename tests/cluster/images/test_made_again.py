"""Images that are made again while nodes have them, what another hand mounted, and disks without room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.helpers.cluster.disguises import do
from tests.helpers.image_scene import ENTRY, LOCAL, Images, forget, rows_of, staging

pytestmark = [pytest.mark.xdist_group("images"), pytest.mark.always]
OTHER = "hello/2.0"


@contextmanager
def made_again(images: Images) -> Iterator[None]:
    """The image has other bytes than before."""
    try:
        images.run("stage", "--image", ENTRY, "--compression", "lz4")
        forget(images, "c1")
        yield
    finally:
        images.run("stage", "--image", ENTRY, "--compression", "zstd")


def test_image_that_is_read_from_the_share_can_be_made_again(images: Images) -> None:
    """A site without a quota for copies reads images from the share, and that is all it wants.

    The tests' NFS client knows a file by its path, and a kernel's by its handle: the node has the folder of images on a disk here.
    """
    folder, _, name = images.image.rpartition("/")
    share = f"mount --bind {folder} /run/share"
    do(
        images.cluster,
        "c1",
        f"mkdir /run/images /run/share; {share}; cp {folder}/* /run/images; mount --bind /run/images {folder}",
    )
    try:
        with staging(images, entries=[ENTRY], nodes="c1", quota=0):
            images.run("stage", "--sync")
            assert images.staged() == {"c1": ("share", "")}
            assert images.audit(code=0) == []
            with made_again(images):
                put = f"ln {name} .old-1-{name}; cp /run/share/{name} .new; mv .new {name}"
                do(images.cluster, "c1", f"cd /run/images; {put}")
                forget(images, "c1")
                do(
                    images.cluster, "c1", f"{images.install}/bin/python -c 'import json, email'"
                )  # what was mounted is whole
                with images.working("c1", images.install):
                    ((state, why),) = images.stage(nodes="c1", code=1).values()
                    assert (state, why.split()[0]) == ("waiting", "waiting:")
                assert images.stage(nodes="c1") == {"c1": ("share", "")}
                same = f"cmp -n 96 $(findmnt -no SOURCE {images.install}) {images.image}"
                do(images.cluster, "c1", same)
                assert images.unstage().data["removed"] == [f"c1: {images.install}"]
                assert images.source("c1") == ""
    finally:
        do(
            images.cluster,
            "c1",
            f"umount -l {images.install} 2>/dev/null || :; umount -l {folder} /run/share; rm -r /run/images /run/share",
        )


def test_new_image_takes_the_place_of_an_older_copy_also_at_boot(images: Images) -> None:
    with staging(images, nodes="c1"):
        images.run("node-setup", "--apply", "--nodes", "c1")
        images.stage(nodes="c1")
        older = images.copy("c1")
        with made_again(images):
            assert images.stage(nodes="c1") == {"c1": ("local", "")}
            assert images.source("c1") == images.copy("c1") != older
            assert images.staged() == {"c1": ("local", "")}
            do(images.cluster, "c1", f"umount {images.install}; /etc/envmgr/node/images")
            assert images.source("c1") == images.copy("c1")
            images.unstage()
    images.audited.set_up("c1")
    do(images.cluster, "c1", "rm -f /etc/envmgr/node/images /etc/envmgr/node/images.sh")


def test_file_that_another_hand_mounted_is_not_unmounted(images: Images) -> None:
    do(
        images.cluster,
        "c1",
        f"mkdir -p '/run/o r/bin'; mksquashfs '/run/o r' '/run/o r.sqfs' -quiet; mount -o loop,ro '/run/o r.sqfs' {images.install}",
    )
    try:
        ((state, why),) = images.stage(nodes="c1", code=1).values()
        assert (state, why) == ("other", "/run/o r.sqfs is mounted there, which is not this image")
        images.unstage()
        assert images.source("c1") == "/run/o r.sqfs"
    finally:
        do(images.cluster, "c1", f"umount {images.install}; rm -r '/run/o r' '/run/o r.sqfs'")


def test_image_that_never_fits_takes_no_other_away(images: Images) -> None:
    images.run("stage", "--image", OTHER)
    images.stage(nodes="c1")
    with staging(images, quota=5000):
        done = images.run("stage", OTHER, "--nodes", "c1", "--format", "json", code=3)
    assert {row["why"] for row in done.data["images"]} == {"the quota of 5000 bytes is full"}
    assert images.staged()["c1"] is not None
    assert images.source("c1") == images.copy("c1")


def test_what_was_used_longest_ago_goes_first(images: Images) -> None:
    """Though it was staged last: the days on which nodes read a copy count."""
    images.run("stage", "--image", OTHER)
    images.stage(nodes="c1")
    first = images.copy("c1")
    other = f"{LOCAL}/other+9.9-00000000.00000000.sqfs"
    info = f"sed 's#hello/1.0-[0-9a-f]*#other/9.9-00000000#' {first[:-5]}.info >{other[:-5]}.info"
    old = f"touch -a -d '9 days ago' {first}; touch -a -d '5 days ago' {other}"
    do(images.cluster, "c1", f"cp {first} {other}; {info}; {old}; echo 3 >/proc/sys/vm/drop_caches")
    do(images.cluster, "c1", f"cat {images.install}/bin/* >/dev/null")
    used = do(images.cluster, "c1", f"stat -c %X {first} {other}").split()
    assert int(used[0]) > int(used[1])
    size = int(do(images.cluster, "c1", f"stat -c %s {first}"))
    with staging(images, quota=size * 5 // 2):
        assert rows_of(images.run("stage", OTHER, "--nodes", "c1", "--format", "json")) == {"c1": ("local", "")}
    kept = do(images.cluster, "c1", f"ls {LOCAL}/*.sqfs").split()
    assert first in kept
    assert other not in kept


def test_disk_without_a_byte_mounts_nothing_that_cannot_be_known(images: Images) -> None:
    do(
        images.cluster,
        "c1",
        f"mkdir -p {LOCAL}; mount -t tmpfs -o size=64k tmpfs {LOCAL}; dd if=/dev/zero of={LOCAL}/fill bs=4k 2>/dev/null || :",
    )
    try:
        ((state, why),) = images.stage(nodes="c1", code=3).values()
        assert (state, why) == ("failed", f"the local disk is full: nothing can be written to {LOCAL}")
        assert images.source("c1") == ""
    finally:
        do(images.cluster, "c1", f"umount -l {LOCAL}")


def test_images_of_another_site_are_left_alone(images: Images) -> None:
    line = f"/other/sw/store/x/1-00000000 x+1-00000000.abcdabcd /other/sw/images/x/1-00000000.sqfs {'ab' * 32} 5"
    do(images.cluster, "c1", f"mkdir -p {LOCAL}; echo '{line}' >{LOCAL}/x+1-00000000.abcdabcd.info")
    try:
        assert images.staged() == {}
        images.unstage()
        with staging(images, entries=[ENTRY], nodes="c1"):
            images.run("stage", "--sync")
        assert do(images.cluster, "c1", f"ls {LOCAL}/x+*") != ""
    finally:
        do(images.cluster, "c1", f"rm {LOCAL}/x+*")


def test_second_run_waits_as_long_as_the_first_one_takes(images: Images) -> None:
    """Longer than a node itself waits."""
    do(images.cluster, "c1", f"mkdir -p {LOCAL}")
    with images.cluster.start("c1", ["flock", f"{LOCAL}/.lock", "sleep", "25"]) as holder:
        assert images.stage(nodes="c1") == {"c1": ("local", "")}
        holder.wait()


def test_copy_is_read_again_each_day_and_a_damaged_one_is_replaced(images: Images) -> None:
    """Longer than an audit can: one that is too large for it is read here."""
    images.stage(nodes="c1")
    copy = images.copy("c1")
    do(images.cluster, "c1", f"printf x | dd of={copy} bs=1 seek=4000 conv=notrunc")
    with images.working("c1", images.install):
        ((state, why),) = images.stage(nodes="c1", code=3).values()
        assert (state, why.split(":")[0]) == ("failed", "damaged")
    assert images.stage(nodes="c1") == {"c1": ("local", "")}
    assert images.audit(code=0) == []
    do(images.cluster, "c1", f"cd {LOCAL}; echo 5 $(cut -d' ' -f2- *.read) >{LOCAL}/old; mv old $(ls *.read)")
    assert images.stage(nodes="c1") == {"c1": ("local", "")}
    assert int(do(images.cluster, "c1", f"cut -d' ' -f1 {LOCAL}/*.read")) > 5
