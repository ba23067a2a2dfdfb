"""The lock is what people review: nothing beside it may say otherwise, and a stalled channel may not hold it up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.server import Fault, serve

SIDECAR = "conda-lock.records.json"


@pytest.fixture
def folder(sandbox: Sandbox) -> Path:
    folder = sandbox.recipe("hello/1.0", ["hello-prefix"], tests=[{"name": "t", "run": ":"}])
    sandbox.ok("lock", "hello/1.0")
    return folder


def test_lock_that_was_edited_by_hand_is_told_by_both_checks(sandbox: Sandbox, folder: Path) -> None:
    lock = folder / "conda-lock.yml"
    lock.write_text(lock.read_text().replace("optional: false", "optional: true"))
    told = f"{lock} was changed after it was written: {SIDECAR} belongs to another text"
    checked = sandbox.run("lock", "hello/1.0", "--check")
    assert (checked.code, checked.stdout) == (
        1,
        f"hello/1.0: faulty  1 package  (edited: {told})\n  hint: lock it again\n",
    )
    found = sandbox.run("check", "hello/1.0")
    assert found.code == 1
    assert told in found.stdout
    refused = sandbox.run("build", "hello/1.0")
    assert refused.code == 2
    assert refused.stderr == (
        "error[lock-contradicts]: the lock of hello/1.0 contradicts itself, or its recipe\n"
        f"  edited: {told}\n\nhint: `envmgr lock hello/1.0` writes it again\n"
    )


def test_lock_against_a_mirror_that_stalls_ends_with_the_mirror_named(sandbox: Sandbox, channel: Channel) -> None:
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.policies["stall_timeout"] = 1.5
    with serve(channel.folder, {"*repodata*": Fault("stall")}) as server:
        sandbox.mirror = server.url
        sandbox.write_site()
        done = sandbox.run("lock", "hello/1.0")
        server.release()
    assert done.code == 3
    lines = done.stderr[done.stderr.index("error[") :].splitlines()
    assert lines[0] == "error[download-stalled]: a channel stalled: 0 B in 1.5 s"
    assert f"  {server.url}" in lines


def test_build_from_a_lock_without_sizes_keeps_the_room_that_the_site_wants(
    sandbox: Sandbox, channel: Channel, folder: Path
) -> None:
    (folder / SIDECAR).unlink()  # conda-lock's format has no sizes
    with serve(channel.folder) as server:
        sandbox.mirror = server.url
        sandbox.policies["min_free"] = 1 << 60
        sandbox.write_site()
        refused = sandbox.run("build", "hello/1.0")
        assert refused.code == 3
        assert "error[disk-full]" in refused.stderr
        sandbox.policies["min_free"] = 0
        sandbox.write_site()
        sandbox.ok("build", "hello/1.0")
        assert [r.method for r in server.requests if r.path.endswith(".conda")] == ["GET"]


def test_package_of_a_place_that_is_none_of_the_recipes_is_refused(sandbox: Sandbox, folder: Path) -> None:
    lock = folder / "conda-lock.yml"
    text = lock.read_text()
    (url,) = (line.split()[-1] for line in text.splitlines() if line.strip().startswith("url: ") and ".conda" in line)
    place = url.rsplit("/", 2)[0]
    (folder / SIDECAR).unlink()  # the lock stands for itself
    for evil in ("https://evil.example/standin", f"{place}/../evil", f"{place}.evil"):
        lock.write_text(text.replace(url, url.replace(place, evil)))
        for verb in (("build",), ("fetch",), ("lock", "--check"), ("check",)):
            done = sandbox.run(*verb, "hello/1.0")
            assert done.code in (1, 2), (verb, evil)
            assert "hello-prefix comes from no channel or index that is allowed" in done.stdout + done.stderr
    lock.write_text(text)
    sandbox.ok("lock", "--check", "hello/1.0")
