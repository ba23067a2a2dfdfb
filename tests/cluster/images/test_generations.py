"""Images and the generations: rollback, removal, gc and repair where an install is staged, and a share that is lost under an image."""

from __future__ import annotations

import datetime
import re
import shlex
import time

import pytest

from tests.helpers.cluster import faults
from tests.helpers.cluster.disguises import do
from tests.helpers.image_scene import ENTRY, Images, forget, rows_of, site_with, staging

pytestmark = pytest.mark.xdist_group("image generations")


def hints(images: Images) -> list[str]:
    """The commands of the audit's hints, of its check of images."""
    found = images.audited.audit("--via", "ssh", "--check", "images")["findings"]
    return [command for finding in found for command in re.findall(r"`(envmgr .*?)`", finding["hint"])]


def obey(images: Images, commands: list[str]) -> None:
    for command in dict.fromkeys(commands):
        for each in command.split(" && "):
            images.run(*shlex.split(each)[1:])


def test_rollback_and_gc_where_an_install_is_staged(images: Images) -> None:
    cluster, first = images.cluster, images.install
    before = images.audited.generation
    cluster.recipe("hello/1.0", ["python", "six"])
    with site_with(
        images, staging={"entries": [ENTRY], "nodes": "c[1-3]"}, policies={"min_free": 0, "keep_generations": 1}
    ):
        images.run("stage", "--sync")
        images.run("lock", ENTRY)
        images.run("build", ENTRY)
        assert sorted(images.audit(code=1)) == [
            ("warning", "", f"{ENTRY} has no image that is of its install"),
            ("warning", "c[1-3]", f"{first} is staged"),
        ]
        obey(images, hints(images))
        assert [text for _, _, text in images.audit()] == []
        assert [*images.staged().values()] == [("local", "")]

        images.run("rollback")
        assert images.audited.generation == before
        found = images.audit()
        assert ("warning", "c[1-3]", f"{first} is read from the share") in found
        cluster.recipe("hello/1.0", ["python"])
        cluster.recipe("extra/1.0", ["python"])
        images.run("lock", ENTRY, "extra/1.0")
        images.run("build", "extra/1.0")
        # Nothing uses the second install but its images on nodes, where gc asks.
        done = images.run("gc", "--now", "--format", "json").data
        assert [path for path in done["installs"] if "hello" in path] == [], done
        (kept,) = (row for row in done["kept"] if row["path"].startswith("store/hello/1.0-"))
        assert "staged on c1; " in kept["reason"]
        obey(images, hints(images))
        assert images.audit() == []
        assert images.source("c2").startswith("/var/lib/envmgr/images/hello+" + first.rpartition("/")[2])
        done = images.run("gc", "--now", "--format", "json").data
        assert len([path for path in done["installs"] if "hello" in path]) == 1, done
        images.run("publish", "--remove", "extra/1.0")


def test_removed_entry_is_unstaged_by_sync(images: Images) -> None:
    with staging(images, entries=["hello/*"], nodes="c[1-3]"):
        images.run("stage", "--image", "hello/2.0")
        images.run("stage", "--sync")
        assert len(images.run("stage", "--status", "--format", "json").data["images"]) == 2
        images.run("publish", "--remove", ENTRY)
        assert [severity for severity, _, _ in images.audit()] == ["warning"]
        obey(images, hints(images))
        assert images.audit() == []
        assert [row["entries"] for row in images.run("stage", "--status", "--format", "json").data["images"]] == [
            ["hello/2.0"]
        ]
        images.run("rollback")


def test_install_that_is_staged_is_made_again_once_it_is_unstaged(images: Images) -> None:
    """The host that builds has an image over the install."""
    with staging(images, nodes="login"):
        images.run("stage", ENTRY)
        file = do(images.cluster, "fs1", f"find {images.install} -name '*.py' | head -n 1").strip()
        before = do(images.cluster, "fs1", f"cat {file}")
        do(images.cluster, "fs1", f"chmod u+w {file} {file.rpartition('/')[0]}; echo >>{file}")
        try:
            # Through the image all is well; the tree below it is not looked at.
            assert rows_of(images.run("stage", "--status", "--format", "json")) == {"login": ("local", "")}
            images.run("verify", ENTRY)
            done = images.run("build", "--again", ENTRY, code=3)
            assert f"error[again-impossible]: an image of {ENTRY} is mounted over it on this host\n" in done.stderr
            images.run("stage", "--remove", ENTRY)
            forget(images, "login")
            images.run("verify", ENTRY, code=1)
            images.run("build", "--again", ENTRY)
            images.run("verify", ENTRY)
        finally:
            images.run("stage", "--remove", "--all")
        assert do(images.cluster, "fs1", f"cat {file}") == before


@pytest.mark.parametrize("quota", [1, 1 << 40], ids=["mounted from the share", "mounted from the disk"])
def test_login_does_not_hang_when_the_share_is_lost_under_an_image(images: Images, quota: int) -> None:
    cluster = images.cluster
    with staging(images, nodes="c1", quota=quota):
        images.run("stage", ENTRY, code=3 if quota == 1 else 0)
        assert bool(images.source("c1").startswith("/var/")) == (quota != 1)
        with faults.hung(cluster, "c1"):
            for shell in ("bash", "zsh", "tcsh"):
                words = ["-l", "-c"] if shell != "tcsh" else ["-c"]
                said = cluster.exec("c1", [shell, *words, "echo in; pwd"], user="alice").stdout
                assert said.splitlines()[-2:] == ["in", "/"] or said.splitlines()[-2:] == ["in", "/home/alice"], said
        forget(images, "c1")
        assert cluster.exec("c1", [f"{images.install}/bin/python", "-c", "print(1)"], user="alice").stdout == "1\n"


def test_candidate_is_staged_before_its_flip_and_late_nodes_stop_none(images: Images) -> None:
    cluster, before = images.cluster, images.audited.generation
    cluster.recipe("hello/1.0", ["python", "six"])
    policies = {"min_free": 0, "stage_before_publish": True}
    with site_with(images, staging={"entries": [ENTRY], "nodes": "c[1-3]"}, policies=policies):
        images.run("lock", ENTRY)
        images.run("build", "--candidate", ENTRY)
        assert images.audited.generation == before
        done = images.run("promote", "--format", "json").data
        (staged,) = done["staged"]
        assert re.fullmatch(r"local: \S+/store/hello/1\.0-\w{8} on c\[1-3\]", staged)
        assert images.audited.generation == done["candidate"]
        flip = images.run("history", "--format", "json").data["flips"][-1]
        began = min(image["age"] for image in images.run("stage", "--status", "--format", "json").data["images"])
        age = time.time() - datetime.datetime.fromisoformat(flip["time"]).timestamp()
        assert began >= int(age)  # the copies are older than the flip
        assert not [text for _, _, text in images.audit() if "read from the share" in text]
    cluster.recipe("hello/1.0", ["python", "shared"])
    late = {"entries": [ENTRY], "nodes": "c[1-3]", "before_publish": 0.1}
    with site_with(images, staging=late, policies=policies):
        images.run("lock", ENTRY)
        images.run("build", "--candidate", ENTRY)
        done = images.run("promote", "--format", "json").data
        assert [line.partition(":")[0] for line in done["staged"]] == ["not all is staged"]
        assert images.audited.generation == done["candidate"]
    images.run("rollback", str(before))
    cluster.recipe("hello/1.0", ["python"])
    images.run("lock", ENTRY)
